#include "understudy/transport/durable_events.h"

#include "transport/codec/jet_stream_api.h"
#include "understudy/base/assert.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <span>
#include <string_view>
#include <utility>

namespace understudy::transport {
namespace {

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool NobodyListens(const NatsMessage& message) {
  const auto status = message.header("Status");
  return message.payload.empty() && status && status->starts_with("503");
}

class Durable final : public DurableEvents {
 public:
  Durable(Loop& loop, NatsClient& nats, const EndpointName& place, std::uint64_t max_age_s)
      : nats_(nats),
        max_age_s_(max_age_s),
        stream_(KvStreamName(place)),
        subject_(stream_ + ".kv-events"),
        timer_(loop.NewTimer()),
        progress_timer_(loop.NewTimer()) {
    channel_.place = place;
    channel_.topic = "kv-events";
  }
  ~Durable() override {
    nats_.Unsubscribe(acks_);
    nats_.Unsubscribe(answer_);
  }
  Durable(const Durable&) = delete;
  Durable& operator=(const Durable&) = delete;

  void Open(std::function<void(Status)> done) override {
    opened_ = std::move(done);
    inbox_ = nats_.NewInbox();
    acks_ =
        nats_.Subscribe(inbox_ + ".*", "", [this](const NatsMessage& message) { OnAck(message); });
    Ask("INFO", "", [this](const std::optional<JetStreamError>& missing) {
      if (!missing) {
        Opened({});
        return;
      }
      Ask("CREATE",
          EncodeStreamConfig({stream_, max_age_s_}),
          [this](const std::optional<JetStreamError>& refused) {
            Opened(refused
                       ? Status(Fail(Errc::kInvalidConfig,
                                     "stream " + stream_ + " not created: " + refused->description))
                       : Status());
          });
    });
  }

  Status Publish(std::string_view payload) override {
    if (waiting_bytes_ + payload.size() > kWaitingBytesMax) {
      return Fail(
          Errc::kOverloaded,
          "durable events: " + std::to_string(waiting_bytes_) + " bytes are not acknowledged");
    }
    waiting_bytes_ += payload.size();
    waiting_.emplace_back(payload);
    SendMore();
    return {};
  }

  void Resend() override {
    sent_ = 0;
    SendMore();
  }
  [[nodiscard]] std::size_t unacknowledged() const override { return waiting_.size(); }
  void OnProblem(std::function<void(const std::string&)> listener) override {
    listener_ = std::move(listener);
  }
  [[nodiscard]] const EventChannel& channel() const override { return channel_; }
  [[nodiscard]] std::optional<Record> record() const override { return {}; }

 private:
  using Answer = std::function<void(const std::optional<JetStreamError>&)>;

  void Ask(const std::string& verb, const std::string& body, Answer answer) {
    nats_.Unsubscribe(answer_);
    const std::string reply = nats_.NewInbox();
    answer_ =
        nats_.Subscribe(reply, "", [this, answer = std::move(answer)](const NatsMessage& message) {
          timer_->Cancel();
          if (NobodyListens(message)) {
            Opened(Fail(Errc::kInvalidConfig, "the NATS server has no JetStream (option -js)"));
            return;
          }
          const auto error = ParseJetStreamReply(TextOf(message.payload));
          if (!error) {
            Opened(tl::make_unexpected(error.error()));
            return;
          }
          const Answer call = answer;  // the next question replaces this subscription
          call(*error);
        });
    timer_->After(kAnswerLimit, [this] {
      Opened(Fail(Errc::kTimeout, "JetStream did not answer about stream " + stream_));
    });
    const auto subject = "$JS.API.STREAM." + verb + "." + stream_;
    if (auto sent = nats_.Publish(subject, std::as_bytes(std::span(body)), reply); !sent) {
      Opened(sent);
    }
  }

  void Opened(const Status& outcome) {
    timer_->Cancel();
    if (auto done = std::exchange(opened_, nullptr)) {
      done(outcome);
    }
  }

  /// `waiting_[i]` has the number first_ + i.
  void SendMore() {
    while (sent_ < waiting_.size() && sent_ < kInFlightMax) {
      const std::string& payload = waiting_[sent_];
      const auto reply = inbox_ + "." + std::to_string(first_ + sent_);
      const auto sent = nats_.Publish(subject_, std::as_bytes(std::span(payload)), reply);
      if (!sent && sent.error().code == Errc::kMalformed) {
        Problem(sent.error().message);
        Drop(sent_);
        continue;
      }
      if (!sent) {
        Expect();
        return;  // full: goes on with the next acknowledgement; down: with Resend
      }
      ++sent_;
    }
    Expect();
  }

  /// Acknowledgements that stay away: the stream may be gone, or the connection was full.
  void Expect() {
    if (waiting_.empty()) {
      progress_timer_->Cancel();
      return;
    }
    progress_timer_->After(kRetry, [this] { Resend(); });
  }

  void OnAck(const NatsMessage& message) {
    const auto dot = message.subject.rfind('.');
    std::uint64_t number = 0;
    const auto digits = message.subject.substr(dot + 1);
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const bool ours = parsed.ec == std::errc() && number >= first_ && number < first_ + sent_;
    if (NobodyListens(message)) {
      Problem("no stream takes " + subject_);
      return;
    }
    const auto error = ParseJetStreamReply(TextOf(message.payload));
    if (!error || *error) {
      Problem(error ? (*error)->description : error.error().message);
      return;
    }
    failing_ = false;
    if (!ours) {
      return;  // of an earlier sending
    }
    // Acknowledged in order, as sent; a gap was acknowledged before it was sent again.
    for (auto count = number - first_ + 1; count > 0; --count) {
      waiting_bytes_ -= waiting_.front().size();
      waiting_.pop_front();
      ++first_;
      --sent_;
    }
    SendMore();
  }

  void Drop(std::size_t place) {
    waiting_bytes_ -= waiting_[place].size();
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(place));
  }

  void Problem(const std::string& text) {
    if (!std::exchange(failing_, true) && listener_) {
      listener_(text);
    }
  }

  NatsClient& nats_;
  const std::uint64_t max_age_s_;
  const std::string stream_, subject_;
  EventChannel channel_;
  std::string inbox_;
  NatsClient::SubscriptionId acks_ = 0, answer_ = 0;
  std::function<void(Status)> opened_;
  std::function<void(const std::string&)> listener_;
  std::deque<std::string> waiting_;
  std::size_t waiting_bytes_ = 0, sent_ = 0;
  std::uint64_t first_ = 1;
  bool failing_ = false;
  std::unique_ptr<Timer> timer_, progress_timer_;
};

}  // namespace

std::string KvStreamName(const EndpointName& place) {
  auto name = Slugify("namespace." + place.ns + ".component." + place.component + ".kv-events");
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::unique_ptr<DurableEvents> NewDurableEvents(Loop& loop,
                                                NatsClient& nats,
                                                const EndpointName& place,
                                                std::uint64_t max_age_s) {
  return std::make_unique<Durable>(loop, nats, place, max_age_s);
}

}  // namespace understudy::transport
