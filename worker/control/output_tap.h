// Sorts out the outputs of requests that controllers brought, on their way to the request path.
#pragma once

#include "understudy/base/ids.h"
#include "understudy/engine/engine.h"
#include "understudy/transport/loop.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace understudy::worker {

/// An output of a controller's request; `failure` is set when the engine gave it up.
struct ControlOutput {
  engine::Output output;
  std::string failure;
};

/// Everything goes on to the sink behind it; costs nothing while no controller's request is there.
class OutputTap final : public engine::EngineSink {
 public:
  /// `handler` runs on the loop, while the tap lives. The engine is stopped before the tap goes.
  OutputTap(transport::Loop& loop,
            engine::EngineSink& next,
            std::function<void(const std::vector<ControlOutput>&)> handler)
      : loop_(loop), next_(next), handler_(std::move(handler)) {}
  ~OutputTap() override { *alive_ = false; }
  OutputTap(const OutputTap&) = delete;
  OutputTap& operator=(const OutputTap&) = delete;

  /// On the loop: an id that no stream of `generate` has. Take one for each request, give it back
  /// at its end.
  [[nodiscard]] RequestId TakeId();
  void GiveBack() { live_.fetch_sub(1, std::memory_order_relaxed); }

  // engine threads
  void OnKvEvents(std::vector<engine::KvEvent> events) override {
    next_.OnKvEvents(std::move(events));
  }
  void OnPassBatch(engine::PassBatch batch) override;

 private:
  transport::Loop& loop_;
  engine::EngineSink& next_;
  std::function<void(const std::vector<ControlOutput>&)> handler_;
  std::atomic<std::uint32_t> live_{0};  ///< requests of controllers
  std::uint64_t last_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< read by posts
};

}  // namespace understudy::worker
