// A NatsClient that records what is published and can be told to fail.
#pragma once

#include "understudy/transport/nats.h"

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace understudy::fakes {

class FakeNats final : public transport::NatsClient {
 public:
  struct Published {
    std::string subject, payload, reply;
  };
  std::vector<Published> published;
  bool down = false;

  void Start(std::function<void(Status)> done) override { done({}); }
  void OnEvent(std::function<void(Event, const std::string&)> listener) override {
    listener_ = std::move(listener);
  }
  SubscriptionId Subscribe(const std::string& subject,
                           const std::string& queue,
                           Handler handler) override {
    subscriptions_[++last_] = {subject + "|" + queue, std::move(handler)};
    return last_;
  }
  void Unsubscribe(SubscriptionId id) override { subscriptions_.erase(id); }
  void Retire(SubscriptionId id, std::function<void()> done) override {
    auto end = [this, id, done = std::move(done)] {
      Unsubscribe(id);
      done();
    };
    if (hold_retirements) {
      retirements.push_back(std::move(end));
    } else {
      end();
    }
  }
  bool hold_retirements = false;
  std::vector<std::function<void()>> retirements;  ///< not over yet
  Status Publish(const std::string& subject,
                 std::span<const std::byte> payload,
                 const std::string& reply) override {
    if (down) {
      return Fail(Errc::kUnavailable, "nats: not connected");
    }
    published.push_back({subject,
                         std::string(reinterpret_cast<const char*>(payload.data()), payload.size()),
                         reply});
    return {};
  }
  void Flush(Nanoseconds, std::function<void(Status)> done) override { done({}); }
  [[nodiscard]] std::string NewInbox() override { return "_INBOX.fake"; }
  [[nodiscard]] bool connected() const override { return !down; }
  [[nodiscard]] std::int64_t payload_bytes_max() const override { return 1 << 20; }
  [[nodiscard]] std::uint64_t messages_dropped() const override { return 0; }
  void Close(Nanoseconds, std::function<void()> done) override { done(); }

  /// Delivers to every subscription whose subject is `subject`; returns how many there were.
  int Deliver(const std::string& subject, const std::string& payload, const std::string& reply) {
    int hits = 0;
    for (const auto& [id, entry] : std::map(subscriptions_)) {
      if (entry.first.substr(0, entry.first.find('|')) == subject) {
        ++hits;
        entry.second({subject, reply, std::as_bytes(std::span(payload)), [](const char*) {
                        return std::nullopt;
                      }});
      }
    }
    return hits;
  }
  [[nodiscard]] std::vector<std::string> subjects() const {
    std::vector<std::string> all;
    for (const auto& [id, entry] : subscriptions_) {
      all.push_back(entry.first);
    }
    return all;
  }

 private:
  std::map<SubscriptionId, std::pair<std::string, Handler>> subscriptions_;
  std::function<void(Event, const std::string&)> listener_;
  SubscriptionId last_ = 0;
};

}  // namespace understudy::fakes
