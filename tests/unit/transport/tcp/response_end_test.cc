// How a response stream ends: by Finish, by the frontend's word, by Abort.
#include "tests/unit/transport/tcp/dialled.h"
#include "tests/unit/transport/tcp/peer.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

using fakes::LoopThread;

/// A stream that has said its handshake, and the peer that has read it.
class ResponseEnd : public ::testing::Test {
 protected:
  void SetUp() override {
    stream_ = std::make_unique<Dialled>(thread_, listener_.address());
    stream_->Say(Handshake());
    peer_ = listener_.Accept();
    ASSERT_NE(peer_, nullptr);
    ASSERT_EQ(peer_->Read(Handshake().size()), Handshake());
  }
  void SayTokens() {
    stream_->Say(Token(1) + Token(2));
    const auto size = (Token(1) + Token(2)).size();
    ASSERT_EQ(peer_->Read(size).size(), size);
  }
  void SayEnding() {
    stream_->Say(Ending());
    stream_->Do([](ResponseStream& s) { s.Finish(); });
  }

  LoopThread thread_;
  PeerListener listener_;
  std::unique_ptr<Peer> peer_;
  std::unique_ptr<Dialled> stream_;
};

TEST_F(ResponseEnd, FinishWaitsForThePeersFin) {
  SayTokens();
  SayEnding();
  EXPECT_EQ(peer_->Read(Ending().size()), Ending());
  // Its side stays open until ours closes: a worker that half-closes first counts as disconnected.
  EXPECT_EQ(stream_->ends(), 0);
  peer_->HalfClose();
  EXPECT_EQ(stream_->WaitForEnd().first, StreamEnd::kFinished);
  EXPECT_EQ(peer_->ReadToEnd(), Peer::End::kFin);
}

TEST_F(ResponseEnd, FinishTakesAResetForTheFin) {
  SayEnding();
  peer_->Read(Ending().size());
  peer_->Reset();
  EXPECT_EQ(stream_->WaitForEnd().first, StreamEnd::kFinished);
}

TEST_F(ResponseEnd, FinishIgnoresALateKill) {
  SayEnding();
  peer_->Read(Ending().size());
  peer_->Send(Control(StreamControl::kStop) + Control(StreamControl::kKill));
  peer_->Close();
  EXPECT_EQ(stream_->WaitForEnd().first, StreamEnd::kFinished);
}

TEST_F(ResponseEnd, FinishFlushesWhatWasAppended) {
  stream_->Do([](ResponseStream& s) {
    s.Append(Ending());
    s.Finish();
  });
  EXPECT_EQ(peer_->Read(Ending().size()), Ending());
}

TEST_F(ResponseEnd, StopEndsIt) {
  SayTokens();
  peer_->Send(Control(StreamControl::kStop));
  EXPECT_EQ(stream_->WaitForEnd().first, StreamEnd::kStop);
  std::string rest;
  peer_->ReadToEnd(&rest);
  EXPECT_EQ(rest, "");
}

TEST_F(ResponseEnd, KillBeforeTheFirstTokenEndsIt) {
  peer_->Send(Control(StreamControl::kKill));
  EXPECT_EQ(stream_->WaitForEnd().first, StreamEnd::kKill);
}

TEST_F(ResponseEnd, KillAmongTokensEndsIt) {
  SayTokens();
  peer_->Send(Control(StreamControl::kKill));
  EXPECT_EQ(stream_->WaitForEnd().first, StreamEnd::kKill);
}

TEST_F(ResponseEnd, StopThenKillInOneSegmentEndsItOnce) {
  peer_->Send(Control(StreamControl::kStop) + Control(StreamControl::kKill));
  peer_->Close();
  EXPECT_EQ(stream_->WaitForEnd().first, StreamEnd::kStop);
  EXPECT_EQ(stream_->ends(), 1);
}

TEST_F(ResponseEnd, KillInSingleBytesEndsIt) {
  for (const char byte : Control(StreamControl::kKill)) {
    peer_->Send({&byte, 1});
  }
  EXPECT_EQ(stream_->WaitForEnd().first, StreamEnd::kKill);
}

TEST_F(ResponseEnd, NothingIsWrittenAfterTheEnd) {
  peer_->Send(Control(StreamControl::kKill));
  ASSERT_EQ(stream_->WaitForEnd().first, StreamEnd::kKill);
  stream_->Say(Token(3));
  SayEnding();
  std::string rest;
  peer_->ReadToEnd(&rest);
  EXPECT_EQ(rest, "");
  EXPECT_EQ(stream_->ends(), 1);
}

TEST_F(ResponseEnd, FinBeforeCompletionIsPeerClosed) {
  SayTokens();
  peer_->Close();
  const auto [end, text] = stream_->WaitForEnd();
  EXPECT_EQ(end, StreamEnd::kPeerClosed);
  EXPECT_NE(text.find(listener_.address()), std::string::npos) << text;
}

TEST_F(ResponseEnd, ResetBeforeCompletionIsPeerClosed) {
  SayTokens();
  peer_->Reset();
  EXPECT_EQ(stream_->WaitForEnd().first, StreamEnd::kPeerClosed);
}

TEST_F(ResponseEnd, AbortClosesAtOnceAndSaysNothing) {
  stream_->Do([](ResponseStream& s) {
    s.Append(Token(9));  // not flushed: dropped
    s.Abort();
  });
  std::string rest;
  EXPECT_EQ(peer_->ReadToEnd(&rest), Peer::End::kFin);
  EXPECT_EQ(rest, "");
  EXPECT_EQ(stream_->ends(), 0);
}

TEST_F(ResponseEnd, DestroyingItClosesAtOnceAndSaysNothing) {
  stream_->Destroy();
  EXPECT_EQ(peer_->ReadToEnd(), Peer::End::kFin);
  EXPECT_EQ(stream_->ends(), 0);
}

TEST_F(ResponseEnd, AbortSilencesAnEndThatIsOnItsWay) {
  stream_->Do([&](ResponseStream& s) {
    s.Append(
        std::string(ResponseStream::kBacklogBytesMax + 1, 'x'));  // ends it, told on a later turn
    s.Abort();
  });
  EXPECT_EQ(stream_->ends(), 0);
}

TEST(ResponseStreamOwner, MayDestroyTheStreamInOnEnd) {
  LoopThread thread;
  PeerListener listener;
  std::unique_ptr<ResponseStream> stream;
  std::promise<StreamEnd> ended;
  thread.Do([&] {
    stream = DialResponseStream(
        thread.loop(), listener.address(), [&](StreamEnd end, const std::string&) {
          stream.reset();
          ended.set_value(end);
        });
  });
  const auto peer = listener.Accept();
  ASSERT_NE(peer, nullptr);
  peer->Send(Control(StreamControl::kKill));
  EXPECT_EQ(fakes::Await(ended.get_future()), StreamEnd::kKill);
}

}  // namespace
}  // namespace understudy::transport
