// Caller against a worker that the test plays: requests over a real nats-server, answers byte by
// byte over TCP.
#include "worker/call/caller.h"

#include "tests/fakes/server_process.h"
#include "tests/integration/nats/nats_peer.h"
#include "tests/unit/transport/tcp/dialled.h"

#include <future>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using fakes::LoopThread;
using fakes::ServerProcess;
using transport::PayloadCodec;
using transport::Peer;
using transport::StreamControl;
using End = CallOutcome::End;

constexpr const char* kSubject = "ns_backend.generate-1";

/// One request as the worker sees it.
struct Arrived {
  transport::RequestControl control;
  transport::PreprocessedRequest request;
  std::string reply;
};

class CallerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = ServerProcess::Nats();
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    worker_ = std::make_unique<transport::TestClient>(thread_, server_->url());
    client_ = std::make_unique<transport::TestClient>(thread_, server_->url());
    ASSERT_TRUE(worker_->Start());
    ASSERT_TRUE(client_->Start());
    worker_->Subscribe(kSubject, requests_);
    ASSERT_TRUE(worker_->Flush());
    plan_.token_ids = {11, 12, 13};
    plan_.max_tokens = 4;
    plan_.requests = 1;
    plan_.timeout = std::chrono::seconds(50);
    AddTarget(1, kSubject);
  }
  void TearDown() override {
    thread_.Do([this] { caller_.reset(); });
  }

  void AddTarget(std::uint64_t id, const std::string& subject) {
    CallTarget target;
    target.instance.name = {"ns", "backend", "generate"};
    target.instance.instance_id = id;
    target.instance.transport_value = subject;
    target.model = "tiny";
    targets_.push_back(std::move(target));
  }
  void Call() {
    done_ = all_done_.get_future();
    client_->Do([this](transport::NatsClient& nats) {
      Caller::Report report;
      report.on_sent = [](const CallOutcome&, const CallTarget&) {};
      report.on_token = [this](const CallOutcome&, std::uint32_t token) {
        tokens_.push_back(token);
      };
      report.on_end = [](const CallOutcome&) {};
      report.on_note = [this](const std::string& text) { notes_.push_back(text); };
      report.on_all_done = [this] { all_done_.set_value(caller_->outcomes()); };
      caller_ = std::make_unique<Caller>(
          thread_.loop(), nats, clock_, plan_, targets_, std::move(report));
      const auto started = caller_->Start("127.0.0.1");
      EXPECT_TRUE(started);
    });
  }
  Arrived Next() {
    const auto all = requests_.WaitFor(++arrived_);
    Arrived arrived;
    if (all.size() < arrived_) {
      ADD_FAILURE() << "no request came";
      return arrived;
    }
    const auto& message = all[arrived_ - 1];
    const auto frame = transport::ParseTwoPart(message.payload, 1U << 20);
    const auto control =
        frame ? transport::ParseRequestControl(frame->header) : tl::make_unexpected(frame.error());
    const auto request = control ? transport::DecodeRequest(control->codec, frame->body, {})
                                 : tl::make_unexpected(control.error());
    if (!request) {
      ADD_FAILURE() << request.error().message;
      return arrived;
    }
    arrived = {*control, *request, message.reply};
    return arrived;
  }
  void Ack(const Arrived& arrived, const std::string& text = {}) {
    EXPECT_TRUE(worker_->Publish(arrived.reply, text));
  }
  /// Calls home and says handshake and prologue.
  static std::unique_ptr<Peer> CallHome(const Arrived& arrived) {
    auto peer = Peer::Dial(arrived.control.address);
    std::string bytes;
    transport::AppendHandshake(bytes, arrived.control.subject);
    transport::AppendPrologue(bytes);
    peer->Send(bytes);
    return peer;
  }
  std::vector<CallOutcome> Outcomes() { return fakes::Await(std::move(done_)); }
  CallOutcome Outcome() {
    const auto all = Outcomes();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? CallOutcome() : all.front();
  }

  std::unique_ptr<ServerProcess> server_;
  SteadyClock clock_;
  LoopThread thread_;
  transport::Inbox requests_;
  std::size_t arrived_ = 0;
  std::unique_ptr<transport::TestClient> worker_, client_;
  CallPlan plan_;
  std::vector<CallTarget> targets_;
  std::vector<std::uint32_t> tokens_;  // written on the loop, read after the end
  std::vector<std::string> notes_;
  std::promise<std::vector<CallOutcome>> all_done_;
  std::future<std::vector<CallOutcome>> done_;
  std::unique_ptr<Caller> caller_;  // used on the loop
};

