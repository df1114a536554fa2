#include "worker/kv_relay/batcher.h"

#include <iterator>
#include <utility>

namespace understudy::worker {

using transport::RouterEvent;

void Batcher::Take(RouterEvent event, TimePoint now, std::vector<RouterEvent>& out) {
  if (event.kind == RouterEvent::Kind::kCleared) {
    Flush(now, out);
    out.push_back(std::move(event));
    return;
  }
  if (pending_ && !Joins(event)) {
    Flush(now, out);
  }
  if (pending_) {
    Join(std::move(event));
  } else {
    pending_ = std::move(event);
  }
  const bool full = options_.merge_units ? pending_->blocks.size() >= options_.blocks_max
                                         : pending_->blocks.size() > options_.blocks_max;
  const bool waits = options_.window.count() > 0 ? !WindowOver(now) : options_.merge_units;
  if (full || !waits) {
    Flush(now, out);
  }
}

void Batcher::EndUnit(TimePoint now, std::vector<RouterEvent>& out) {
  if (options_.window.count() == 0 || WindowOver(now)) {
    Flush(now, out);
  }
}

void Batcher::Flush(TimePoint now, std::vector<RouterEvent>& out) {
  if (pending_) {
    out.push_back(*std::exchange(pending_, std::nullopt));
    last_flush_ = now;
  }
}

std::optional<TimePoint> Batcher::due() const {
  return pending_ ? std::optional(last_flush_ + options_.window) : std::nullopt;
}

bool Batcher::Joins(const RouterEvent& event) const {
  const RouterEvent& pending = *pending_;
  if (event.kind != pending.kind || event.tier != pending.tier || event.domain != pending.domain ||
      event.session_id != pending.session_id || event.dp_rank != pending.dp_rank) {
    return false;
  }
  return event.kind == RouterEvent::Kind::kRemoved ||
         (!pending.blocks.empty() && event.parent == pending.blocks.back().block_hash);
}

void Batcher::Join(RouterEvent&& event) {
  const auto offset = static_cast<std::uint32_t>(pending_->blocks.size());
  for (auto& info : event.mm_infos) {
    info.block += offset;
    pending_->mm_infos.push_back(std::move(info));
  }
  pending_->blocks.insert(pending_->blocks.end(), event.blocks.begin(), event.blocks.end());
}

}  // namespace understudy::worker
