// Frontends that are absent, silent, or say what they may not.
#include "tests/unit/transport/tcp/dialled.h"
#include "tests/unit/transport/tcp/peer.h"

#include <memory>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

using fakes::LoopThread;

TEST(ResponseFault, NobodyListensIsConnectFailed) {
  LoopThread thread;
  std::string address;
  {
    const PeerListener gone;
    address = gone.address();
  }
  Dialled stream(thread, address);
  stream.Say(Handshake());
  const auto [end, text] = stream.WaitForEnd();
  EXPECT_EQ(end, StreamEnd::kConnectFailed);
  EXPECT_NE(text.find(address), std::string::npos) << text;
}

class BadDialAddress : public ::testing::TestWithParam<const char*> {};
TEST_P(BadDialAddress, IsConnectFailed) {
  LoopThread thread;
  Dialled stream(thread, GetParam());
  stream.Say(Handshake());
  EXPECT_EQ(stream.WaitForEnd().first, StreamEnd::kConnectFailed);
  EXPECT_EQ(stream.ends(), 1);
}
INSTANTIATE_TEST_SUITE_P(
    Forms,
    BadDialAddress,
    ::testing::Values("", "nonsense", "127.0.0.1", "127.0.0.1:0", "a b:80", "::1"));

TEST(ResponseFault, AnAbortWhileConnectingLeavesNothing) {
  LoopThread thread;
  const PeerListener listener;
  for (int i = 0; i < 50; ++i) {
    Dialled stream(thread, listener.address());
    stream.Do([](ResponseStream& s) { s.Abort(); });
    EXPECT_EQ(stream.ends(), 0);
  }
}

/// What a peer may not say, before and after the first data frame.
struct Garbage {
  const char* name;
  std::string bytes;
};
class BadPeer : public ::testing::TestWithParam<std::tuple<Garbage, bool>> {};

TEST_P(BadPeer, IsAProtocolError) {
  const auto& [garbage, after_data] = GetParam();
  LoopThread thread;
  PeerListener listener;
  Dialled stream(thread, listener.address());
  auto said = Handshake();
  if (after_data) {
    said += Token(1);
  }
  stream.Say(said);
  const auto peer = listener.Accept();
  ASSERT_NE(peer, nullptr);
  ASSERT_EQ(peer->Read(said.size()), said);
  peer->Send(garbage.bytes);
  EXPECT_EQ(stream.WaitForEnd().first, StreamEnd::kProtocolError);
  std::string rest;
  EXPECT_NE(peer->ReadToEnd(&rest), Peer::End::kNothing);
  EXPECT_EQ(rest, "");
}

std::string Frame(std::string_view header, std::string_view body) {
  std::string bytes;
  AppendTwoPart(bytes, header, body);
  return bytes;
}

