#include "tests/fakes/fake_frontend.h"

#include <algorithm>
#include <random>
#include <span>
#include <thread>
#include <utility>

namespace understudy::fakes {
namespace {

using Kind = transport::ResponseFrame::Kind;
constexpr std::size_t kFrameBytesMax = 64U << 20;

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string FreshId() {
  std::random_device random;
  std::string id = "00000000-0000-4000-8000-000000000000";
  for (char& c : id) {
    if (c == '0') {
      c = "0123456789abcdef"[random() % 16];
    }
  }
  return id;
}

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kHandshake:
      return "handshake";
    case Kind::kPrologue:
      return "prologue";
    case Kind::kErrorPrologue:
      return "error-prologue";
    case Kind::kItem:
      return "item";
    case Kind::kErrorItem:
      return "error-item";
    case Kind::kCompleteFinal:
      return "complete-final";
    case Kind::kSentinel:
      return "sentinel";
  }
  return "?";
}

}  // namespace

Call::Call(std::shared_ptr<Shared> shared, std::string id, const CallSpec& spec)
    : shared_(std::move(shared)),
      id_(std::move(id)),
      codec_(spec.codec),
      answer_fin_(spec.answer_fin) {}

std::size_t Call::disaggregated() const {
  const std::lock_guard lock(shared_->mutex);
  return disaggregated_;
}

bool Call::Wait(const std::function<bool()>& condition) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, kLimit, condition);
}

std::optional<std::string> Call::WaitAck() {
  static_cast<void>(Wait([this] { return ack_.has_value(); }));
  const std::lock_guard lock(shared_->mutex);
  return ack_;
}

bool Call::WaitTokens(std::size_t count) {
  return Wait([&] { return tokens_.size() >= count; });
}

bool Call::WaitFrame(Kind kind) {
  return Wait([&] { return std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end(); });
}

bool Call::WaitClosed() {
  return Wait([this] { return closed_; });
}

std::vector<std::uint32_t> Call::tokens() const {
  const std::lock_guard lock(shared_->mutex);
  return tokens_;
}
std::vector<Kind> Call::kinds() const {
  const std::lock_guard lock(shared_->mutex);
  return kinds_;
}
std::string Call::error() const {
  const std::lock_guard lock(shared_->mutex);
  return error_;
}
std::string Call::error_bytes() const {
  const std::lock_guard lock(shared_->mutex);
  return error_bytes_;
}
std::string Call::finish_reason() const {
  const std::lock_guard lock(shared_->mutex);
  return finish_reason_;
}
std::optional<transport::Usage> Call::usage() const {
  const std::lock_guard lock(shared_->mutex);
  return usage_;
}
std::size_t Call::connections() const {
  const std::lock_guard lock(shared_->mutex);
  return connections_;
}
std::string Call::problem() const {
  const std::lock_guard lock(shared_->mutex);
  return problem_;
}

std::string Call::ShapeLocked() const {
  std::string shape;
  for (std::size_t i = 0; i < kinds_.size();) {
    const std::size_t begin = i;
    while (i < kinds_.size() && kinds_[i] == kinds_[begin]) {
      ++i;
    }
    shape += (shape.empty() ? "" : " ") + std::string(NameOf(kinds_[begin]));
    shape += i - begin > 1 ? " x" + std::to_string(i - begin) : "";
  }
  return shape + (problem_.empty() ? "" : "; " + problem_) +
         (error_.empty() ? "" : "; error: " + error_);
}

std::string Call::WhyNotWhole(std::size_t count) const {
  const std::lock_guard lock(shared_->mutex);
  std::vector<Kind> wanted(count + 5, Kind::kItem);
  wanted[0] = Kind::kHandshake;
  wanted[1] = Kind::kPrologue;
  wanted[count + 3] = Kind::kCompleteFinal;
  wanted[count + 4] = Kind::kSentinel;
  const bool whole = kinds_ == wanted && tokens_.size() == count && finishes_ == 1 &&
                     finish_reason_ == "length" && connections_ == 1 && problem_.empty();
  return whole ? ""
               : "request " + id_ + " has " + std::to_string(tokens_.size()) + " of " +
                     std::to_string(count) + " tokens: " + ShapeLocked();
}

std::string Call::WhyNotRefusedInBand() {
  static_cast<void>(WaitAck());  // it travels another way than the stream
  const std::lock_guard lock(shared_->mutex);
  const std::vector<Kind> wanted = {
      Kind::kHandshake, Kind::kPrologue, Kind::kErrorItem, Kind::kCompleteFinal, Kind::kSentinel};
  const bool typed = error_bytes_.find("InvalidArgument") != std::string::npos;
  return kinds_ == wanted && typed && problem_.empty() && ack_ == ""
             ? ""
             : "ack '" + ack_.value_or("(none)") + "', " + ShapeLocked();
}

