#include "worker/request_path/request_path.h"

#include "understudy/base/assert.h"
#include "worker/log/log.h"

#include <charconv>
#include <chrono>
#include <span>
#include <utility>

namespace understudy::worker {
namespace {

constexpr std::string_view kTarget = "worker.request_path";
// Free running, the loop may be behind the engine: frames of up to this many batches leave in one
// write per stream.
constexpr int kBatchesPerFlush = 8;
constexpr std::string_view kOverloaded = "Server overloaded: worker at capacity";
constexpr std::string_view kUnavailable = "Server unavailable: worker at capacity";

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string ShortText(std::string_view text) {
  constexpr std::size_t kLogTextMax = 200;
  return std::string(text.substr(0, kLogTextMax));
}

}  // namespace

RequestPath::RequestPath(transport::Loop& loop,
                         transport::NatsClient& nats,
                         engine::Engine& engine,
                         LoadPublisher& load,
                         Metrics& metrics,
                         const Clock& clock,
                         Options options)
    : loop_(loop),
      nats_(nats),
      engine_(engine),
      load_(load),
      metrics_(metrics),
      clock_(clock),
      options_(options),
      table_(options.open_streams_max) {}

void RequestPath::AddWorker(const std::string& subject,
                            std::uint32_t first_rank,
                            EndpointProbe* probe) {
  by_subject_[subject] = static_cast<std::uint32_t>(workers_.size());
  workers_.push_back({first_rank, 0, probe});
  counts_.push_back({subject});
}

double RequestPath::SecondsSince(TimePoint start) const {
  return std::chrono::duration<double>(clock_.Now() - start).count();
}

void RequestPath::OnRequest(const transport::NatsMessage& message) {
  const auto received = clock_.Now();
  const auto known = by_subject_.find(std::string(message.subject));
  if (known == by_subject_.end()) {
    Ack(message, "Server unavailable: unknown endpoint " + std::string(message.subject));
    return;
  }
  const auto worker = known->second;
  const auto payload = TextOf(message.payload);
  workers_[worker].probe->RequestArrived(payload.size());
  ++counts_[worker].requests;
  if (const auto sent = message.header("x-frontend-send-ts-ns")) {
    std::int64_t sent_ns = 0;
    std::from_chars(sent->data(), sent->data() + sent->size(), sent_ns);
    const auto now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
    metrics_.NetworkTransit(
        sent_ns > 0 && now_ns > sent_ns ? static_cast<double>(now_ns - sent_ns) * 1e-9 : 0.0);
  }

  // All of it is in memory already: a body over its limit is refused in its stream, which needs the
  // header.
  auto frame = transport::ParseTwoPart(payload, payload.size());
  auto control =
      frame ? transport::ParseRequestControl(frame->header) : tl::make_unexpected(frame.error());
  if (control && control->transport != "tcp_server") {
    control = Fail(Errc::kUnsupported,
                   "response plane mismatch: frontend requested " + control->transport +
                       ", worker configured tcp");
  }
  if (!control) {  // no address to call: the ack is the only way to tell the peer
    metrics_.BadFrame();
    ++counts_[worker].errors;
    workers_[worker].probe->Failed(ErrorType::kInvalidMessage);
    Log(LogLevel::kWarn,
        kTarget,
        "request without a usable envelope",
        {{"error", ShortText(control.error().message)}, {"bytes", std::to_string(payload.size())}});
    Ack(message, "Server unavailable: " + control.error().message);
    return;
  }
  Serve(worker, message, *control, frame->body, received);
  counts_[worker].processing_ns += static_cast<std::uint64_t>((clock_.Now() - received).count());
}

void RequestPath::Serve(std::uint32_t worker,
                        const transport::NatsMessage& message,
                        const transport::RequestControl& control,
                        std::string_view body,
                        TimePoint received) {
  if (table_.full()) {
    RefuseForLoad(worker, message, control, RankIndex{workers_[worker].first_rank});
    return;
  }
  auto outcome = Admit(control, body, options_.dp_size, options_.limits);
  if (std::holds_alternative<Admitted>(outcome) && table_.Holds(control.id, worker)) {
    outcome = Refusal{"request " + control.id + " is already active",
                      ErrorType::kGenerate,
                      RefusalReason::kDuplicate};
  }
  if (const auto* refusal = std::get_if<Refusal>(&outcome)) {
    Ack(message, "");
    RefuseInBand(worker, control, *refusal);
    return;
  }
  auto& admitted = std::get<Admitted>(outcome);
  auto& target = workers_[worker];
  const auto dp_rank = admitted.dp_rank ? *admitted.dp_rank : target.next_rank++ % options_.dp_size;
  auto& stream = table_.Open(control.id, worker);
  stream.codec = control.codec;
  stream.rank = RankIndex{target.first_rank + dp_rank};
  stream.prompt_tokens = static_cast<std::uint32_t>(admitted.request.token_ids.size());
  stream.output_tokens_max = admitted.output_tokens_max;
  stream.started = received;
  engine::Request request;
  request.id = RequestTable::IdOf(stream);
  request.rank = stream.rank;
  request.prompt = std::move(admitted.request.token_ids);
  request.output_tokens_max = admitted.output_tokens_max;
  if (auto taken = engine_.SubmitQuietly(std::move(request)); !taken) {
    const auto rank = stream.rank;
    table_.Close(stream);
    if (taken.error().code == Errc::kOverloaded) {
      RefuseForLoad(worker, message, control, rank);
    } else {
      Ack(message, "");
      RefuseInBand(worker,
                   control,
                   {taken.error().message, ErrorType::kGenerate, RefusalReason::kUnservable});
    }
    return;
  }
  WakeEngineSoon();
  Ack(message, "");
  target.probe->StreamOpened();
  Dial(stream, control);
  metrics_.TimeToFirstResponse(SecondsSince(received));
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

void RequestPath::WakeEngineSoon() {
  if (!std::exchange(wake_posted_, true)) {  // once per loop turn: requests come in bursts
    loop_.Post([this] {
      wake_posted_ = false;
      engine_.Wake();
    });
  }
}

void RequestPath::Ack(const transport::NatsMessage& message, std::string_view text) {
  if (message.reply.empty()) {
    return;
  }
  if (auto sent = nats_.Publish(std::string(message.reply), std::as_bytes(std::span(text)));
      !sent) {
    Log(LogLevel::kWarn, kTarget, "acknowledgement not sent", {{"error", sent.error().message}});
  }
}

void RequestPath::RefuseForLoad(std::uint32_t worker,
                                const transport::NatsMessage& message,
                                const transport::RequestControl& control,
                                RankIndex rank) {
  // A 1.6 frontend (msgpack) routes the next request after "overloaded"; a 1.3 one (JSON) would
  // bench the worker.
  Ack(message, control.codec == transport::PayloadCodec::kMsgpack ? kOverloaded : kUnavailable);
  workers_[worker].probe->Refused(RefusalReason::kOverloaded);
  metrics_.Rejected();
  ++counts_[worker].errors;
  if (!std::exchange(load_refused_, true)) {
    Log(LogLevel::kWarn,
        kTarget,
        "requests are refused: the worker is at capacity",
        {{"request_id", control.id}, {"open_streams", std::to_string(table_.open())}});
  }
  refused_rank_ = rank;
  load_.SayAgain(rank);
}

void RequestPath::RefuseInBand(std::uint32_t worker,
                               const transport::RequestControl& control,
                               const Refusal& refusal) {
  auto* probe = workers_[worker].probe;
  probe->Refused(refusal.reason);
  probe->Failed(refusal.error);
  ++counts_[worker].errors;
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
  stream.response = transport::DialResponseStream(
      loop_, control.address, [this, id](transport::StreamEnd end, const std::string& text) {
        StreamEnded(id, end, text);
      });
  scratch_.clear();
  transport::AppendHandshake(scratch_, control.subject);
  transport::AppendPrologue(scratch_);
  stream.appended_bytes += scratch_.size();
  stream.response->Append(scratch_);
  stream.response->Flush();
}

void RequestPath::StreamEnded(RequestId id, transport::StreamEnd end, const std::string& text) {
  auto* stream = table_.FindOpen(id);
  if (stream == nullptr) {
    return;
  }
  if (stream->state == OpenStream::State::kRunning) {
    using transport::StreamEnd;
    auto* probe = workers_[stream->worker].probe;
    engine_.Cancel(id, stream->rank);
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

void RequestPath::CloseStream(OpenStream& stream) {
  table_.Close(stream);
  metrics_.OpenStreams(table_.open(), table_.running());
  Ended();
}

void RequestPath::Ended() {
  if (load_refused_ && !table_.full()) {
    load_refused_ = false;
    load_.SayAgain(refused_rank_);  // room is back: the router may route here again
  }
  if (table_.running() == 0 && on_idle_) {
    on_idle_();
  }
}

void RequestPath::OnKvEvents(std::vector<engine::KvEvent>) {}

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
    if (auto* stream = table_.Find(admission.id); stream != nullptr && stream->tokens_sent == 0) {
      stream->cached_tokens = admission.cached_tokens;
    }
  }
  for (const auto& output : batch.outputs) {
    ApplyOutput(output, batch);
  }
  for (const auto& load : batch.loads) {
    load_.OnLoad(load);
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
    ++stream->tokens_sent;
    if (stream->tokens_sent == 1) {
      transport::AppendToken(
          scratch_, stream->codec, output.token, {stream->prompt_tokens, 1, stream->cached_tokens});
    } else {
      transport::AppendToken(scratch_, stream->codec, output.token);
    }
    AppendData(*stream);
    if (output.kind == OutputKind::kToken) {
      return;
    }
    scratch_.clear();
    const transport::Usage usage{stream->prompt_tokens, stream->tokens_sent, stream->cached_tokens};
    transport::AppendFinish(scratch_, stream->codec, "length", &usage);
  } else {
    AppendEngineError(*stream, output, batch);
  }
  AppendData(*stream);
  FinishStream(*stream);
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
  for (auto* stream : dirty_) {  // a slot may stand here twice, or have been closed meanwhile
    if (std::exchange(stream->dirty, false)) {
      stream->response->Flush();
    }
  }
  dirty_.clear();
}

void RequestPath::CloseAll() {
  FlushDirty();
  std::vector<OpenStream*> left;
  table_.ForEach([&](OpenStream& stream) { left.push_back(&stream); });
  for (auto* stream : left) {
    if (stream->state == OpenStream::State::kRunning) {
      engine_.Cancel(RequestTable::IdOf(*stream), stream->rank);
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
                   s.cached_tokens,
                   s.tokens_sent,
                   s.output_tokens_max,
                   s.state == OpenStream::State::kFinishing,
                   SecondsSince(s.started)});
  });
  return all;
}

}  // namespace understudy::worker