TEST_F(CallerTest, FollowsAResponseToItsEndAndClosesThen) {
  plan_.dp_rank = 2;
  Call();
  const auto arrived = Next();
  EXPECT_EQ(arrived.request.token_ids, plan_.token_ids);
  EXPECT_EQ(arrived.request.max_tokens, 4U);
  EXPECT_EQ(arrived.request.dp_rank, 2U);
  EXPECT_EQ(arrived.request.model, "tiny");
  EXPECT_EQ(arrived.control.id, arrived.control.context);
  EXPECT_EQ(arrived.control.codec, PayloadCodec::kJson);
  Ack(arrived);
  const auto peer = CallHome(arrived);
  std::string bytes;
  transport::AppendToken(bytes, PayloadCodec::kJson, 101);
  transport::AppendToken(bytes, PayloadCodec::kJson, 102);
  const transport::Usage usage{3, 2, 1};
  transport::AppendFinish(bytes, PayloadCodec::kJson, "length", &usage);
  transport::AppendCompleteFinal(bytes, PayloadCodec::kJson);
  transport::AppendSentinel(bytes);
  peer->Send(bytes);
  std::string said;
  EXPECT_EQ(peer->ReadToEnd(&said), Peer::End::kFin);
  EXPECT_EQ(said, "") << "nothing is said to a worker that completed";
  const auto outcome = Outcome();
  EXPECT_EQ(outcome.end, End::kDone) << outcome.text;
  EXPECT_EQ(outcome.token_ms.size(), 2U);
  EXPECT_EQ(outcome.finish_reason, "length");
  ASSERT_TRUE(outcome.usage);
  EXPECT_EQ(outcome.usage->completion_tokens, 2U);
  EXPECT_EQ(outcome.usage->cached_tokens, 1U);
  EXPECT_EQ(tokens_, (std::vector<std::uint32_t>{101, 102}));
  EXPECT_EQ(ExitCodeOf({outcome}), 0);
}

TEST_F(CallerTest, UsesTheCodecThatTheRecordAsksFor) {
  targets_[0].instance.request_plane_codec = "msgpack";
  Call();
  const auto arrived = Next();
  EXPECT_EQ(arrived.control.codec, PayloadCodec::kMsgpack);
  Ack(arrived);
  const auto peer = CallHome(arrived);
  std::string bytes;
  transport::AppendToken(bytes, PayloadCodec::kMsgpack, 7);
  transport::AppendCompleteFinal(bytes, PayloadCodec::kMsgpack);
  transport::AppendSentinel(bytes);
  peer->Send(bytes);
  EXPECT_EQ(Outcome().end, End::kDone);
  EXPECT_EQ(tokens_, std::vector<std::uint32_t>{7});
}

TEST_F(CallerTest, ReportsWhatARefusingAckSays) {
  Call();
  Ack(Next(), "Server overloaded: worker at capacity");
  const auto outcome = Outcome();
  EXPECT_EQ(outcome.end, End::kRefused);
  EXPECT_NE(outcome.text.find("Server overloaded: worker at capacity"), std::string::npos)
      << outcome.text;
  EXPECT_EQ(ExitCodeOf({outcome}), 1);
}

TEST_F(CallerTest, ReportsASubjectThatNobodyListensOn) {
  targets_[0].instance.transport_value = "ns_backend.generate-dead";
  Call();
  const auto outcome = Outcome();
  EXPECT_EQ(outcome.end, End::kRefused);
  EXPECT_NE(outcome.text.find("no responders"), std::string::npos) << outcome.text;
}

