// An engine with its real threads, and the loop on which its hand-offs are controlled.
#pragma once

#include "tests/fakes/loop_thread.h"
#include "understudy/mocker/mocker_engine.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace understudy::mocker {

/// Everything but Engine::Stop runs on the loop's thread.
class LiveRig final : public engine::EngineSink {
 public:
  explicit LiveRig(const MockerOptions& options);
  ~LiveRig() override;
  LiveRig(const LiveRig&) = delete;
  LiveRig& operator=(const LiveRig&) = delete;

  void OnKvEvents(std::vector<engine::KvEvent> events) override;
  void OnPassBatch(engine::PassBatch batch) override;

  template <class F>
  auto Do(F function) {
    return thread.Do(std::move(function));
  }
  engine::Request MakeRequest(std::size_t prompt, std::uint32_t outputs, std::uint32_t rank = 0);
  /// On the loop: when the request has its last token, maybe at once.
  void WhenDone(RequestId id, std::function<void()> then);

  fakes::LoopThread thread;
  SteadyClock clock;
  std::unique_ptr<engine::Engine> engine;
  engine::Handoffs* handoffs = nullptr;

  // on the loop
  std::map<RequestId, std::size_t> tokens;
  std::set<RequestId> done;
  std::map<RequestId, std::function<void()>> when_done;
  std::uint64_t stored_events = 0;
  std::uint64_t last_id = 0;
  engine::Load load;
};

[[nodiscard]] MockerOptions RigOptions(WorkerType type, double speedup);

}  // namespace understudy::mocker
