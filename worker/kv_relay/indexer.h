// What a rank keeps so that routers can catch up: its newest events, and the blocks that it holds.
#pragma once

#include "understudy/transport/router_event.h"
#include "worker/kv_relay/block_tree.h"
#include "worker/kv_relay/event_ring.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

namespace understudy::worker {

/// Pure, on one thread. Source: events.md 4.1 (dedup) to 4.3; vectors/events/local_indexer_query_*.
class Indexer {
 public:
  /// `answers_queries` false: only references are counted (durable mode has no query endpoint).
  explicit Indexer(bool answers_queries = true) : answers_queries_(answers_queries) {}

  /// Counts references. Takes out of a removal the blocks that others still hold; false: nothing is
  /// left of it, the event is not published and gets no id.
  [[nodiscard]] bool Admit(transport::RouterEvent& event);
  /// After Admit, when the event has its id.
  void Record(const transport::RouterEvent& event);

  /// How a query is to be answered.
  struct Range {  ///< events first..last of the ring
    std::uint64_t first = 0, last = 0;
  };
  struct Dump {};
  struct TooNew {
    std::uint64_t requested_start = 0, requested_end = 0, newest_available = 0;
  };
  struct InvalidRange {
    std::uint64_t start_id = 0, end_id = 0;
  };
  using Plan = std::variant<Range, Dump, TooNew, InvalidRange>;
  /// `end` is no cut-off, as in the reference: a range goes on to the newest event.
  [[nodiscard]] Plan PlanFor(std::optional<std::uint64_t> start,
                             std::optional<std::uint64_t> end) const;

  [[nodiscard]] const EventRing& ring() const { return ring_; }
  /// Newest published id, 0 before the first.
  [[nodiscard]] std::uint64_t last_id() const { return last_id_; }
  /// nullptr: the tier never had a block.
  [[nodiscard]] BlockTree* tree(transport::StorageTier tier) {
    return trees_[static_cast<std::size_t>(tier)].get();
  }
  [[nodiscard]] std::size_t blocks() const;
  /// Blocks that could not be indexed, or whose parent was not there.
  [[nodiscard]] std::uint64_t doubtful() const;

 private:
  bool answers_queries_;
  EventRing ring_;
  std::uint64_t last_id_ = 0;
  std::array<std::unique_ptr<BlockTree>, 4> trees_;
};

}  // namespace understudy::worker