void Call::OnFrame(const transport::TwoPartView& view) {
  const auto decoded = transport::DecodeResponseFrame(codec_, view);
  if (!decoded) {
    problem_ = decoded.error().message;
    return;
  }
  kinds_.push_back(decoded->kind);
  tokens_.insert(tokens_.end(), decoded->token_ids.begin(), decoded->token_ids.end());
  if (decoded->usage) {
    usage_ = decoded->usage;
  }
  if (!decoded->error.empty()) {
    error_ = decoded->error;
    error_bytes_ = std::string(view.body.empty() ? view.header : view.body);
  }
  if (decoded->kind == Kind::kItem) {
    const bool finish = decoded->finish_reason.has_value() || !decoded->error.empty();
    finishes_ += finish ? 1U : 0U;
    disaggregated_ += decoded->disaggregated_params ? 1U : 0U;
    finish_reason_ = decoded->finish_reason.value_or(finish_reason_);
    if (decoded->token_ids.size() != (finish ? 0U : 1U)) {
      problem_ = "a frame holds " + std::to_string(decoded->token_ids.size()) + " tokens";
    }
  }
}

FakeFrontend::FakeFrontend() = default;

Result<std::unique_ptr<FakeFrontend>> FakeFrontend::New(const std::string& nats_url) {
  std::unique_ptr<FakeFrontend> self(new FakeFrontend());
  auto& loop = self->thread_.loop();
  const auto opened = self->thread_.Do([&]() -> Status {
    UNDERSTUDY_TRY(
        self->listener_,
        transport::ListenForResponses(
            loop, "127.0.0.1", [raw = self.get()](const auto& peer) { raw->OnBytes(peer); }));
    self->address_ = self->listener_->address();
    transport::NatsOptions options;
    options.url = nats_url;
    options.name = "fake frontend";
    self->nats_ = transport::NatsClient::New(loop, options);
    return {};
  });
  UNDERSTUDY_TRY_STATUS(opened);
  UNDERSTUDY_TRY_STATUS(
      self->thread_.Ask<Status>([&](auto done) { self->nats_->Start(std::move(done)); }));
  self->thread_.Do([&] { self->inbox_ = self->nats_->NewInbox(); });
  return self;
}

FakeFrontend::~FakeFrontend() {
  thread_.Do([this] {
    listener_.reset();
    nats_.reset();
  });
}

std::string FakeFrontend::PayloadOf(const CallSpec& spec, const std::string& id) const {
  transport::RequestControl control;
  control.id = control.context = id;
  control.codec = spec.codec;
  control.unknown_codec = spec.payload_codec;
  control.response_type = "many_out";
  control.transport = spec.transport;
  control.address = spec.address.value_or(address_);
  control.subject = "response-" + std::to_string(next_);
  control.stream_type = "response";
  std::string payload;
  transport::AppendTwoPart(
      payload,
      transport::EncodeRequestControl(control),
      spec.body ? *spec.body : transport::EncodeRequest(spec.codec, spec.request));
  return spec.reframe ? spec.reframe(std::move(payload)) : payload;
}

CallPtr FakeFrontend::Send(const CallSpec& spec) {
  const auto id = spec.id.empty() ? FreshId() : spec.id;
  CallPtr call(new Call(shared_, id, spec));
  thread_.Do([&] {
    ++next_;
    const auto payload = PayloadOf(spec, id);
    const auto reply = inbox_ + "." + std::to_string(next_);
    by_subject_["response-" + std::to_string(next_)] = call;
    AwaitReply(reply, call);
    const auto sent = nats_->Publish(spec.subject, std::as_bytes(std::span(payload)), reply);
    const std::lock_guard lock(shared_->mutex);
    call->sent_ = sent.has_value();
    call->problem_ = sent ? "" : sent.error().message;
  });
  return call;
}

void FakeFrontend::SendRaw(Call& call, std::string_view bytes) {
  thread_.Do([&] { listener_->Send(call.connection_, bytes); });
}

void FakeFrontend::Control(Call& call, transport::StreamControl control) {
  std::string frame;
  transport::AppendStreamControl(frame, control);
  SendRaw(call, frame);
}

