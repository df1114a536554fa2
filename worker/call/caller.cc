#include "worker/call/caller.h"

#include "worker/call/callback.h"
#include "worker/call/uuid.h"

#include <span>
#include <utility>

namespace understudy::worker {
namespace {

using End = CallOutcome::End;
using Kind = transport::ResponseFrame::Kind;
using transport::StreamControl;

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string ControlFrame(StreamControl control) {
  std::string frame;
  transport::AppendStreamControl(frame, control);
  return frame;
}

}  // namespace

struct Caller::Session {
  CallOutcome outcome;
  const CallTarget* target = nullptr;
  std::string subject;  ///< of the handshake
  transport::PayloadCodec codec = transport::PayloadCodec::kJson;
  TimePoint sent{};
  transport::NatsClient::SubscriptionId acks = 0;
  std::uint64_t connection = 0;  ///< 0 = the worker has not called yet
  std::unique_ptr<transport::Timer> timer;
};

struct Caller::Connection {
  StreamReader reader;
  Session* session = nullptr;  ///< known after the handshake
  std::string refused;         ///< why this connection is not wanted
};

Caller::Caller(transport::Loop& loop,
               transport::NatsClient& nats,
               const Clock& clock,
               const CallPlan& plan,
               std::vector<CallTarget> targets,
               Report report)
    : loop_(loop),
      nats_(nats),
      clock_(clock),
      plan_(plan),
      targets_(std::move(targets)),
      report_(std::move(report)) {}

Caller::~Caller() {
  for (const auto& [index, session] : sessions_) {
    nats_.Unsubscribe(session->acks);
  }
}

Status Caller::Start(const std::string& host) {
  UNDERSTUDY_TRY(
      listener_,
      transport::ListenForResponses(
          loop_, host, [this](const transport::ResponseListener::Peer& peer) { OnBytes(peer); }));
  StartNext();
  return {};
}

void Caller::StartNext() {
  if (std::exchange(starting_, true)) {
    return;  // a request that failed inside Send: the loop below goes on
  }
  while (!interrupted_ && next_ < plan_.requests && sessions_.size() < plan_.concurrency) {
    const auto index = next_++;
    auto& session = *(sessions_[index] = std::make_unique<Session>());
    session.target = &targets_[index % targets_.size()];
    session.outcome.index = index;
    session.outcome.instance_id = session.target->instance.instance_id;
    session.timer = loop_.NewTimer();
    Send(session);
  }
  starting_ = false;
  const bool over = sessions_.empty() && (interrupted_ || next_ == plan_.requests);
  if (over && !std::exchange(over_, true)) {
    report_.on_all_done();
  }
}

void Caller::Send(Session& session) {
  const auto& instance = session.target->instance;
  session.codec = plan_.codec.value_or(instance.request_plane_codec == "msgpack"
                                           ? transport::PayloadCodec::kMsgpack
                                           : transport::PayloadCodec::kJson);
  session.outcome.request_id = NewUuid();
  session.subject = NewUuid();
  by_subject_[session.subject] = &session;

  transport::PreprocessedRequest request;
  request.model = plan_.model.value_or(session.target->model);
  request.token_ids = PromptOf(plan_, session.outcome.index);
  request.max_tokens = plan_.max_tokens;
  request.dp_rank = plan_.dp_rank;
  session.outcome.prompt_tokens = static_cast<std::uint32_t>(request.token_ids.size());
  const auto payload =
      CallbackRequest({session.outcome.request_id, listener_->address(), session.subject},
                      session.codec,
                      transport::EncodeRequest(session.codec, request));
  ArmTimeout(session);
  session.sent = clock_.Now();
  report_.on_sent(session.outcome, *session.target);
  const auto reply =
      nats_.NewInbox();  // of its own, so that "no responders" tells which request it answers
  session.acks = nats_.Subscribe(
      reply, {}, [this, index = session.outcome.index](const transport::NatsMessage& message) {
        OnAck(index, message);
      });
  if (auto sent = nats_.Publish(instance.transport_value, std::as_bytes(std::span(payload)), reply);
      !sent) {
    Finish(session, End::kFailed, sent.error().message);
  }
}

void Caller::OnAck(std::uint32_t index, const transport::NatsMessage& message) {
  const auto found = sessions_.find(index);
  if (found == sessions_.end() || found->second->outcome.ack_ms) {
    return;
  }
  auto& session = *found->second;
  session.outcome.ack_ms = SinceSent(session);
  if (message.payload.empty()) {
    if (const auto nobody = NobodyListens(message, session.target->instance.transport_value)) {
      Finish(session, End::kRefused, "no responders: " + *nobody);
      return;
    }
    ArmTimeout(session);
    return;
  }
  Finish(session, End::kRefused, "the ack says: " + TextOf(message.payload));
}

void Caller::OnBytes(const transport::ResponseListener::Peer& peer) {
  auto& entry = connections_[peer.connection];
  if (!entry) {
    entry = std::make_shared<Connection>();
  }
  const auto connection = entry;  // kept: a frame may end the session and with it the entry
  if (peer.bytes.empty()) {
    OnClosed(peer.connection, *connection);
    return;
  }
  const auto fed = connection->reader.Feed(
      peer.bytes, [this, &connection, id = peer.connection](const auto& frame) {
        OnFrame(id, *connection, frame);
      });
  auto* session = connection->session;
  if (!fed || !connection->refused.empty()) {
    const auto why = fed ? connection->refused : fed.error().message;
    if (session != nullptr) {
      Finish(*session, End::kFailed, why);
    } else {
      report_.on_note("a connection was dropped: " + why);
      Drop(peer.connection);
    }
    return;
  }
  if (session == nullptr) {
    return;
  }
  if (connection->reader.complete()) {
    const bool failed = !session->outcome.text.empty();
    Finish(*session, failed ? End::kFailed : End::kDone, session->outcome.text);
    return;
  }
  const auto& outcome = session->outcome;
  if (plan_.cancel_after && !outcome.cancel_ms && outcome.prologue_ms &&
      outcome.token_ms.size() >= *plan_.cancel_after) {
    Cancel(*session);
  } else if (!outcome.cancel_ms) {
    ArmTimeout(*session);
  }
}

void Caller::OnFrame(std::uint64_t id,
                     Connection& connection,
                     const transport::ResponseFrame& frame) {
  if (frame.kind == Kind::kHandshake) {
    const auto known = by_subject_.find(frame.subject);
    if (known == by_subject_.end()) {
      connection.refused =
          "handshake with an unknown subject '" + frame.subject.substr(0, 64) + "'";
    } else if (known->second->connection != 0) {
      connection.refused = "second connection for request " + known->second->outcome.request_id;
    } else {
      connection.session = known->second;
      connection.session->connection = id;
      connection.session->outcome.connected_ms = SinceSent(*connection.session);
      connection.reader.set_codec(connection.session->codec);
    }
    return;
  }
  if (connection.session == nullptr) {
    return;  // refused above, the rest of its bytes is ignored
  }
  auto& session = *connection.session;
  switch (frame.kind) {
    case Kind::kPrologue:
      session.outcome.prologue_ms = SinceSent(session);
      break;
    case Kind::kErrorPrologue:
      session.outcome.prologue_ms = SinceSent(session);
      session.outcome.text = "error prologue: " + frame.error;
      break;
    case Kind::kErrorItem:
      session.outcome.text = "error item: " + frame.error;
      break;
    case Kind::kItem:
      OnItem(session, frame);
      break;
    default:
      break;
  }
}

void Caller::OnItem(Session& session, const transport::ResponseFrame& frame) {
  auto& outcome = session.outcome;
  for (const auto token : frame.token_ids) {
    outcome.token_ms.push_back(SinceSent(session));
    outcome.tokens_after_cancel += outcome.cancel_ms ? 1U : 0U;
    report_.on_token(outcome, token);
  }
  if (frame.usage) {
    outcome.usage = frame.usage;
  }
  if (frame.finish_reason) {
    outcome.finish_reason = frame.finish_reason;
  }
  if (!frame.error.empty()) {
    outcome.text = "finish reason error: " + frame.error;
  }
}

void Caller::OnClosed(std::uint64_t id, Connection& connection) {
  auto* session = connection.session;
  if (session == nullptr) {
    report_.on_note("a connection was closed by its peer before " + connection.reader.WaitsFor());
    Drop(id);
    return;
  }
  if (session->outcome.cancel_ms) {
    session->outcome.closed_ms = SinceSent(*session);
    Finish(*session, End::kCancelled, "");
    return;
  }
  auto text = "the worker closed the connection where " + connection.reader.WaitsFor() + " was due";
  if (!session->outcome.text.empty()) {
    text = session->outcome.text + "; then " + text;
  }
  Finish(*session, End::kFailed, std::move(text));
}

void Caller::Drop(std::uint64_t connection) {
  listener_->CloseConnection(connection);
  connections_.erase(connection);
}

void Caller::Cancel(Session& session) {
  session.outcome.cancel_ms = SinceSent(session);
  listener_->Send(session.connection, ControlFrame(plan_.cancel_with));
  session.timer->After(kCancelWait, [this, &session] {
    Finish(
        session, End::kFailed, "the worker did not close the connection within 5 s of the cancel");
  });
}

void Caller::ArmTimeout(Session& session) {
  session.timer->After(plan_.timeout, [this, &session] {
    const auto& outcome = session.outcome;
    const std::string missing =
        !outcome.ack_ms ? "no ack"
        : !outcome.connected_ms
            ? "acknowledged, but the worker did not call " + listener_->address()
            : "the stream stopped after " + std::to_string(outcome.token_ms.size()) + " tokens";
    Finish(session, End::kTimedOut, "timed out: " + missing);
  });
}

void Caller::Finish(Session& session, End end, std::string text) {
  const auto owned = std::move(sessions_[session.outcome.index]);  // until the end of this function
  sessions_.erase(session.outcome.index);
  by_subject_.erase(session.subject);
  nats_.Unsubscribe(session.acks);
  session.timer->Cancel();
  auto& outcome = session.outcome;
  outcome.end = end;
  outcome.text = std::move(text);
  outcome.total_ms = SinceSent(session);
  if (session.connection != 0) {
    const bool stopped_early = end == End::kTimedOut || end == End::kInterrupted;
    if (stopped_early) {
      listener_->Send(session.connection, ControlFrame(StreamControl::kKill));
    }
    Drop(session.connection);
  }
  outcomes_.push_back(outcome);
  report_.on_end(outcome);
  if (!interrupted_) {
    StartNext();
  }
}

void Caller::Interrupt() {
  if (std::exchange(interrupted_, true)) {
    return;
  }
  while (!sessions_.empty()) {
    Finish(*sessions_.begin()->second, End::kInterrupted, "by a signal");
  }
  StartNext();
}

double Caller::SinceSent(const Session& session) const {
  return std::chrono::duration<double, std::milli>(clock_.Now() - session.sent).count();
}

}  // namespace understudy::worker
