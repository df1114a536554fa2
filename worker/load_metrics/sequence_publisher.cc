#include "worker/load_metrics/sequence_publisher.h"

#include "understudy/transport/event_payloads.h"

#include <algorithm>

namespace understudy::worker {

void SequencePublisher::PromptComputed(std::uint64_t worker_id,
                                       std::uint32_t dp_rank,
                                       std::string_view request_id) {
  if (publishers_.empty()) {
    return;
  }
  if (waiting_.size() >= kQueueMax) {
    metrics_.PrefillCompletionDropped();
    return;
  }
  transport::SequenceEvent event;
  event.request_id = request_id;
  event.worker_id = event.router_id = worker_id;
  event.dp_rank = dp_rank;
  transport::AppendSequenceEvent(waiting_.emplace_back(), event);
}

void SequencePublisher::Send() {
  if (waiting_.empty()) {
    return;
  }
  const std::size_t per_message = grouped_ ? kEventsPerMessage : 1;
  for (std::size_t at = 0; at < waiting_.size(); at += per_message) {
    const std::size_t end = std::min(at + per_message, waiting_.size());
    payload_.clear();
    if (grouped_) {
      transport::AppendSequenceGroupHead(payload_, end - at);
    }
    for (std::size_t i = at; i < end; ++i) {
      payload_ += waiting_[i];
    }
    for (auto* publisher : publishers_) {
      if (!publisher->Publish(payload_)) {
        metrics_.PrefillCompletionDropped();
      }
    }
  }
  waiting_.clear();
}

}  // namespace understudy::worker
