// The adapters of transport/zmq, socket to socket.
#include "tests/integration/zmq/zmq_inbox.h"

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <zmq.h>

namespace understudy::transport {
namespace {

using std::chrono::milliseconds;

const std::string kAnyPort = "tcp://127.0.0.1:*";

class ZmqSockets : public ZmqTest {
 protected:
  /// Publishes until the subscriber has its first message.
  template <class Socket>
  void Join(Socket& publisher, Inbox<Message>& inbox, const std::string& topic = "") {
    Until([&] { Do([&] {
                  return SendTo(*publisher, {topic, "join"});
                }); },
          [&] { return inbox.WaitFor(1, milliseconds(5)); });
  }
};

/// What came behind the joins.
std::vector<std::string> Bodies(Inbox<Message>& inbox) {
  std::vector<std::string> bodies;
  for (const Message& message : inbox.Items()) {
    if (message.back() != "join") {
      bodies.push_back(message.back());
    }
  }
  return bodies;
}

TEST_F(ZmqSockets, ThousandsOfMessagesArriveInOrderAndNoneIsLost) {
  constexpr std::size_t kMessages = 50'000;
  auto publisher = Publisher(kAnyPort);
  Inbox<Message> inbox;
  auto subscriber = Subscriber(publisher->bound_endpoint(), "", inbox);
  Join(publisher, inbox);
  for (std::size_t sent = 0; sent < kMessages;) {  // in turns, as an engine's boundaries come
    Do([&] {
      for (const std::size_t end = sent + 1000; sent < end; ++sent) {
        EXPECT_EQ(SendTo(*publisher, {"", "kv", std::to_string(sent)}), ZmqSend::kSent);
      }
    });
  }
  Until([] {}, [&] { return inbox.WaitFor(kMessages + 1) && Bodies(inbox).size() == kMessages; });
  const auto bodies = Bodies(inbox);
  for (std::size_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(bodies[i], std::to_string(i));
  }
  Do([&] {
    subscriber.reset();
    publisher.reset();
  });
}

TEST_F(ZmqSockets, ASubscriberGetsItsTopicOnly) {
  auto publisher = Publisher(kAnyPort);
  Inbox<Message> inbox;
  auto subscriber = Subscriber(publisher->bound_endpoint(), "kv", inbox);
  Join(publisher, inbox, "kv");
  Do([&] {
    SendTo(*publisher, {"other", "1"});
    SendTo(*publisher, {"kv@worker", "2"});
    SendTo(*publisher, {"k", "3"});
    SendTo(*publisher, {"kv", "4"});
  });
  Until([] {}, [&] { return Bodies(inbox).size() >= 2; });
  EXPECT_EQ(Bodies(inbox), (std::vector<std::string>{"2", "4"}));
  Do([&] {
    subscriber.reset();
    publisher.reset();
  });
}

TEST_F(ZmqSockets, ASubscriberFindsAPublisherThatComesBack) {
  auto publisher = Publisher(kAnyPort);
  const std::string endpoint = publisher->bound_endpoint();
  Inbox<Message> inbox;
  auto subscriber = Subscriber(endpoint, "", inbox);
  Join(publisher, inbox);
  for (int life = 0; life < 3; ++life) {
    Do([&] { publisher.reset(); });
    publisher = Publisher(endpoint);
    const std::string body = "life " + std::to_string(life);
    Until([&] { Do([&] {
                  return SendTo(*publisher, {"", body});
                }); },
          [&] {
            inbox.WaitFor(inbox.size() + 1, milliseconds(5));
            const auto bodies = Bodies(inbox);
            return !bodies.empty() && bodies.back() == body;
          });
  }
  Do([&] {
    subscriber.reset();
    publisher.reset();
  });
}

/// A SUB that is never read, with small queues.
class SilentSubscriber {
 public:
  SilentSubscriber(const std::string& endpoint, int type, const std::string& request = {})
      : context_(zmq_ctx_new()), socket_(zmq_socket(context_, type)) {
    const int one = 1, small = 4096, zero = 0;
    zmq_setsockopt(socket_, ZMQ_RCVHWM, &one, sizeof(one));
    zmq_setsockopt(socket_, ZMQ_RCVBUF, &small, sizeof(small));
    zmq_setsockopt(socket_, ZMQ_LINGER, &zero, sizeof(zero));
    if (type == ZMQ_SUB) {
      zmq_setsockopt(socket_, ZMQ_SUBSCRIBE, "", 0);
    }
    UNDERSTUDY_ASSERT(zmq_connect(socket_, endpoint.c_str()) == 0);
    if (!request.empty()) {
      UNDERSTUDY_ASSERT(zmq_send(socket_, request.data(), request.size(), 0) >= 0);
    }
  }
  ~SilentSubscriber() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  SilentSubscriber(const SilentSubscriber&) = delete;
  SilentSubscriber& operator=(const SilentSubscriber&) = delete;

