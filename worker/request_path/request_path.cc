#include "worker/request_path/request_path.h"

#include "understudy/base/assert.h"
#include "worker/log/log.h"

#include <chrono>
#include <utility>

namespace understudy::worker {
namespace {

constexpr std::string_view kTarget = "worker.request_path";
// Free running, the loop may be behind the engine: frames of up to this many batches leave in one
// write per stream.
constexpr int kBatchesPerFlush = 8;
constexpr std::string_view kAtCapacity = "worker at capacity";

}  // namespace

RequestPath::RequestPath(transport::Loop& loop,
                         Ingress& ingress,
                         engine::Engine& engine,
                         EventSide& events,
                         Metrics& metrics,
                         NativeMetrics& native,
                         const Clock& clock,
                         Options options)
    : loop_(loop),
      ingress_(ingress),
      engine_(engine),
      events_(events),
      metrics_(metrics),
      native_(native),
      clock_(clock),
      options_(options),
      table_(options.open_streams_max) {
  if (options_.handoffs != nullptr) {
    options_.handoffs->OnEnded(
        [this](RequestId id, const Status& status) { HandoffEnded(id, status); });
  }
}

void RequestPath::AddWorker(const std::string& subject,
                            std::uint32_t first_rank,
                            EndpointProbe* probe) {
  const auto number = static_cast<std::uint32_t>(workers_.size());
  workers_.push_back({first_rank, 0, ingress_.Add(subject, *this, number, probe), probe});
}

double RequestPath::SecondsSince(TimePoint start) const {
  return std::chrono::duration<double>(clock_.Now() - start).count();
}

void RequestPath::Serve(const IncomingRequest& incoming) {
  const auto worker = incoming.target;
  const auto& control = incoming.control;
  if (table_.full()) {
    RefuseForLoad(incoming, RankIndex{workers_[worker].first_rank}, kAtCapacity);
    return;
  }
  auto outcome = Admit(control, incoming.body, options_.rules);
  if (std::holds_alternative<Admitted>(outcome) && table_.Holds(control.id, worker)) {
    outcome = Refusal{"request " + control.id + " is already active",
                      ErrorType::kGenerate,
                      RefusalReason::kDuplicate};
  }
  if (const auto* refusal = std::get_if<Refusal>(&outcome)) {
    ingress_.Ack(incoming.message, "");
    RefuseInBand(worker, control, *refusal);
    return;
  }
  auto& admitted = std::get<Admitted>(outcome);
  if (admitted.replay_miss != ReplayMiss::kNone) {
    NoteReplayMiss(admitted.replay_miss, control);
  }
  auto& target = workers_[worker];
  const auto dp_rank =
      admitted.dp_rank ? *admitted.dp_rank : target.next_rank++ % options_.rules.dp_size;
  auto& stream = table_.Open(control.id, worker);
  stream.codec = control.codec;
  stream.rank = RankIndex{target.first_rank + dp_rank};
  stream.prompt_tokens = static_cast<std::uint32_t>(admitted.request.token_ids.size());
  stream.output_tokens_max = admitted.output_tokens_max;
  stream.started = incoming.received;
  stream.timed = native_.Bind(admitted.request.model);
  if (auto taken = Submit(stream, admitted); !taken) {
    const auto rank = stream.rank;
    table_.Close(stream);
    RefuseSubmission(incoming, rank, taken.error());
    return;
  }
  WakeEngineSoon();
  ingress_.Ack(incoming.message, "");
  target.probe->StreamOpened();
  Dial(stream, control);
  metrics_.TimeToFirstResponse(SecondsSince(incoming.received));
  metrics_.OpenStreams(table_.open(), table_.running());
  if (LogEnabled(LogLevel::kDebug, kTarget)) {
    Log(LogLevel::kDebug,
        kTarget,
        "request accepted",
        {{"request_id", control.id},
         {"prompt_tokens", std::to_string(stream.prompt_tokens)},
         {"max_tokens", std::to_string(stream.output_tokens_max)},
         {"dp_rank", std::to_string(dp_rank)}});
  }
}

Status RequestPath::Submit(OpenStream& stream, Admitted& admitted) {
  engine::Request request;
  request.id = RequestTable::IdOf(stream);
  request.rank = stream.rank;
  request.prompt = std::move(admitted.request.token_ids);
  request.output_tokens_max = admitted.output_tokens_max;
  request.planned_tokens = std::move(admitted.planned_tokens);
  stream.hands_over = admitted.hands_over;
  if (!stream.hands_over) {
    return engine_.SubmitQuietly(std::move(request));
  }
  const auto dp_rank = Value(stream.rank) - workers_[stream.worker].first_rank;
  return options_.handoffs->Begin({stream.worker,
                                   dp_rank,
                                   stream.context_id,
                                   std::move(*admitted.request.bootstrap_info),
                                   std::move(request)});
}

void RequestPath::RefuseSubmission(const IncomingRequest& incoming,
                                   RankIndex rank,
                                   const Error& error) {
  if (error.code == Errc::kOverloaded) {
    RefuseForLoad(incoming, rank, options_.handoffs == nullptr ? kAtCapacity : error.message);
    return;
  }
  ingress_.Ack(incoming.message, "");
  RefuseInBand(incoming.target,
               incoming.control,
               {error.message, ErrorType::kGenerate, RefusalReason::kUnservable});
}

void RequestPath::NoteReplayMiss(ReplayMiss miss, const transport::RequestControl& control) {
  const bool no_table = miss == ReplayMiss::kNoTable;
  metrics_.ReplayMissed(no_table);
  auto& said = no_table ? no_table_said_ : unknown_key_said_;
  if (!std::exchange(said, true)) {  // once a process: a wrong trace misses with every request
    Log(LogLevel::kWarn,
        kTarget,
        no_table ? "request asked for output token replay but mocker has no response replay trace"
                 : "request asked for output token replay but key was not found",
        {{"request_id", ShortText(control.id)}});
  }
}

void RequestPath::WakeEngineSoon() {
  if (!std::exchange(wake_posted_, true)) {  // once per loop turn: requests come in bursts
    loop_.Post([this] {
      wake_posted_ = false;
      engine_.Wake();
    });
  }
}

void RequestPath::RefuseForLoad(const IncomingRequest& incoming,
                                RankIndex rank,
                                std::string_view why) {
  // A 1.6 frontend (msgpack) routes the next request after "overloaded"; a 1.3 one (JSON) would
  // bench the worker.
  const bool msgpack = incoming.control.codec == transport::PayloadCodec::kMsgpack;
  ingress_.Ack(incoming.message,
               std::string(msgpack ? "Server overloaded: " : "Server unavailable: ").append(why));
  workers_[incoming.target].probe->Refused(RefusalReason::kOverloaded);
  metrics_.Rejected();
  ingress_.CountError(incoming.entry);
  if (!std::exchange(load_refused_, true)) {
    Log(LogLevel::kWarn,
        kTarget,
        "requests are refused: the worker is at capacity",
        {{"request_id", incoming.control.id},
         {"reason", std::string(why)},
         {"open_streams", std::to_string(table_.open())}});
  }
  refused_rank_ = rank;
  events_.load().SayAgain(rank);
}

void RequestPath::RefuseInBand(std::uint32_t worker,
                               const transport::RequestControl& control,
                               const Refusal& refusal) {
  auto* probe = workers_[worker].probe;
  probe->Refused(refusal.reason);
  probe->Failed(refusal.error);
  ingress_.CountError(workers_[worker].entry);
  Log(LogLevel::kWarn,
      kTarget,
      "request refused",
      {{"request_id", ShortText(control.id)}, {"error", ShortText(refusal.text)}});
  auto key = control.id;
  while (table_.Holds(key, worker)) {
    key +=
        '+';  // a duplicate's own stream needs an entry of its own until the refusal is delivered
  }
  auto& stream = table_.Open(std::move(key), worker);
  stream.codec = control.codec;
  stream.started = clock_.Now();
  probe->StreamOpened();
  Dial(stream, control);
  scratch_.clear();
  transport::AppendErrorItem(scratch_, stream.codec, "InvalidArgument", refusal.text);
  AppendData(stream);
  FinishStream(stream);
}

void RequestPath::Dial(OpenStream& stream, const transport::RequestControl& control) {
  const auto id = RequestTable::IdOf(stream);
  stream.response = OpenResponse(loop_,
                                 control,
                                 stream.appended_bytes,
                                 [this, id](transport::StreamEnd end, const std::string& text) {
                                   StreamEnded(id, end, text);
                                 });
}

void RequestPath::StreamEnded(RequestId id, transport::StreamEnd end, const std::string& text) {
  auto* stream = table_.FindOpen(id);
  if (stream == nullptr) {
    return;
  }
  if (stream->state == OpenStream::State::kRunning) {
    using transport::StreamEnd;
    auto* probe = workers_[stream->worker].probe;
    CancelInEngine(*stream);
    probe->Cancelled();
    if (end == StreamEnd::kConnectFailed || end == StreamEnd::kProtocolError) {
      probe->Failed(ErrorType::kResponseStream);
    } else if (end == StreamEnd::kBacklog) {
      probe->Failed(ErrorType::kPublishResponse);
    }
    const bool ordinary = end == StreamEnd::kStop || end == StreamEnd::kKill;
    const auto level =
        ordinary || end == StreamEnd::kPeerClosed ? LogLevel::kDebug : LogLevel::kWarn;
    Log(level,
        kTarget,
        ordinary ? "request cancelled by the frontend" : "response stream lost, request cancelled",
        {{"request_id", stream->context_id},
         {"tokens_sent", std::to_string(stream->tokens_sent)},
         {"reason", text}});
    probe->TokensSent(stream->tokens_sent);
    probe->StreamClosed(SecondsSince(stream->started), stream->response_bytes);
  }
  CloseStream(*stream);
}

void RequestPath::CancelInEngine(const OpenStream& stream) {
  const auto id = RequestTable::IdOf(stream);
  if (stream.hands_over || stream.answered) {
    options_.handoffs->Cancel(id);
  } else {
    engine_.Cancel(id, stream.rank);
  }
}

void RequestPath::CloseStream(OpenStream& stream) {
  table_.Close(stream);
  metrics_.OpenStreams(table_.open(), table_.running());
  Ended();
}

void RequestPath::Ended() {
  if (load_refused_ && !table_.full()) {
    load_refused_ = false;
    events_.load().SayAgain(refused_rank_);  // room is back: the router may route here again
  }
  if (table_.running() == 0 && on_idle_) {
    on_idle_();
  }
}

void RequestPath::OnKvEvents(std::vector<engine::KvEvent> events) {
  loop_.Post([this, taken = std::move(events)]() mutable { events_.OnKvEvents(std::move(taken)); });
}

void RequestPath::OnPassBatch(engine::PassBatch batch) {
  batches_posted_.fetch_add(1, std::memory_order_relaxed);
  loop_.Post([this, taken = std::move(batch)]() mutable {
    Apply(taken);
    const bool last = batches_posted_.fetch_sub(1, std::memory_order_relaxed) == 1;
    if (last || ++batches_unflushed_ >= kBatchesPerFlush) {
      FlushDirty();
    }
  });
}

void RequestPath::Apply(engine::PassBatch& batch) {
  for (const auto& admission : batch.admissions) {
    if (auto* stream = table_.Find(admission.id); stream != nullptr && !stream->cached_tokens) {
      stream->cached_tokens = admission.cached_tokens;
    }
  }
  std::size_t signals = 0;
  for (std::size_t i = 0; i < batch.outputs.size(); ++i) {
    SignalHandoffs(batch, i, signals);
    ApplyOutput(batch.outputs[i], batch);
  }
  SignalHandoffs(batch, batch.outputs.size(), signals);
  events_.OnPassBatch(batch);
  for (const auto& load : batch.loads) {
    native_.OnLoad(load);
  }
}

void RequestPath::ApplyOutput(const engine::Output& output, const engine::PassBatch& batch) {
  auto* stream = table_.Find(output.id);
  if (stream == nullptr) {
    return;  // cancelled meanwhile
  }
  using engine::OutputKind;
  scratch_.clear();
  if (output.kind == OutputKind::kToken || output.kind == OutputKind::kLastToken) {
    AppendOutputToken(*stream, output.token);
    if (output.kind == OutputKind::kToken) {
      return;
    }
    if (!EndIsHeldBack(*stream)) {
      AppendLength(*stream);
    }
    return;
  }
  if (stream->hands_over) {
    options_.handoffs->Cancel(output.id);
  }
  AppendEngineError(*stream, output, batch);
  AppendData(*stream);
  FinishStream(*stream);
}

void RequestPath::AppendOutputToken(OpenStream& stream, std::uint32_t token) {
  ++stream.tokens_sent;
  ++stream.unrecorded_tokens;
  if (stream.tokens_sent > 1) {
    transport::AppendToken(scratch_, stream.codec, token);
  } else {
    const transport::Usage usage{stream.prompt_tokens, 1, stream.cached_tokens.value_or(0)};
    const bool prefill = options_.rules.role == mocker::WorkerType::kPrefill;
    if (prefill) {
      transport::AppendPrefillToken(scratch_, stream.codec, token, usage);
    } else {
      transport::AppendToken(scratch_, stream.codec, token, usage);
    }
    events_.PromptComputed(stream.rank, stream.context_id);
  }
  AppendData(stream);
}

/// The end of a stream that has all its tokens.
void RequestPath::AppendLength(OpenStream& stream) {
  scratch_.clear();
  const transport::Usage usage{
      stream.prompt_tokens, stream.tokens_sent, stream.cached_tokens.value_or(0)};
  transport::AppendFinish(scratch_, stream.codec, "length", &usage);
  AppendData(stream);
  FinishStream(stream);
  RecordCompletion(stream);
}

/// After the tokens were handed over, as the reference does.
void RequestPath::RecordTokens(OpenStream& stream, TimePoint now) {
  const auto count = std::exchange(stream.unrecorded_tokens, 0U);
  if (!stream.timed || count == 0) {
    return;
  }
  const auto seconds = [now](TimePoint since) {
    return std::chrono::duration<double>(now - since).count();
  };
  if (const auto last = std::exchange(stream.last_token, now)) {
    native_.NextTokens(stream.rank, count, seconds(*last) / count);
  } else {
    native_.FirstToken(stream.rank, seconds(stream.started));
    if (count > 1) {  // handed over together with the first
      native_.NextTokens(stream.rank, count - 1, 0.0);
    }
  }
}

void RequestPath::RecordCompletion(OpenStream& stream) {
  RecordTokens(stream, clock_.Now());
  if (stream.timed) {
    native_.Completed(stream.rank, SecondsSince(stream.started));
  }
}

void RequestPath::AppendEngineError(const OpenStream& stream,
                                    const engine::Output& output,
                                    const engine::PassBatch& batch) {
  auto* probe = workers_[stream.worker].probe;
  probe->Failed(ErrorType::kGenerate);
  std::string text = "request rejected: KV footprint exceeds pool capacity";
  if (output.kind ==
      engine::OutputKind::kRejected) {  // the client's to mend: a refusal like others
    probe->Refused(RefusalReason::kTooLarge);
    transport::AppendErrorItem(scratch_, stream.codec, "InvalidArgument", text);
  } else {
    text = "the engine ended the request";
    for (const auto& failure : batch.failures) {
      if (failure.id == output.id) {
        text = failure.message;
      }
    }
    transport::AppendFinishError(scratch_, stream.codec, text);
  }
  Log(LogLevel::kWarn, kTarget, text, {{"request_id", stream.context_id}});
}

void RequestPath::AppendData(OpenStream& stream) {
  stream.response_bytes += scratch_.size() - transport::kTwoPartHeadBytes;
  stream.appended_bytes += scratch_.size();
  stream.response->Append(scratch_);
  if (!std::exchange(stream.dirty, true)) {
    dirty_.push_back(&stream);
  }
}

void RequestPath::FinishStream(OpenStream& stream) {
  scratch_.clear();
  transport::AppendCompleteFinal(scratch_, stream.codec);
  stream.response_bytes += scratch_.size() - transport::kTwoPartHeadBytes;
  transport::AppendSentinel(scratch_);
  stream.appended_bytes += scratch_.size();
  stream.response->Append(scratch_);
  auto* probe = workers_[stream.worker].probe;
  probe->TokensSent(stream.tokens_sent);
  probe->StreamClosed(SecondsSince(stream.started), stream.response_bytes);
  stream.dirty = false;
  table_.Finishing(stream);
  metrics_.OpenStreams(table_.open(), table_.running());
  stream.response->Finish();
  Ended();
}

void RequestPath::FlushDirty() {
  batches_unflushed_ = 0;
  const TimePoint now = clock_.Now();
  for (auto* stream : dirty_) {  // a slot may stand here twice, or have been closed meanwhile
    if (std::exchange(stream->dirty, false)) {
      stream->response->Flush();
      RecordTokens(*stream, now);
    }
  }
  dirty_.clear();
  events_.EndTurn();
}

void RequestPath::CloseAll() {
  FlushDirty();
  std::vector<OpenStream*> left;
  table_.ForEach([&](OpenStream& stream) { left.push_back(&stream); });
  for (auto* stream : left) {
    if (stream->state == OpenStream::State::kRunning) {
      CancelInEngine(*stream);
      workers_[stream->worker].probe->TokensSent(stream->tokens_sent);
      workers_[stream->worker].probe->StreamClosed(SecondsSince(stream->started),
                                                   stream->response_bytes);
    }
    CloseStream(*stream);
  }
}

std::size_t RequestPath::undelivered() {
  std::size_t count = 0;
  table_.ForEach([&](const OpenStream& stream) {
    count += stream.response->bytes_sent() < stream.appended_bytes ? 1U : 0U;
  });
  return count;
}

std::vector<RequestPath::StreamSummary> RequestPath::Streams() {
  std::vector<StreamSummary> all;
  table_.ForEach([&](OpenStream& s) {
    all.push_back({s.context_id,
                   s.worker,
                   Value(s.rank) - workers_[s.worker].first_rank,
                   s.prompt_tokens,
                   s.cached_tokens.value_or(0),
                   s.tokens_sent,
                   s.output_tokens_max,
                   s.state == OpenStream::State::kFinishing,
                   SecondsSince(s.started)});
  });
  return all;
}

}  // namespace understudy::worker
