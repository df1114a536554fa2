// The newest events of a rank, for routers that missed some.
#pragma once

#include "understudy/transport/router_event.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace understudy::worker {

/// Ids are contiguous. Memory grows with use. Source: events.md 4.2.
class EventRing {
 public:
  static constexpr std::size_t kEventsMax = 1024;
  /// Over all events; beyond it the oldest go early. The newest one is always there.
  static constexpr std::size_t kBlocksMax = std::size_t{1} << 18U;

  /// `event.event_id` follows that of the event before.
  void Push(const transport::RouterEvent& event);

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  /// 0 when empty.
  [[nodiscard]] std::uint64_t first_id() const { return first_id_; }
  [[nodiscard]] std::uint64_t last_id() const {
    return empty() ? 0 : first_id_ + entries_.size() - 1;
  }
  /// Where an answer that begins at `id` may begin as well: at the last clear behind it.
  [[nodiscard]] std::uint64_t StartOf(std::uint64_t id) const {
    return last_clear_id_ > id ? last_clear_id_ : id;
  }
  [[nodiscard]] std::size_t blocks_of(std::uint64_t id) const { return At(id).block_count; }
  /// Fills in all but worker and rank. first_id() <= id <= last_id().
  void Read(std::uint64_t id, transport::RouterEvent& event) const;

 private:
  struct Rare {
    std::optional<std::uint32_t> start_position;
    std::vector<transport::BlockMmInfo> mm_infos;
    std::optional<std::string> session_id;
  };
  /// An event in 40 bytes and its blocks.
  struct Entry {
    std::uint64_t parent = 0;
    std::unique_ptr<transport::RouterBlock[]> blocks;
    std::unique_ptr<Rare> rare;
    std::uint32_t block_count = 0;
    transport::RouterEvent::Kind kind{};
    transport::StorageTier tier{};
    transport::ResidencyDomain domain{};
    bool has_parent = false;
  };
  [[nodiscard]] const Entry& At(std::uint64_t id) const {
    return entries_[static_cast<std::size_t>(id - first_id_)];
  }

  std::deque<Entry> entries_;
  std::size_t blocks_ = 0;
  std::uint64_t first_id_ = 0, last_clear_id_ = 0;
};

}  // namespace understudy::worker