  /// One read, so that the connection is known to stand.
  void ReadOne() {
    char byte = 0;
    UNDERSTUDY_ASSERT(zmq_recv(socket_, &byte, 1, 0) >= 0);
  }

 private:
  void* context_;
  void* socket_;
};

TEST_F(ZmqSockets, ASubscriberThatDoesNotReadHoldsUpNobodyAndABoundedAmount) {
  ZmqLimits limits;
  limits.high_water_mark = 1000;
  auto publisher = Publisher(kAnyPort, limits);
  Inbox<Message> inbox;
  auto subscriber = Subscriber(publisher->bound_endpoint(), "", inbox);
  Join(publisher, inbox);
  SilentSubscriber silent(publisher->bound_endpoint(), ZMQ_SUB);
  {
    std::atomic<bool> read{false};
    std::thread reader([&] {
      silent.ReadOne();
      read = true;
    });
    Until([&] { Do([&] {
                  return SendTo(*publisher, {"", "join"});
                }); },
          [&] { return read.load(); });
    reader.join();
  }
  // Far beyond what the silent one's queues hold; the reading one is given time between the turns.
  constexpr std::size_t kMessages = 4000;
  const std::string body(10'000, 'x');
  for (std::size_t sent = 0; sent < kMessages; sent += 50) {
    Do([&] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(SendTo(*publisher, {"", body}), ZmqSend::kSent);
      }
    });
    Until([] {},
          [&] {
            inbox.WaitFor(inbox.size() + 1, milliseconds(1));
            return Bodies(inbox).size() == sent + 50;
          });
  }
  EXPECT_LT(Do([&] { return publisher->unsent_bytes(); }), 1100 * body.size());
  Do([&] {
    subscriber.reset();
    publisher.reset();
  });
}

TEST_F(ZmqSockets, WhatIsNotSentYetIsBoundedInBytes) {
  ZmqLimits limits;
  limits.unsent_bytes_max = 1U << 20;
  auto dealer = Do([&] {
    auto socket = ZmqDealer::New(thread_.loop(), context_, limits, [](ZmqFrames) {});
    UNDERSTUDY_ASSERT(socket.has_value());
    return std::move(*socket);
  });
  Do([&] {
    // Nobody is there: all of it waits.
    ASSERT_TRUE(dealer->Connect("tcp://127.0.0.1:1").has_value());
    std::size_t accepted = 0;
    while (SendTo(*dealer, {std::string(100'000, 'x')}) == ZmqSend::kSent) {
      ASSERT_LT(++accepted, 100U);
    }
    EXPECT_EQ(accepted, 11U);
    EXPECT_EQ(dealer->unsent_bytes(), 1'100'000U);
    dealer.reset();
  });
}

TEST_F(ZmqSockets, ARouterAnswersTheDealerThatAsked) {
  std::unique_ptr<ZmqRouter> router;
  Inbox<Message> answers_a, answers_b;
  std::unique_ptr<ZmqDealer> a, b;
  Do([&] {
    router = std::move(*ZmqRouter::New(thread_.loop(), context_, {}, [&](ZmqFrames frames) {
      Message answer = Copy(frames);
      answer.back() += " answered";
      EXPECT_EQ(SendTo(*router, answer), ZmqSend::kSent);
    }));
    ASSERT_TRUE(router->Bind(kAnyPort).has_value());
    for (auto [dealer, inbox] : {std::pair(&a, &answers_a), std::pair(&b, &answers_b)}) {
      *dealer = std::move(
          *ZmqDealer::New(thread_.loop(), context_, {}, [inbox = inbox](ZmqFrames frames) {
            inbox->Add(Copy(frames));
          }));
      ASSERT_TRUE((*dealer)->Connect(router->bound_endpoint()).has_value());
    }
    for (int i = 0; i < 1000; ++i) {
      EXPECT_EQ(SendTo(*a, {"", "a" + std::to_string(i)}), ZmqSend::kSent);
      EXPECT_EQ(SendTo(*b, {"", "b" + std::to_string(i)}), ZmqSend::kSent);
    }
  });
  ASSERT_TRUE(answers_a.WaitFor(1000) && answers_b.WaitFor(1000));
  EXPECT_EQ(answers_a.Items()[999], (Message{"", "a999 answered"}));
  EXPECT_EQ(answers_b.Items()[0], (Message{"", "b0 answered"}));
  Do([&] {
    EXPECT_EQ(SendTo(*router, {"nobody", "", "x"}), ZmqSend::kNoPeer);
    a.reset();
    b.reset();
    router.reset();
  });
}

TEST_F(ZmqSockets, ALargeFrameEndsTheConnectionAndTheNextOneServes) {
  ZmqLimits small;
  small.message_bytes_max = 1000;
  auto publisher = Publisher(kAnyPort);
  Inbox<Message> inbox;
  auto subscriber = Subscriber(publisher->bound_endpoint(), "", inbox, small);
  Join(publisher, inbox);
  Do([&] { SendTo(*publisher, {"", std::string(2000, 'x')}); });
  Until([&] { Do([&] {
                return SendTo(*publisher, {"", "small"});
              }); },
        [&] {
          inbox.WaitFor(inbox.size() + 1, milliseconds(5));
          return !Bodies(inbox).empty();
        });
  EXPECT_EQ(Bodies(inbox)[0], "small");
  Do([&] {
    subscriber.reset();
    publisher.reset();
  });
}

/// Listens on a free port and treats one client to a greeting that no ZMQ peer accepts.
class OtherServer {
 public:
  OtherServer() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    UNDERSTUDY_ASSERT(::bind(listener_, raw, size) == 0 && ::listen(listener_, 1) == 0);
    UNDERSTUDY_ASSERT(::getsockname(listener_, raw, &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~OtherServer() { ::close(listener_); }
  OtherServer(const OtherServer&) = delete;
  OtherServer& operator=(const OtherServer&) = delete;

  [[nodiscard]] std::string endpoint() const { return "tcp://127.0.0.1:" + std::to_string(port_); }
  /// Returns when the client has hung up.
  void GreetOne() {
    const int client = ::accept(listener_, nullptr, nullptr);
    UNDERSTUDY_ASSERT(client >= 0);
    // The greeting of ZMTP 3.0, with a mechanism that we don't speak.
    std::string greeting(64, '\0');
    greeting[0] = '\xff';
    greeting[9] = '\x7f';
    greeting[10] = '\x03';
    greeting.replace(12, 5, "PLAIN");
    UNDERSTUDY_ASSERT(::send(client, greeting.data(), greeting.size(), MSG_NOSIGNAL) == 64);
    char byte = 0;
    while (::recv(client, &byte, 1, 0) > 0) {
    }
    ::close(client);
  }

 private:
  int listener_;
  std::uint16_t port_ = 0;
};

TEST_F(ZmqSockets, AnEndpointWhereSomeoneElseAnsweredIsTriedAgain) {
  std::string endpoint;
  Inbox<Message> inbox;
  std::unique_ptr<ZmqSubscriber> subscriber;
  {
    OtherServer other;
    endpoint = other.endpoint();
    subscriber = Subscriber(endpoint, "", inbox);
    other.GreetOne();
  }
  auto publisher = Publisher(endpoint);
  Join(publisher, inbox);
  Do([&] {
    subscriber.reset();
    publisher.reset();
  });
}

TEST_F(ZmqSockets, OfAMessageWithManyFramesTheFirstAreShown) {
  auto publisher = Publisher(kAnyPort);
  Inbox<Message> inbox;
  auto subscriber = Subscriber(publisher->bound_endpoint(), "", inbox);
  Join(publisher, inbox);
  Do([&] {
    SendTo(*publisher, Message(40, "part"));
    SendTo(*publisher, {"", "after"});
  });
  Until([] {}, [&] { return inbox.WaitFor(inbox.size()) && Bodies(inbox).size() == 2; });
  const auto items = inbox.Items();
  EXPECT_EQ(items[items.size() - 2].size(), kZmqFramesMax);
  EXPECT_EQ(items.back(), (Message{"", "after"}));
  Do([&] {
    subscriber.reset();
    publisher.reset();
  });
}

TEST_F(ZmqSockets, AnEndpointThatCannotBeUsedIsNamed) {
  auto publisher = Publisher(kAnyPort);
  Do([&] {
    auto second = std::move(*ZmqPublisher::New(context_, {}));
    const auto taken = second->Bind(publisher->bound_endpoint());
    ASSERT_FALSE(taken.has_value());
    EXPECT_EQ(taken.error().message,
              publisher->bound_endpoint() + " failed: Address already in use");
    EXPECT_EQ(second->Connect("carrier-pigeon://x").error().message,
              "carrier-pigeon://x failed: Protocol not supported");
    second.reset();
    publisher.reset();
  });
}

TEST_F(ZmqSockets, ASocketMayBeDestroyedInItsOwnHandler) {
  auto publisher = Publisher(kAnyPort);
  std::unique_ptr<ZmqSubscriber> subscriber;
  Inbox<Message> inbox;
  Do([&] {
    subscriber =
        std::move(*ZmqSubscriber::New(thread_.loop(), context_, "", {}, [&](ZmqFrames frames) {
          subscriber.reset();
          inbox.Add(Copy(frames));  // the frames outlive the socket
        }));
    ASSERT_TRUE(subscriber->Connect(publisher->bound_endpoint()).has_value());
  });
  Until([&] { Do([&] {
                return SendTo(*publisher, {"", "x"});
              }); },
        [&] { return inbox.WaitFor(1, milliseconds(5)); });
  Do([&] { publisher.reset(); });
  EXPECT_EQ(inbox.size(), 1U);
}

TEST_F(ZmqSockets, TheEndWaitsForNobodyWhateverIsUnsentOrUnread) {
  for (int round = 0; round < 5; ++round) {
    auto context = ZmqContext::New();
    std::swap(context, context_);
    context.reset();
    auto publisher = Publisher(kAnyPort);
    const std::string endpoint = publisher->bound_endpoint();
    Inbox<Message> inbox;
    auto subscriber = Subscriber(endpoint, "", inbox);
    Inbox<Message> never;
    auto lonely = Subscriber("tcp://127.0.0.1:1", "", never);
    auto dealer = Do([&] {
      auto socket = std::move(*ZmqDealer::New(thread_.loop(), context_, {}, [](ZmqFrames) {}));
      EXPECT_TRUE(socket->Connect("tcp://127.0.0.1:1").has_value());
      SendTo(*socket, {"", "nobody reads this"});
      return socket;
    });
    SilentSubscriber silent(endpoint, ZMQ_SUB);
    Join(publisher, inbox);
    Do([&] {
      for (int i = 0; i < 5000; ++i) {
        SendTo(*publisher, {"", std::string(1000, 'x')});
      }
    });
    // With unsent messages and peers that read nothing: waiting for them would never end.
    Do([&] {
      dealer.reset();
      lonely.reset();
      subscriber.reset();
      publisher.reset();
      context_.reset();
    });
    context_ = ZmqContext::New();
  }
}

}  // namespace
}  // namespace understudy::transport
