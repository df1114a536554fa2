#include "worker/ctl/control_client.h"

#include "worker/call/callback.h"
#include "worker/call/uuid.h"

#include <span>
#include <utility>

namespace understudy::worker {
namespace {

using Kind = transport::ResponseFrame::Kind;

}  // namespace

struct ControlClient::Session {
  std::size_t index = 0;
  std::string subject;  ///< of the handshake
  transport::NatsClient::SubscriptionId acks = 0;
  std::uint64_t connection = 0;  ///< 0 = the worker has not called yet
  std::unique_ptr<transport::Timer> timer;
  bool acknowledged = false, answered = false;
  std::string error;  ///< of an error item
};

struct ControlClient::Connection {
  StreamReader reader;
  Session* session = nullptr;  ///< known after the handshake
  std::string broken;
};

ControlClient::ControlClient(transport::Loop& loop,
                             transport::NatsClient& nats,
                             const CtlPlan& plan,
                             std::vector<CallTarget> targets,
                             Report report)
    : loop_(loop),
      nats_(nats),
      plan_(plan),
      targets_(std::move(targets)),
      report_(std::move(report)) {}

ControlClient::~ControlClient() {
  for (const auto& [index, session] : sessions_) {
    nats_.Unsubscribe(session->acks);
  }
}

Status ControlClient::Start(const std::string& host) {
  UNDERSTUDY_TRY(
      listener_,
      transport::ListenForResponses(
          loop_, host, [this](const transport::ResponseListener::Peer& peer) { OnBytes(peer); }));
  sending_ = true;
  for (std::size_t index = 0; index < targets_.size(); ++index) {
    Send(index);
  }
  sending_ = false;
  FinishIfOver();
  return {};
}

void ControlClient::Send(std::size_t index) {
  auto& session = *(sessions_[index] = std::make_unique<Session>());
  session.index = index;
  session.subject = NewUuid();
  session.timer = loop_.NewTimer();
  by_subject_[session.subject] = index;
  const auto payload = CallbackRequest({NewUuid(), listener_->address(), session.subject},
                                       plan_.codec,
                                       transport::EncodeControlCommand(plan_.codec, plan_.command));
  ArmTimeout(session);
  const auto reply = nats_.NewInbox();
  session.acks = nats_.Subscribe(
      reply, {}, [this, index](const transport::NatsMessage& message) { OnAck(index, message); });
  if (auto sent = nats_.Publish(
          targets_[index].instance.transport_value, std::as_bytes(std::span(payload)), reply);
      !sent) {
    Finish(index, End::kFailed, sent.error().message);
  }
}

void ControlClient::OnAck(std::size_t index, const transport::NatsMessage& message) {
  const auto found = sessions_.find(index);
  if (found == sessions_.end() || std::exchange(found->second->acknowledged, true)) {
    return;
  }
  if (!message.payload.empty()) {
    const std::string text(reinterpret_cast<const char*>(message.payload.data()),
                           message.payload.size());
    Finish(index, End::kRefused, "the acknowledgement says: " + text);
  } else if (const auto nobody = NobodyListens(message, targets_[index].instance.transport_value)) {
    Finish(index, End::kRefused, *nobody);
  }
}

void ControlClient::OnBytes(const transport::ResponseListener::Peer& peer) {
  auto& entry = connections_[peer.connection];
  if (!entry) {
    entry = std::make_shared<Connection>();
  }
  const auto connection = entry;  // kept: a frame may end the session and with it the entry
  if (peer.bytes.empty()) {
    connection->broken =
        "the worker closed the connection where " + connection->reader.WaitsFor() + " was due";
  } else {
    const auto fed =
        connection->reader.Feed(peer.bytes, [&](const transport::ResponseFrame& frame) {
          OnFrame(peer.connection, *connection, frame);
        });
    if (!fed && connection->broken.empty()) {
      connection->broken = fed.error().message;
    }
  }
  const auto* session = connection->session;
  if (session == nullptr) {
    if (!connection->broken.empty()) {
      report_.on_note("a connection was dropped: " + connection->broken);
      Drop(peer.connection);
    }
  } else if (!connection->broken.empty()) {
    Finish(session->index, End::kFailed, connection->broken);
  } else if (connection->reader.complete()) {
    Finish(session->index, session->error.empty() ? End::kDone : End::kRefused, session->error);
  }
}

void ControlClient::OnFrame(std::uint64_t id,
                            Connection& connection,
                            const transport::ResponseFrame& frame) {
  if (frame.kind == Kind::kHandshake) {
    const auto known = by_subject_.find(frame.subject);
    if (known == by_subject_.end() || sessions_.at(known->second)->connection != 0) {
      connection.broken = "handshake with the subject '" + frame.subject.substr(0, 64) +
                          "', for which nobody waits";
      return;
    }
    connection.session = sessions_.at(known->second).get();
    connection.session->connection = id;
    connection.reader.set_codec(plan_.codec);
    return;
  }
  if (connection.session == nullptr || !connection.broken.empty()) {
    return;
  }
  switch (frame.kind) {
    case Kind::kErrorPrologue:
    case Kind::kErrorItem:
      connection.session->error = frame.error.empty() ? "no reason given" : frame.error;
      break;
    case Kind::kItem:
      if (auto item = transport::DecodeControlItem(plan_.codec, frame.body)) {
        auto& session = *connection.session;
        session.answered = true;
        ArmTimeout(session);
        report_.on_item(targets_[session.index], *item);
      } else {
        connection.broken = item.error().message;
      }
      break;
    default:
      break;
  }
}

void ControlClient::ArmTimeout(Session& session) {
  if (session.answered && plan_.follows) {
    session.timer->Cancel();
    return;
  }
  session.timer->After(plan_.timeout, [this, index = session.index] {
    const auto& late = *sessions_.at(index);
    Finish(index,
           End::kTimedOut,
           !late.acknowledged ? "timed out: no acknowledgement"
           : late.connection == 0
               ? "timed out: acknowledged, but the worker did not call " + listener_->address()
               : "timed out: no answer (a long pass may be under way)");
  });
}

void ControlClient::Drop(std::uint64_t connection) {
  listener_->CloseConnection(connection);
  connections_.erase(connection);
}

void ControlClient::Finish(std::size_t index, End end, const std::string& text) {
  const auto session = std::move(sessions_.at(index));  // until the end of this function
  sessions_.erase(index);
  by_subject_.erase(session->subject);
  nats_.Unsubscribe(session->acks);
  session->timer->Cancel();
  if (session->connection != 0) {
    if (end != End::kDone && end != End::kRefused) {
      std::string kill;
      transport::AppendStreamControl(kill, transport::StreamControl::kKill);
      listener_->Send(session->connection, kill);
    }
    Drop(session->connection);
  }
  report_.on_end(targets_[index], end, text);
  FinishIfOver();
}

void ControlClient::FinishIfOver() {
  if (!sending_ && sessions_.empty() && !std::exchange(over_, true)) {
    report_.on_all_done();
  }
}

void ControlClient::Interrupt() {
  while (!sessions_.empty()) {
    Finish(sessions_.begin()->first, End::kInterrupted, "by a signal");
  }
}

}  // namespace understudy::worker
