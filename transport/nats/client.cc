#include "transport/loop/native.h"
#include "transport/nats/connect_guard.h"
#include "transport/nats/link.h"
#include "transport/nats/options.h"
#include "understudy/base/assert.h"
#include "understudy/transport/nats.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include <asio/post.hpp>
#include <nats/nats.h>

namespace understudy::transport {
namespace {

constexpr int kDrainMax = 256;  // messages of one subscription per wake; then look again
constexpr std::int64_t kSpentBytesMax =
    4 << 20;                                 // of handled messages that wait for the end of a drain
constexpr int kPendingMessagesMax = 65'536;  // per subscription, inside the library
constexpr int kPendingBytesMax = 256 << 20;
constexpr Nanoseconds kHelperPatience =
    std::chrono::milliseconds(50);  // between looks for a Connect that does not end
constexpr Nanoseconds kBackoffFirst = std::chrono::milliseconds(50);
constexpr Nanoseconds kBackoffMax = std::chrono::seconds(1);

struct MsgDeleter {
  void operator()(natsMsg* message) const { natsMsg_Destroy(message); }
};
struct SubDeleter {
  void operator()(natsSubscription* subscription) const { natsSubscription_Destroy(subscription); }
};
using SubPtr = std::unique_ptr<natsSubscription, SubDeleter>;

std::span<const std::byte> BytesOf(const natsMsg* message) {
  return std::as_bytes(std::span(natsMsg_GetData(message),
                                 static_cast<std::size_t>(natsMsg_GetDataLength(message))));
}

class Client final : public NatsClient {
 public:
  Client(Loop& loop, NatsOptions options)
      : loop_(loop),
        native_(NativeContext(loop)),
        options_(std::move(options)),
        backoff_timer_(loop.NewTimer()),
        close_timer_(loop.NewTimer()),
        connect_timer_(loop.NewTimer()),
        server_ports_(NatsPorts(options_.url)) {}

  ~Client() override {
    *alive_ = false;
    for (const auto& waiter : std::exchange(flushes_, {})) {
      waiter->timer->Cancel();  // the owner is on its way out: it hears nothing more
    }
    DropLink();
    if (helper_.joinable()) {
      while (helper_over_.wait_for(kHelperPatience) != std::future_status::ready) {
        if (connecting_) {
          EndPendingConnects(server_ports_);
        }
      }
      helper_.join();
    }
  }

  void Start(std::function<void(Status)> done) override {
    UNDERSTUDY_ASSERT(loop_.OnThread());
    first_ = std::move(done);
    if (auto built = BuildNatsOptions(options_); !built) {
      loop_.Post([first = std::exchange(first_, nullptr), error = built.error()] {
        first(tl::make_unexpected(error));
      });
      return;
    }
    OpenLink();
  }

  void OnEvent(std::function<void(Event, const std::string&)> listener) override {
    listener_ = std::move(listener);
  }

  SubscriptionId Subscribe(const std::string& subject,
                           const std::string& queue,
                           Handler handler) override {
    UNDERSTUDY_ASSERT(loop_.OnThread());
    if (!ValidSubscription(subject) || (!queue.empty() && !ValidSubject(queue))) {
      return 0;
    }
    const auto id = ++last_id_;
    auto& entry = subscriptions_[id];
    entry = {subject, queue, std::make_shared<Handler>(std::move(handler)), nullptr};
    if (connected()) {
      Attach(entry);
    }
    return id;
  }

  void Unsubscribe(SubscriptionId id) override {
    if (const auto it = subscriptions_.find(id); it != subscriptions_.end()) {
      CountDropped(it->second);
      subscriptions_.erase(it);  // Destroy unsubscribes
    }
  }

