// From the raw cache events of one (worker, rank) to the events that routers get: batched, without
// what others still hold, split to the size of a message, numbered.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/transport/router_event.h"
#include "worker/kv_relay/batcher.h"
#include "worker/kv_relay/indexer.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace understudy::worker {

/// Outbound ids count from 1 and are contiguous, over all tiers: the router asks again when one is
/// missing. Pure, on one thread. Source: events.md 4.1.
class RankPublisher {
 public:
  struct Options {
    WorkerId worker_id{};
    DpRank dp_rank{};
    BatchingOptions batching;
    bool answers_queries = true;  ///< see Indexer
  };
  /// Gets each event when it has its id.
  using Sink = std::function<void(const transport::RouterEvent&)>;

  RankPublisher(const Options& options, TimePoint now);

  /// What the engine said at once, in order. `event_id` is the engine's own number: it counts from
  /// 0, a gap means that events were lost on the way here. Worker and rank are filled in. No event
  /// is longer than `event_bytes_max` in msgpack or JSON, unless a single block is.
  void Take(std::vector<transport::RouterEvent> unit,
            TimePoint now,
            std::size_t event_bytes_max,
            const Sink& sink);
  /// Ends what is pending: at due(), and at the end.
  void Flush(TimePoint now, std::size_t event_bytes_max, const Sink& sink);
  [[nodiscard]] std::optional<TimePoint> due() const { return batcher_.due(); }

  [[nodiscard]] Indexer& indexer() { return indexer_; }
  /// Events of the engine that never came.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  void Emit(std::size_t event_bytes_max, const Sink& sink);

  WorkerId worker_id_;
  DpRank dp_rank_;
  Batcher batcher_;
  Indexer indexer_;
  std::vector<transport::RouterEvent> ready_;  ///< scratch
  std::uint64_t next_id_ = 1, lost_ = 0;
  std::optional<std::uint64_t> last_raw_;
};

/// Cuts a stored or removed event into pieces of at most `bytes_max` each (estimated from above for
/// both codecs), at least a block; the parent of a piece is the last block of the one before.
[[nodiscard]] std::vector<transport::RouterEvent> SplitEvent(transport::RouterEvent event,
                                                             std::size_t bytes_max);

}  // namespace understudy::worker