TEST_F(CallerTest, ReportsAnErrorPrologue) {
  Call();
  const auto arrived = Next();
  Ack(arrived);
  const auto peer = Peer::Dial(arrived.control.address);
  std::string bytes;
  transport::AppendHandshake(bytes, arrived.control.subject);
  transport::AppendErrorPrologue(bytes, "no engine here");
  peer->Send(bytes);
  const auto outcome = Outcome();
  EXPECT_EQ(outcome.end, End::kFailed);
  EXPECT_EQ(outcome.text, "error prologue: no engine here");
}

TEST_F(CallerTest, ReportsAnErrorItemAfterTheWholeResponse) {
  Call();
  const auto arrived = Next();
  Ack(arrived);
  const auto peer = CallHome(arrived);
  std::string bytes;
  transport::AppendErrorItem(
      bytes, PayloadCodec::kJson, "InvalidArgument", "max_tokens must not be 0");
  transport::AppendCompleteFinal(bytes, PayloadCodec::kJson);
  transport::AppendSentinel(bytes);
  peer->Send(bytes);
  const auto outcome = Outcome();
  EXPECT_EQ(outcome.end, End::kFailed);
  EXPECT_NE(outcome.text.find("max_tokens must not be 0"), std::string::npos) << outcome.text;
}

TEST_F(CallerTest, ReportsAConnectionThatEndsTooEarly) {
  Call();
  const auto arrived = Next();
  Ack(arrived);
  const auto peer = CallHome(arrived);
  peer->Send(transport::Token(1));
  peer->Close();
  const auto outcome = Outcome();
  EXPECT_EQ(outcome.end, End::kFailed);
  EXPECT_NE(outcome.text.find("complete_final"), std::string::npos) << outcome.text;
  EXPECT_EQ(outcome.token_ms.size(), 1U);
}

TEST_F(CallerTest, ReportsABrokenOrder) {
  Call();
  const auto arrived = Next();
  Ack(arrived);
  const auto peer = CallHome(arrived);
  std::string bytes;
  transport::AppendSentinel(bytes);
  peer->Send(bytes);
  const auto outcome = Outcome();
  EXPECT_EQ(outcome.end, End::kFailed);
  EXPECT_NE(outcome.text.find("broke the order"), std::string::npos) << outcome.text;
  EXPECT_NE(peer->ReadToEnd(), Peer::End::kNothing);
}

class CallerCancel : public CallerTest, public ::testing::WithParamInterface<StreamControl> {};

TEST_P(CallerCancel, SendsTheControlFrameAndWaitsForTheWorkerToClose) {
  plan_.cancel_after = 2;
  plan_.cancel_with = GetParam();
  Call();
  const auto arrived = Next();
  Ack(arrived);
  const auto peer = CallHome(arrived);
  peer->Send(transport::Token(1));
  peer->Send(transport::Token(2));
  const auto frame = transport::Control(GetParam());
  EXPECT_EQ(peer->Read(frame.size()), frame);
  peer->Send(transport::Token(3));  // was on its way
  peer->HalfClose();
  const auto outcome = Outcome();
  EXPECT_EQ(outcome.end, End::kCancelled) << outcome.text;
  EXPECT_TRUE(outcome.cancel_ms);
  EXPECT_TRUE(outcome.closed_ms);
  EXPECT_EQ(outcome.tokens_after_cancel, 1U);
  EXPECT_EQ(ExitCodeOf({outcome}), 0);
}
INSTANTIATE_TEST_SUITE_P(Words,
                         CallerCancel,
                         ::testing::Values(StreamControl::kKill, StreamControl::kStop));

TEST_F(CallerTest, GivesUpWithoutAnAck) {
  plan_.timeout = std::chrono::milliseconds(50);
  Call();
  const auto outcome = Outcome();
  EXPECT_EQ(outcome.end, End::kTimedOut);
  EXPECT_NE(outcome.text.find("no ack"), std::string::npos) << outcome.text;
  EXPECT_EQ(ExitCodeOf({outcome}), 4);
}

