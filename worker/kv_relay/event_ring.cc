#include "worker/kv_relay/event_ring.h"

#include "understudy/base/assert.h"

#include <algorithm>
#include <utility>

namespace understudy::worker {

void EventRing::Push(const transport::RouterEvent& event) {
  UNDERSTUDY_ASSERT(empty() || event.event_id == last_id() + 1);
  if (empty()) {
    first_id_ = event.event_id;
  }
  Entry entry;
  entry.kind = event.kind;
  entry.tier = event.tier;
  entry.domain = event.domain;
  entry.has_parent = event.parent.has_value();
  entry.parent = event.parent ? Value(*event.parent) : 0;
  entry.block_count = static_cast<std::uint32_t>(event.blocks.size());
  if (!event.blocks.empty()) {
    entry.blocks = std::make_unique<transport::RouterBlock[]>(event.blocks.size());
    std::copy(event.blocks.begin(), event.blocks.end(), entry.blocks.get());
  }
  if (event.start_position || event.session_id || !event.mm_infos.empty()) {
    entry.rare =
        std::make_unique<Rare>(Rare{event.start_position, event.mm_infos, event.session_id});
  }
  blocks_ += entry.block_count;
  entries_.push_back(std::move(entry));
  if (event.kind == transport::RouterEvent::Kind::kCleared) {
    last_clear_id_ = event.event_id;
  }
  while (entries_.size() > kEventsMax || (blocks_ > kBlocksMax && entries_.size() > 1)) {
    blocks_ -= entries_.front().block_count;
    entries_.pop_front();
    ++first_id_;
  }
}

void EventRing::Read(std::uint64_t id, transport::RouterEvent& event) const {
  UNDERSTUDY_ASSERT(!empty() && id >= first_id_ && id <= last_id());
  const Entry& entry = At(id);
  event.event_id = id;
  event.kind = entry.kind;
  event.tier = entry.tier;
  event.domain = entry.domain;
  event.parent.reset();
  if (entry.has_parent) {
    event.parent = BlockHash{entry.parent};
  }
  event.blocks.assign(entry.blocks.get(), entry.blocks.get() + entry.block_count);
  event.start_position.reset();
  event.session_id.reset();
  event.mm_infos.clear();
  if (entry.rare) {
    event.start_position = entry.rare->start_position;
    event.mm_infos = entry.rare->mm_infos;
    event.session_id = entry.rare->session_id;
  }
}

}  // namespace understudy::worker