void FakeFrontend::Close(Call& call) {
  thread_.Do([&] {
    const std::lock_guard lock(shared_->mutex);
    listener_->CloseConnection(call.connection_);
    connections_.erase(call.connection_);
    call.closed_ = true;
  });
}

/// A subscription for each: with one wildcard for all, "no responders" would not tell for whom.
void FakeFrontend::AwaitReply(const std::string& reply, const CallPtr& call) {
  auto id = std::make_shared<transport::NatsClient::SubscriptionId>(0);
  *id = nats_->Subscribe(reply, {}, [this, id, reply, call](const auto& message) {
    const auto status = message.header("Status");
    const auto text = status ? "status " + *status : TextOf(message.payload);
    {
      const std::lock_guard lock(shared_->mutex);
      if (call) {
        call->ack_ = text;
      } else {
        answers_[reply] = text;
      }
    }
    shared_->changed.notify_all();
    nats_->Unsubscribe(*id);
  });
}

CallPtr FakeFrontend::CallOf(const transport::TwoPartView& handshake) {
  const auto decoded = transport::DecodeResponseFrame(transport::PayloadCodec::kJson, handshake);
  if (!decoded || decoded->kind != Kind::kHandshake) {
    return nullptr;
  }
  const auto found = by_subject_.find(decoded->subject);
  return found == by_subject_.end() ? nullptr : found->second;
}

void FakeFrontend::OnBytes(const transport::ResponseListener::Peer& peer) {
  const std::lock_guard lock(shared_->mutex);
  auto& connection = connections_[peer.connection];
  if (peer.bytes.empty()) {
    if (connection.call) {
      connection.call->closed_ = true;
    }
    connections_.erase(peer.connection);
    shared_->changed.notify_all();
    return;
  }
  connection.bytes.append(peer.bytes);
  std::string_view rest = connection.bytes;
  while (const auto frame = transport::ParseTwoPart(rest, kFrameBytesMax)) {
    if (!connection.call) {
      connection.call = CallOf(*frame);
      if (!connection.call) {
        break;  // nobody asked for it: the test sees a call that never ends
      }
      ++connection.call->connections_;
      connection.call->connection_ = peer.connection;
    }
    connection.call->OnFrame(*frame);
    rest.remove_prefix(frame->frame_bytes);
  }
  connection.bytes.erase(0, connection.bytes.size() - rest.size());
  if (auto call = connection.call; call && call->answer_fin_ && !call->kinds_.empty() &&
                                   call->kinds_.back() == Kind::kSentinel) {
    listener_->CloseConnection(peer.connection);
    call->closed_ = true;
    connections_.erase(peer.connection);
  }
  shared_->changed.notify_all();
}

std::optional<std::string> FakeFrontend::Ask(const std::string& subject) {
  std::string reply;
  thread_.Do([&] {
    reply = inbox_ + ".ask" + std::to_string(++next_);
    {
      const std::lock_guard lock(shared_->mutex);
      answers_[reply] = std::nullopt;
    }
    AwaitReply(reply, nullptr);
    static_cast<void>(nats_->Publish(subject, {}, reply));
  });
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait_for(lock, Call::kLimit, [&] { return answers_[reply].has_value(); });
  return answers_[reply];
}

void FakeFrontend::WatchLoad(const std::string& ns) {
  thread_.Do([&] {
    nats_->Subscribe("namespace." + ns + ".kv_metrics", {}, [this](const auto& message) {
      const auto bytes = TextOf(message.payload);
      const auto envelope = transport::DecodeEnvelope(bytes);
      const auto load = envelope ? transport::DecodeActiveLoad(envelope->payload)
                                 : tl::make_unexpected(envelope.error());
      const std::lock_guard lock(shared_->mutex);
      if (load) {
        loads_.push_back(*load);
      }
      shared_->changed.notify_all();
    });
  });
  // The subscription holds once the server has answered something sent after it.
  static_cast<void>(thread_.Ask<Status>(
      [this](auto done) { nats_->Flush(std::chrono::seconds(30), std::move(done)); }));
}

std::vector<transport::ActiveLoad> FakeFrontend::loads() {
  const std::lock_guard lock(shared_->mutex);
  return loads_;
}

bool FakeFrontend::WaitLoads(
    const std::function<bool(const std::vector<transport::ActiveLoad>&)>& condition) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(
      lock, Call::kLimit, [&] { return !loads_.empty() && condition(loads_); });
}

bool FakeFrontend::WaitConnected() {
  const auto deadline = std::chrono::steady_clock::now() + Call::kLimit;
  while (!thread_.Do([this] { return nats_->connected(); })) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace understudy::fakes