  void Retire(SubscriptionId id, std::function<void()> done) override {
    const auto it = subscriptions_.find(id);
    const auto limit = std::chrono::ceil<std::chrono::milliseconds>(kRetireLimit).count();
    if (it == subscriptions_.end() || !it->second.subscription || !connected() ||
        natsSubscription_DrainTimeout(it->second.subscription.get(), limit) != NATS_OK) {
      Unsubscribe(id);
      loop_.Post(std::move(done));
      return;
    }
    it->second.retired = true;
    Flush(kRetireLimit, [this, id, done = std::move(done)](const Status&) mutable {
      // What came before the answer is read, but perhaps not handled yet.
      loop_.Post([this, alive = alive_, id, done = std::move(done)]() mutable {
        if (*alive) {
          EndRetirement(id, std::move(done));
        }
      });
    });
  }

  Status Publish(const std::string& subject,
                 std::span<const std::byte> payload,
                 const std::string& reply) override {
    if (!ValidSubject(subject)) {
      return Fail(Errc::kMalformed, "nats: bad subject '" + subject + "'");
    }
    if (!reply.empty() && !ValidSubject(reply)) {
      return Fail(Errc::kMalformed, "nats: bad reply subject '" + reply + "'");
    }
    if (!connected()) {
      return Fail(Errc::kUnavailable, "nats: not connected");
    }
    if (natsConnection_Buffered(link_->get()) >= kBacklogBytesMax) {
      return Fail(Errc::kOverloaded, "nats: backlog limit reached");
    }
    const auto size = static_cast<int>(payload.size());
    const auto status =
        reply.empty() ? natsConnection_Publish(link_->get(), subject.c_str(), payload.data(), size)
                      : natsConnection_PublishRequest(
                            link_->get(), subject.c_str(), reply.c_str(), payload.data(), size);
    if (status == NATS_MAX_PAYLOAD) {
      return Fail(Errc::kMalformed,
                  "nats: payload of " + std::to_string(payload.size()) +
                      " bytes exceeds the server's max_payload of " +
                      std::to_string(payload_bytes_max()));
    }
    if (status != NATS_OK) {
      return Fail(Errc::kUnavailable,
                  std::string("nats: publish failed: ") + natsStatus_GetText(status));
    }
    return {};
  }

  void Flush(Nanoseconds limit, std::function<void(Status)> done) override {
    if (flush_inbox_.empty()) {
      flush_inbox_ = NewInbox();
      Subscribe(
          flush_inbox_, {}, [this](const NatsMessage& message) { FlushArrived(message.payload); });
    }
    auto waiter = std::make_shared<FlushWaiter>();
    waiter->number = ++last_flush_;
    waiter->done = std::move(done);
    waiter->timer = loop_.NewTimer();
    waiter->timer->After(limit, [this, waiter] {
      std::erase(flushes_, waiter);
      if (auto call = std::exchange(waiter->done, nullptr)) {
        call(Fail(Errc::kTimeout, "nats: the server did not answer in time"));
      }
    });
    flushes_.push_back(waiter);
    if (auto sent = Publish(flush_inbox_, std::as_bytes(std::span(&waiter->number, 1)), {});
        !sent) {
      flushes_.pop_back();
      waiter->timer->Cancel();
      loop_.Post([waiter, error = sent.error()] {
        if (auto call = std::exchange(waiter->done, nullptr)) {
          call(tl::make_unexpected(error));
        }
      });
    }
  }

  [[nodiscard]] std::string NewInbox() override {
    natsInbox* inbox = nullptr;
    natsInbox_Create(&inbox);
    std::string name(inbox);
    natsInbox_Destroy(inbox);
    return name;
  }
  [[nodiscard]] bool connected() const override { return up_ && !link_->lost(); }
  [[nodiscard]] std::int64_t payload_bytes_max() const override { return payload_bytes_max_; }
  [[nodiscard]] std::uint64_t messages_dropped() const override {
    auto total = dropped_;
    for (const auto& [id, entry] : subscriptions_) {
      total += DroppedOf(entry);
    }
    return total;
  }

