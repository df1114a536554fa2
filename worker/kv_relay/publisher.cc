#include "worker/kv_relay/publisher.h"

#include <utility>

namespace understudy::worker {

using transport::RouterEvent;

namespace {

// JSON is the longer of the two forms: {"block_hash":<20>,"tokens_hash":<20>,"mm_extra_info":null},
constexpr std::size_t kEventBytes = 512;
constexpr std::size_t kStoredBlockBytes = 100;
constexpr std::size_t kRemovedBlockBytes = 24;
constexpr std::size_t kMmObjectBytes = 80;
constexpr std::size_t kMmOffsetBytes = 48;
constexpr std::size_t kJsonEscapeMax = 6;  // bytes for one of the text

std::size_t HeadBytes(const RouterEvent& event) {
  return kEventBytes + (event.session_id ? kJsonEscapeMax * event.session_id->size() : 0);
}

std::size_t BytesOf(const transport::BlockMmInfo& info) {
  std::size_t bytes = 0;
  for (const auto& object : info.objects) {
    bytes += kMmObjectBytes + kMmOffsetBytes * object.offsets.size();
  }
  return bytes;
}

RouterEvent HeadOf(const RouterEvent& event) {
  RouterEvent head;
  head.worker_id = event.worker_id;
  head.dp_rank = event.dp_rank;
  head.kind = event.kind;
  head.tier = event.tier;
  head.domain = event.domain;
  head.session_id = event.session_id;
  return head;
}

}  // namespace

std::vector<RouterEvent> SplitEvent(RouterEvent event, std::size_t bytes_max) {
  const bool stored = event.kind == RouterEvent::Kind::kStored;
  const std::size_t block_bytes = stored ? kStoredBlockBytes : kRemovedBlockBytes;
  std::size_t whole = HeadBytes(event) + block_bytes * event.blocks.size();
  for (const auto& info : event.mm_infos) {
    whole += BytesOf(info);
  }
  std::vector<RouterEvent> pieces;
  if (whole <= bytes_max || event.blocks.size() <= 1) {
    pieces.push_back(std::move(event));
    return pieces;
  }
  std::size_t bytes = 0;
  std::size_t info = 0;
  for (std::size_t i = 0; i < event.blocks.size(); ++i) {
    const bool has_info = info < event.mm_infos.size() && event.mm_infos[info].block == i;
    const std::size_t more = block_bytes + (has_info ? BytesOf(event.mm_infos[info]) : 0);
    if (pieces.empty() || bytes + more > bytes_max) {
      RouterEvent piece = HeadOf(event);
      piece.parent = i == 0
                         ? event.parent
                         : (stored ? std::optional(event.blocks[i - 1].block_hash) : std::nullopt);
      piece.start_position = i == 0 ? event.start_position : std::nullopt;
      pieces.push_back(std::move(piece));
      bytes = HeadBytes(event);
    }
    RouterEvent& piece = pieces.back();
    if (has_info) {
      event.mm_infos[info].block = static_cast<std::uint32_t>(piece.blocks.size());
      piece.mm_infos.push_back(std::move(event.mm_infos[info++]));
    }
    piece.blocks.push_back(event.blocks[i]);
    bytes += more;
  }
  return pieces;
}

RankPublisher::RankPublisher(const Options& options, TimePoint now)
    : worker_id_(options.worker_id),
      dp_rank_(options.dp_rank),
      batcher_(options.batching, now),
      indexer_(options.answers_queries) {}

void RankPublisher::Take(std::vector<RouterEvent> unit,
                         TimePoint now,
                         std::size_t event_bytes_max,
                         const Sink& sink) {
  for (RouterEvent& event : unit) {
    if (last_raw_ && event.event_id > *last_raw_ + 1) {
      lost_ += event.event_id - *last_raw_ - 1;
    }
    last_raw_ = event.event_id;
    event.worker_id = worker_id_;
    event.dp_rank = dp_rank_;
    batcher_.Take(std::move(event), now, ready_);
  }
  batcher_.EndUnit(now, ready_);
  Emit(event_bytes_max, sink);
}

void RankPublisher::Flush(TimePoint now, std::size_t event_bytes_max, const Sink& sink) {
  batcher_.Flush(now, ready_);
  Emit(event_bytes_max, sink);
}

void RankPublisher::Emit(std::size_t event_bytes_max, const Sink& sink) {
  for (RouterEvent& event : ready_) {
    if (!indexer_.Admit(event)) {
      continue;
    }
    for (RouterEvent& piece : SplitEvent(std::move(event), event_bytes_max)) {
      piece.event_id = next_id_++;
      indexer_.Record(piece);
      sink(piece);
    }
  }
  ready_.clear();
}

}  // namespace understudy::worker