TEST_F(CallerTest, GivesUpOnAWorkerThatDoesNotCallHome) {
  plan_.timeout = std::chrono::milliseconds(200);
  Call();
  const auto arrived = Next();
  Ack(arrived);
  const auto outcome = Outcome();
  EXPECT_EQ(outcome.end, End::kTimedOut);
  EXPECT_NE(outcome.text.find("did not call " + arrived.control.address), std::string::npos)
      << outcome.text;
}

TEST_F(CallerTest, KillsAStreamThatStalls) {
  plan_.timeout = std::chrono::milliseconds(200);
  Call();
  const auto arrived = Next();
  Ack(arrived);
  const auto peer = CallHome(arrived);
  peer->Send(transport::Token(1));
  std::string said;
  EXPECT_EQ(peer->ReadToEnd(&said), Peer::End::kFin);
  EXPECT_EQ(said, transport::Control(StreamControl::kKill));
  const auto outcome = Outcome();
  EXPECT_EQ(outcome.end, End::kTimedOut);
  EXPECT_NE(outcome.text.find("after 1 tokens"), std::string::npos) << outcome.text;
}

TEST_F(CallerTest, DropsStrangersAndGoesOn) {
  Call();
  const auto arrived = Next();
  Ack(arrived);
  const auto stranger = Peer::Dial(arrived.control.address);
  std::string bytes;
  transport::AppendHandshake(bytes, "somebody-else");
  stranger->Send(bytes);
  EXPECT_NE(stranger->ReadToEnd(), Peer::End::kNothing);
  const auto noise = Peer::Dial(arrived.control.address);
  noise->Send("GET / HTTP/1.1\r\nHost: here\r\n\r\n");
  EXPECT_NE(noise->ReadToEnd(), Peer::End::kNothing);
  const auto peer = CallHome(arrived);
  peer->Send(transport::Token(1) + transport::Ending());
  EXPECT_EQ(Outcome().end, End::kDone);
  EXPECT_EQ(notes_.size(), 2U);
}

TEST_F(CallerTest, KeepsTheConcurrencyAndTakesTargetsInTurn) {
  AddTarget(2, "ns_backend.generate-2");
  worker_->Subscribe("ns_backend.generate-2", requests_);
  ASSERT_TRUE(worker_->Flush());
  plan_.requests = 6;
  plan_.concurrency = 2;
  Call();
  std::vector<Arrived> open{Next(), Next()};
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(client_->Flush());
    ASSERT_TRUE(worker_->Flush());
    EXPECT_EQ(requests_.size(), std::min<std::size_t>(6, static_cast<std::size_t>(i) + 2));
    const auto arrived = open.front();
    open.erase(open.begin());
    Ack(arrived);
    const auto peer = CallHome(arrived);
    peer->Send(transport::Token(1) + transport::Ending());
    peer->ReadToEnd();
    if (i < 4) {
      open.push_back(Next());
    }
  }
  const auto outcomes = Outcomes();
  ASSERT_EQ(outcomes.size(), 6U);
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.end, End::kDone) << outcome.text;
    EXPECT_EQ(outcome.instance_id, outcome.index % 2 + 1);
  }
}

TEST_F(CallerTest, AnInterruptKillsWhatRunsAndStartsNothingMore) {
  plan_.requests = 5;
  Call();
  const auto arrived = Next();
  Ack(arrived);
  const auto peer = CallHome(arrived);
  peer->Send(transport::Token(1));
  ASSERT_TRUE(client_->Flush());
  thread_.Do([this] {
    caller_->Interrupt();
    caller_->Interrupt();
  });
  const auto outcome = Outcome();
  EXPECT_EQ(outcome.end, End::kInterrupted);
  EXPECT_EQ(ExitCodeOf({outcome}), 1);
  EXPECT_NE(peer->ReadToEnd(), Peer::End::kNothing);
}

}  // namespace
}  // namespace understudy::worker
