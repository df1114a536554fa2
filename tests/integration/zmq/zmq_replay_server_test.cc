// The replay socket of an engine of ours against clients of every kind.
#include "tests/integration/zmq/zmq_inbox.h"
#include "understudy/transport/kv_batch.h"
#include "worker/kv_relay/batch_ring.h"
#include "worker/kv_relay/replay_server.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <zmq.h>

namespace understudy::worker {
namespace {

using std::chrono::milliseconds;
using transport::kReplayEndSequence;
using transport::Message;
using transport::SequenceFrame;
using transport::ZmqDealer;
using transport::ZmqFrames;

class Replay : public transport::ZmqTest {
 protected:
  Replay() {
    Do([&] {
      auto made = ReplayServer::New(
          thread_.loop(), context_, "tcp://127.0.0.1:*", ring_, std::chrono::milliseconds(500));
      UNDERSTUDY_ASSERT(made.has_value());
      server_ = std::move(*made);
    });
  }
  ~Replay() override {
    Do([&] {
      client_.reset();
      server_.reset();
    });
  }

  void Fill(std::size_t batches, std::size_t bytes = 3) {
    Do([&] {
      for (std::size_t i = 0; i < batches; ++i) {
        ring_.Push(std::string(bytes, static_cast<char>('a' + i % 26)));
      }
    });
  }
  std::unique_ptr<ZmqDealer> Client(transport::Inbox<Message>& inbox) {
    return Do([&] {
      auto socket =
          std::move(*ZmqDealer::New(thread_.loop(), context_, {}, [&inbox](ZmqFrames frames) {
            inbox.Add(transport::Copy(frames));
          }));
      UNDERSTUDY_ASSERT(socket->Connect(server_->endpoint()).has_value());
      return socket;
    });
  }
  void Ask(const Message& frames) {
    if (client_ == nullptr) {
      client_ = Client(inbox_);
    }
    Do([&] { SendTo(*client_, frames); });
  }
  ReplayServer::Counters Counters() {
    return Do([&] { return server_->counters(); });
  }

