// What a request path does for requests whose prompt and output are computed by different workers.
#include "worker/log/log.h"
#include "worker/request_path/request_path.h"

#include <utility>

namespace understudy::worker {

void RequestPath::SignalHandoffs(engine::PassBatch& batch,
                                 std::size_t outputs_applied,
                                 std::size_t& next) {
  while (next < batch.handoffs.size() && batch.handoffs[next].outputs_before <= outputs_applied) {
    options_.handoff_engine->OnSignal(std::move(batch.handoffs[next]));
    ++next;
  }
}

bool RequestPath::EndIsHeldBack(OpenStream& stream) {
  if (options_.handoffs == nullptr) {
    return false;
  }
  stream.answered = options_.handoffs->LastToken(
      RequestTable::IdOf(stream), stream.hands_over, stream.prompt_tokens);
  return stream.answered;
}

void RequestPath::HandoffEnded(RequestId id, const Status& status) {
  auto* stream = table_.Find(id);
  if (stream == nullptr || options_.handoffs->shut_down()) {
    return;  // at shutdown streams are closed as they are, so that frontends migrate them
  }
  if (status) {
    if (stream->answered) {
      AppendLength(*stream);
    }
    return;
  }
  workers_[stream->worker].probe->Failed(ErrorType::kGenerate);
  scratch_.clear();
  transport::AppendFinishError(scratch_, stream->codec, status.error().message);
  AppendData(*stream);
  FinishStream(*stream);
}

}  // namespace understudy::worker