  void Close(Nanoseconds limit, std::function<void()> done) override {
    UNDERSTUDY_ASSERT(loop_.OnThread());
    closing_ = true;
    backoff_timer_->Cancel();
    auto finish = std::make_shared<std::function<void()>>(std::move(done));
    const auto once = [this, finish, alive = alive_] {
      if (!*alive) {
        return;  // destroyed before its end
      }
      if (auto call = std::exchange(*finish, nullptr)) {
        close_timer_->Cancel();
        subscriptions_.clear();  // also when the limit came first: no handler runs after this
        call();
      }
    };
    if (!connected()) {
      loop_.Post(once);
      return;
    }
    close_timer_->After(limit, once);
    Flush(limit, [this, once](const Status&) {
      if (!link_ || (helper_.joinable() && helper_busy_)) {
        once();
        return;
      }
      // The loop reads no more: the library closes the descriptor without asking whether somebody
      // does. The subscriptions go after the link: their UNSUBs would be unsent bytes, for which
      // the library waits half a second.
      link_->Detach();
      StartHelper([link = link_] { link->CloseBlocking(); },
                  [this, once] {
                    DropLink();
                    once();
                  });
    });
  }

 private:
  struct Entry {
    std::string subject, queue;
    std::shared_ptr<Handler> handler;
    SubPtr subscription;
    bool retired = false;  ///< not put back after a lost link
  };
  struct FlushWaiter {
    std::uint64_t number = 0;
    std::function<void(Status)> done;
    std::unique_ptr<Timer> timer;
  };

  /// Runs `work` on the helper thread, then `after` on the loop (unless this object is gone by
  /// then).
  void StartHelper(std::function<void()> work, std::function<void()> after) {
    if (helper_.joinable()) {
      helper_.join();  // it has posted its end already: helper_busy_ is false
    }
    helper_busy_ = true;
    std::promise<void> over;
    helper_over_ = over.get_future();
    helper_ = std::thread([this,
                           &native = native_,
                           alive = alive_,
                           work = std::move(work),
                           after = std::move(after),
                           over = std::move(over)]() mutable {
      work();
      asio::post(native, [this, alive, after] {
        if (*alive) {
          helper_busy_ = false;
          after();
        }
      });
      over.set_value();
    });
  }

  void OpenLink() {
    connecting_ = true;
    GuardConnect(options_.connect_timeout *
                 (2 * std::max<std::int64_t>(1, std::ssize(server_ports_))));
    auto link = std::make_shared<NatsLink>(native_);
    auto outcome = std::make_shared<std::pair<natsStatus, std::string>>(NATS_OK, "");
    StartHelper(
        [link, outcome, options = options_] {
          auto built = BuildNatsOptions(options);
          outcome->first = link->Connect(built->get());
          if (outcome->first != NATS_OK) {
            natsStatus detail = NATS_OK;
            const char* text = nats_GetLastError(&detail);
            outcome->second = natsStatus_GetText(outcome->first);
            if (text != nullptr && *text != '\0' && outcome->second != text) {
              outcome->second += std::string(" (") + text + ")";
            }
          }
        },
        [this, link, outcome] {
          connecting_ = false;
          connect_timer_->Cancel();
          LinkOpened(link, outcome->first, outcome->second);
        });
  }

  /// The library's own timeout has a hole (connect_guard.h).
  void GuardConnect(Nanoseconds limit) {
    connect_timer_->After(limit, [this] {
      EndPendingConnects(server_ports_);
      GuardConnect(kHelperPatience);
    });
  }

  void LinkOpened(const std::shared_ptr<NatsLink>& link,
                  natsStatus status,
                  const std::string& text) {
    if (closing_) {
      return;
    }
    if (status != NATS_OK) {
      ConnectFailed(status, text);
      return;
    }
    link_ = link;
    up_ = true;
    backoff_ = kBackoffFirst;
    payload_bytes_max_ = natsConnection_GetMaxPayload(link_->get());
    for (auto& [id, entry] : subscriptions_) {
      if (!entry.retired) {
        Attach(entry);
      }
    }
    link_->on_readable = [this] { return Drain(); };
    link_->on_closed = [this] { LinkClosed(); };
    link_->Start();
    Notify(Event::kConnected, WithoutCredentials(options_.url));
    if (auto first = std::exchange(first_, nullptr)) {
      first({});
    }
  }