  BatchRing ring_{BatchRing::Limits{}};
  std::unique_ptr<ReplayServer> server_;
  transport::Inbox<Message> inbox_;
  std::unique_ptr<ZmqDealer> client_;
};

const Message kEnd = {"", SequenceFrame(kReplayEndSequence), ""};

TEST_F(Replay, M036_GivesWhatItHasFromTheStartOnAndThenTheEndMark) {
  Fill(5);
  Ask({"", SequenceFrame(2)});
  ASSERT_TRUE(inbox_.WaitFor(4));
  EXPECT_EQ(inbox_.Items(),
            (std::vector<Message>{{"", SequenceFrame(2), "ccc"},
                                  {"", SequenceFrame(3), "ddd"},
                                  {"", SequenceFrame(4), "eee"},
                                  kEnd}));
  EXPECT_EQ(Counters().outside, 0U);
}

TEST_F(Replay, AStartOutsideOfTheRingGetsWhatThereIs) {
  Ask({"", SequenceFrame(0)});
  ASSERT_TRUE(inbox_.WaitFor(1));
  Fill(10'001);
  Ask({"", SequenceFrame(100'000)});
  ASSERT_TRUE(inbox_.WaitFor(2));
  EXPECT_EQ(inbox_.Items(), (std::vector<Message>{kEnd, kEnd}));
  Ask({"", SequenceFrame(0)});
  ASSERT_TRUE(inbox_.WaitFor(2 + 10'001));
  const auto items = inbox_.Items();
  EXPECT_EQ(items[2][1], SequenceFrame(1));
  EXPECT_EQ(items.back(), kEnd);
  EXPECT_EQ(Counters().outside, 3U);
}

TEST_F(Replay, MalformedRequestsGetNoAnswerAndAreCounted) {
  Fill(1);
  Ask({SequenceFrame(0)});
  Ask({"", std::string(4, '\0')});
  Ask({"", std::string(9, '\0')});
  Ask({"", ""});
  Ask({"", SequenceFrame(0), "more", "frames"});  // as lenient as the reference
  ASSERT_TRUE(inbox_.WaitFor(2));
  EXPECT_EQ(inbox_.size(), 2U);
  EXPECT_EQ(Counters().malformed, 4U);
  EXPECT_EQ(Counters().completed, 1U);
}

TEST_F(Replay, RequestsOfOneClientAreAnsweredOneAfterTheOther) {
  Fill(3);
  Ask({"", SequenceFrame(1)});
  Ask({"", SequenceFrame(0)});
  ASSERT_TRUE(inbox_.WaitFor(7));
  const auto items = inbox_.Items();
  EXPECT_EQ(items[0][1], SequenceFrame(1));
  EXPECT_EQ(items[2], kEnd);
  EXPECT_EQ(items[3][1], SequenceFrame(0));
  EXPECT_EQ(items[6], kEnd);
}

/// A DEALER that asks and never reads.
class SilentClient {
 public:
  explicit SilentClient(const std::string& endpoint)
      : context_(zmq_ctx_new()), socket_(zmq_socket(context_, ZMQ_DEALER)) {
    const int one = 1, small = 4096, zero = 0;
    zmq_setsockopt(socket_, ZMQ_RCVHWM, &one, sizeof(one));
    zmq_setsockopt(socket_, ZMQ_RCVBUF, &small, sizeof(small));
    zmq_setsockopt(socket_, ZMQ_LINGER, &zero, sizeof(zero));
    UNDERSTUDY_ASSERT(zmq_connect(socket_, endpoint.c_str()) == 0);
    const std::string start = SequenceFrame(0);
    UNDERSTUDY_ASSERT(zmq_send(socket_, "", 0, ZMQ_SNDMORE) >= 0);
    UNDERSTUDY_ASSERT(zmq_send(socket_, start.data(), start.size(), 0) >= 0);
  }
  ~SilentClient() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  SilentClient(const SilentClient&) = delete;
  SilentClient& operator=(const SilentClient&) = delete;

 private:
  void* context_;
  void* socket_;
};

TEST_F(Replay, U12AClientThatDoesNotReadHoldsUpNobodyAndIsForgotten) {
  Fill(2000, 20'000);  // 40 MB: more than any queue of the silent one holds
  SilentClient silent(Do([&] { return server_->endpoint(); }));
  transport::Until([&] {}, [&] { return Counters().requests == 1; });
  for (int round = 0; round < 3; ++round) {
    Ask({"", SequenceFrame(0)});
    ASSERT_TRUE(inbox_.WaitFor(2001U * static_cast<unsigned>(round + 1)));
    EXPECT_EQ(inbox_.Items().back(), kEnd);
  }
  transport::Until([&] {}, [&] { return Counters().dropped == 1; });
  EXPECT_EQ(Do([&] { return server_->clients(); }), 0U);
  EXPECT_EQ(Counters().completed, 3U);
}

TEST_F(Replay, AClientThatGoesAwayIsForgotten) {
  Fill(2000, 20'000);
  {
    SilentClient silent(Do([&] { return server_->endpoint(); }));
    transport::Until([&] {}, [&] { return Counters().requests == 1; });
  }
  transport::Until([&] {}, [&] { return Counters().dropped == 1; });
}

TEST_F(Replay, WhatComesWhileItAnswersIsNotPartOfTheAnswer) {
  Fill(100);
  Ask({"", SequenceFrame(0)});
  transport::Until([&] {}, [&] { return Counters().requests == 1; });
  Fill(100);
  transport::Until([&] {}, [&] { return Counters().completed == 1; });
  EXPECT_EQ(Counters().batches, 100U);
  ASSERT_TRUE(inbox_.WaitFor(101));
  EXPECT_EQ(inbox_.Items().back(), kEnd);
}

TEST_F(Replay, MoreRequestsThanItTakesGetTheEndMarkAtOnce) {
  Fill(3000, 10'000);
  std::vector<std::unique_ptr<SilentClient>> silent;
  for (std::size_t i = 0; i < ReplayServer::kClientsMax; ++i) {
    silent.push_back(std::make_unique<SilentClient>(Do([&] { return server_->endpoint(); })));
  }
  transport::Until([&] {}, [&] { return Counters().requests == ReplayServer::kClientsMax; });
  Ask({"", SequenceFrame(0)});
  ASSERT_TRUE(inbox_.WaitFor(1));
  EXPECT_EQ(inbox_.Items()[0], kEnd);
  EXPECT_EQ(Counters().refused, 1U);
}

}  // namespace
}  // namespace understudy::worker
