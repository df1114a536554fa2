// Which instances of an endpoint there are, and what their model cards say of their caches.
#pragma once

#include "understudy/transport/discovery.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/records.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace understudy::worker {

struct SeenInstance {
  std::uint64_t id = 0;
  bool has_card = false;
  std::optional<std::uint32_t> block_size, first_rank, ranks;  ///< of the card
  friend bool operator==(const SeenInstance&, const SeenInstance&) = default;
};

/// Joins the records of `v1/instances/...` and `v1/mdc/...` of one endpoint; what cannot be read is
/// not there.
[[nodiscard]] std::vector<SeenInstance> JoinInstances(
    const std::vector<transport::Record>& instances, const std::vector<transport::Record>& models);

/// Asks discovery again and again. When it does not answer, what was seen last still counts. On the
/// loop's thread.
class Follower {
 public:
  static constexpr Nanoseconds kInterval = std::chrono::seconds(1);
  using Changed = std::function<void(const std::vector<SeenInstance>&)>;

  /// `changed` gets every new view, the first one included.
  Follower(transport::Loop& loop,
           transport::Discovery& discovery,
           const transport::EndpointName& endpoint,
           Changed changed);
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  void Start() { Ask(); }
  void Stop() {
    stopped_ = true;
    timer_->Cancel();
  }

 private:
  void Ask();
  void AskCards(std::vector<transport::Record> instances);
  void Failed(const Error& error);
  void Next();

  transport::Discovery& discovery_;
  std::string place_;  // <ns>/<component>/<endpoint>/
  Changed changed_;
  std::optional<std::vector<SeenInstance>> seen_;
  bool stopped_ = false, failing_ = false;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
  std::unique_ptr<transport::Timer> timer_;
};

}  // namespace understudy::worker