  void ConnectFailed(natsStatus status, const std::string& text) {
    const auto message = "Failed to connect to NATS: " + text +
                         ". Verify NATS server is running and accessible. server=" +
                         WithoutCredentials(options_.url);
    Notify(Event::kConnectFailed, message);
    if (auto first = std::exchange(first_, nullptr)) {
      const bool refused = status == NATS_CONNECTION_AUTH_FAILED || status == NATS_SSL_ERROR;
      first(Fail(refused ? Errc::kInvalidConfig : Errc::kUnavailable, message));
      return;
    }
    Retry();
  }

  void Retry() {
    backoff_timer_->After(backoff_, [this] { OpenLink(); });
    backoff_ = std::min(backoff_ * 2, kBackoffMax);
  }

  void LinkClosed() {
    const char* reason = nullptr;
    std::string text = "connection closed";
    if (natsConnection_GetLastError(link_->get(), &reason) != NATS_OK && reason != nullptr &&
        *reason != '\0') {
      text = reason;
    }
    DropLink();
    if (!closing_) {
      Notify(Event::kDropped, text);
      Retry();
    }
  }

  void DropLink() {
    up_ = false;
    for (auto& [id, entry] : subscriptions_) {
      CountDropped(entry);
      entry.subscription.reset();
    }
    if (link_) {
      link_->Detach();
      link_.reset();
    }
    for (const auto& waiter : std::exchange(flushes_, {})) {
      waiter->timer->Cancel();
      if (auto call = std::exchange(waiter->done, nullptr)) {
        call(Fail(Errc::kUnavailable, "nats: the connection was lost"));
      }
    }
  }

  void Attach(Entry& entry) {
    natsSubscription* raw = nullptr;
    const auto status =
        entry.queue.empty()
            ? natsConnection_SubscribeSync(&raw, link_->get(), entry.subject.c_str())
            : natsConnection_QueueSubscribeSync(
                  &raw, link_->get(), entry.subject.c_str(), entry.queue.c_str());
    if (status == NATS_OK) {
      natsSubscription_SetPendingLimits(raw, kPendingMessagesMax, kPendingBytesMax);
      entry.subscription.reset(raw);
    }
  }

  void EndRetirement(SubscriptionId id, std::function<void()> done) {
    while (DrainOne(id)) {
    }
    Unsubscribe(id);
    done();
  }

  /// False when messages are left: a post goes on with them, and the socket waits. Otherwise many
  /// small messages would arrive faster than kDrainMax per wake and overflow the library's queues.
  bool Drain() {
    drain_ids_.clear();
    for (const auto& [id, entry] : subscriptions_) {
      drain_ids_.push_back(id);  // handlers may add and remove subscriptions
    }
    bool more = false;
    for (const auto id : drain_ids_) {
      more = DrainOne(id) || more;
    }
    spent_.clear();
    spent_bytes_ = 0;
    if (more) {
      asio::post(native_, [this, alive = alive_, link = link_] {
        if (*alive && link_ == link && Drain()) {
          link->Resume();
        }
      });
    }
    return !more;
  }

  /// True when messages may be left.
  bool DrainOne(SubscriptionId id) {
    for (int n = 0; n < kDrainMax; ++n) {
      const auto it = subscriptions_.find(id);
      if (it == subscriptions_.end() || !it->second.subscription) {
        return false;
      }
      auto* subscription = it->second.subscription.get();
      int messages = 0;
      int bytes = 0;
      if (natsSubscription_GetPending(subscription, &messages, &bytes) != NATS_OK ||
          messages == 0) {
        return false;
      }
      natsMsg* raw = nullptr;
      const auto status = natsSubscription_NextMsg(&raw, subscription, 0);
      if (status == NATS_SLOW_CONSUMER) {
        continue;  // counted by the library; the next call goes on
      }
      if (status ==
          NATS_NO_RESPONDERS) {  // the library keeps that message: its subject is lost with it
        DeliverNoResponders(it->second);
        continue;
      }
      if (status != NATS_OK) {
        return false;
      }
      Deliver(it->second.handler, raw);
      if (spent_bytes_ > kSpentBytesMax) {
        spent_.clear();
        spent_bytes_ = 0;
      }
    }
    return true;
  }