INSTANTIATE_TEST_SUITE_P(
    Words,
    BadPeer,
    ::testing::Combine(
        ::testing::Values(Garbage{"sentinel", Frame("\"sentinel\"", "")},
                          Garbage{"data", Frame("", "{\"data\":1}")},
                          Garbage{"both", Frame("\"kill\"", "x")},
                          Garbage{"unknown_word", Frame("\"pause\"", "")},
                          Garbage{"broken_json", Frame("\"kill", "")},
                          Garbage{"empty_frame", Frame("", "")},
                          Garbage{"http", "GET / HTTP/1.1\r\nHost: somebody\r\n\r\n"},
                          Garbage{"huge_lengths", std::string(24, '\xFF')},
                          Garbage{"long_header", Frame(std::string(60'000, ' '), "")}),
        ::testing::Bool()),
    [](const auto& one) {
      return std::string(std::get<0>(one.param).name) +
             (std::get<1>(one.param) ? "_after_data" : "_first");
    });

TEST(ResponseFault, AStopBehindGarbageDoesNotCount) {
  LoopThread thread;
  PeerListener listener;
  Dialled stream(thread, listener.address());
  const auto peer = listener.Accept();
  ASSERT_NE(peer, nullptr);
  peer->Send(Frame("\"pause\"", "") + Control(StreamControl::kStop));
  EXPECT_EQ(stream.WaitForEnd().first, StreamEnd::kProtocolError);
}

TEST(ResponseFault, APeerThatNeverReadsEndsAtTheBacklogLimit) {
  LoopThread thread;
  PeerListener listener(false, 4096);
  Dialled stream(thread, listener.address());
  const auto peer = listener.Accept();
  ASSERT_NE(peer, nullptr);
  const std::string chunk(1U << 20, 'x');
  int chunks = 0;
  while (stream.ends() == 0 && chunks < 64) {
    stream.Say(chunk);
    ++chunks;
  }
  const auto [end, text] = stream.WaitForEnd();
  EXPECT_EQ(end, StreamEnd::kBacklog);
  EXPECT_NE(text.find("does not read"), std::string::npos) << text;
  // The limit is of what waits here; the kernel's buffers took some more.
  EXPECT_GT(chunks, 16);
  EXPECT_LT(chunks, 40);
}

TEST(ResponseFault, TheBacklogLimitHoldsBeforeTheConnectionIsUp) {
  LoopThread thread;
  const PeerListener listener;
  const std::string most(ResponseStream::kBacklogBytesMax, 'x');
  thread.Do([&] {  // one task: the connection cannot come up in between
    int ends = 0;
    auto stream = DialResponseStream(
        thread.loop(), listener.address(), [&](StreamEnd, const std::string&) { ++ends; });
    stream->Append(most);
    stream->Flush();
    EXPECT_EQ(stream->bytes_sent(), 0U);
    stream->Abort();
  });
  Dialled stream(thread, listener.address());
  stream.Do([&](ResponseStream& s) {
    s.Append(most);
    s.Append("x");
  });
  EXPECT_EQ(stream.WaitForEnd().first, StreamEnd::kBacklog);
}

TEST(ResponseFault, AFloodOfControlFramesAfterFinishDoesNotHoldTheLoop) {
  LoopThread thread;
  PeerListener listener;
  Dialled stream(thread, listener.address());
  stream.Say(Handshake() + Ending());
  stream.Do([](ResponseStream& s) { s.Finish(); });
  const auto peer = listener.Accept();
  ASSERT_NE(peer, nullptr);
  std::string flood;
  for (int i = 0; i < 10'000; ++i) {
    flood += Control(StreamControl::kKill);
  }
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(peer->Send(flood));
    thread.Do([] {});  // the loop still takes other work
  }
  peer->Close();
  EXPECT_EQ(stream.WaitForEnd().first, StreamEnd::kFinished);
}

class RandomPeer : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(RandomPeer, NeverCrashesTheStreamAndAlwaysEndsIt) {
  std::mt19937 random(GetParam());
  LoopThread thread;
  PeerListener listener;
  Dialled stream(thread, listener.address());
  stream.Say(Handshake());
  const auto peer = listener.Accept();
  ASSERT_NE(peer, nullptr);
  std::string bytes = Control(StreamControl::kKill) + Frame("", "body") + Handshake();
  for (int i = 0; i < 8; ++i) {
    bytes[random() % bytes.size()] = static_cast<char>(random());
  }
  for (std::size_t at = 0; at < bytes.size();) {
    const auto n = std::min<std::size_t>(1 + random() % 20, bytes.size() - at);
    peer->Send(std::string_view(bytes).substr(at, n));
    at += n;
  }
  peer->HalfClose();
  const auto end = stream.WaitForEnd().first;
  EXPECT_TRUE(end == StreamEnd::kKill || end == StreamEnd::kStop ||
              end == StreamEnd::kProtocolError || end == StreamEnd::kPeerClosed);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomPeer, ::testing::Range(0U, 100U));

}  // namespace
}  // namespace understudy::transport