  void Deliver(const std::shared_ptr<Handler>& handler, natsMsg* raw) {
    spent_.emplace_back(raw);
    spent_bytes_ += natsMsg_GetDataLength(raw);
    const char* reply = natsMsg_GetReply(raw);
    const auto keep = handler;  // the handler may unsubscribe itself
    (*keep)(NatsMessage{natsMsg_GetSubject(raw),
                        reply != nullptr ? reply : "",
                        BytesOf(raw),
                        [raw](const char* name) -> std::optional<std::string> {
                          const char* value = nullptr;
                          if (natsMsgHeader_Get(raw, name, &value) != NATS_OK || value == nullptr) {
                            return std::nullopt;
                          }
                          return value;
                        }});
  }

  static void DeliverNoResponders(const Entry& entry) {
    const auto keep = entry.handler;  // the handler may unsubscribe itself
    const auto subject = entry.subject;
    (*keep)(NatsMessage{subject, "", {}, [](const char* name) -> std::optional<std::string> {
                          return std::strcmp(name, "Status") == 0
                                     ? std::optional<std::string>("503")
                                     : std::nullopt;
                        }});
  }

  /// Answers come in the order of the flushes. The number tells a late one, whose waiter has timed
  /// out, from the next's.
  void FlushArrived(std::span<const std::byte> payload) {
    std::uint64_t number = 0;
    if (payload.size() != sizeof(number)) {
      return;
    }
    std::memcpy(&number, payload.data(), sizeof(number));
    while (!flushes_.empty() && flushes_.front()->number <= number) {
      const auto waiter = flushes_.front();
      flushes_.pop_front();
      waiter->timer->Cancel();
      if (auto call = std::exchange(waiter->done, nullptr)) {
        call({});
      }
    }
  }

  static std::uint64_t DroppedOf(const Entry& entry) {
    std::int64_t count = 0;
    if (entry.subscription) {
      natsSubscription_GetDropped(entry.subscription.get(), &count);
    }
    return static_cast<std::uint64_t>(count);
  }
  void CountDropped(const Entry& entry) { dropped_ += DroppedOf(entry); }
  void Notify(Event event, const std::string& text) {
    if (listener_) {
      listener_(event, text);
    }
  }

  Loop& loop_;
  asio::io_context& native_;
  NatsOptions options_;
  std::shared_ptr<bool> alive_ =
      std::make_shared<bool>(true);  // read by posts that may outlive this object
  std::shared_ptr<NatsLink> link_;
  bool up_ = false, closing_ = false, helper_busy_ = false, connecting_ = false;
  std::function<void(Status)> first_;
  std::function<void(Event, const std::string&)> listener_;
  std::map<SubscriptionId, Entry> subscriptions_;
  std::vector<SubscriptionId> drain_ids_;
  // Handled messages, destroyed together: the library wakes a thread of its own for each that is
  // destroyed alone.
  std::vector<std::unique_ptr<natsMsg, MsgDeleter>> spent_;
  std::int64_t spent_bytes_ = 0;
  SubscriptionId last_id_ = 0;
  std::deque<std::shared_ptr<FlushWaiter>> flushes_;
  std::string flush_inbox_;
  std::uint64_t last_flush_ = 0;
  std::int64_t payload_bytes_max_ = 1 << 20;
  std::uint64_t dropped_ = 0;
  Nanoseconds backoff_ = kBackoffFirst;
  std::unique_ptr<Timer> backoff_timer_, close_timer_, connect_timer_;
  const std::vector<std::uint16_t> server_ports_;
  std::future<void> helper_over_;
  std::thread helper_;
};

}  // namespace

std::unique_ptr<NatsClient> NatsClient::New(Loop& loop, NatsOptions options) {
  return std::make_unique<Client>(loop, std::move(options));
}

}  // namespace understudy::transport
