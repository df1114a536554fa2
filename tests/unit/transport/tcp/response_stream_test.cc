// The worker's side of a response connection against a plain socket: what it writes, and when.
#include "tests/unit/transport/tcp/dialled.h"
#include "tests/unit/transport/tcp/peer.h"

#include <string>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

using fakes::LoopThread;

TEST(ResponseStream, WritesWhatWasAppendedBeforeTheConnectionWasUpFirst) {
  LoopThread thread;
  PeerListener listener;
  Dialled stream(thread, listener.address());
  stream.Say(Handshake());
  stream.Say(Token(7));
  const auto peer = listener.Accept();
  ASSERT_NE(peer, nullptr);
  const auto expected = Handshake() + Token(7);
  EXPECT_EQ(peer->Read(expected.size()), expected);
}

TEST(ResponseStream, SendsNothingBeforeFlush) {
  LoopThread thread;
  PeerListener listener;
  Dialled stream(thread, listener.address());
  stream.Say(Handshake());
  const auto peer = listener.Accept();
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(peer->Read(Handshake().size()), Handshake());
  stream.Do([](ResponseStream& s) { s.Append(Token(1)); });
  EXPECT_EQ(stream.Do([](ResponseStream& s) { return s.bytes_sent(); }), Handshake().size());
  stream.Do([](ResponseStream& s) { s.Flush(); });
  EXPECT_EQ(peer->Read(Token(1).size()), Token(1));
  EXPECT_EQ(stream.Do([](ResponseStream& s) { return s.bytes_sent(); }),
            Handshake().size() + Token(1).size());
}

TEST(ResponseStream, WritesOncePerFlush) {
  LoopThread thread;
  PeerListener listener;
  Dialled stream(thread, listener.address());
  stream.Say(Handshake());
  const auto peer = listener.Accept();
  ASSERT_NE(peer, nullptr);
  peer->Read(Handshake().size());
  auto before = peer->DataSegmentsIn();

  std::string all;  // a hundred frames in a pass: one segment
  stream.Do([&all](ResponseStream& s) {
    for (std::uint32_t i = 0; i < 100; ++i) {
      s.Append(Token(i));
      all += Token(i);
    }
    s.Flush();
  });
  EXPECT_EQ(peer->Read(all.size()), all);
  EXPECT_EQ(peer->DataSegmentsIn() - before, 1U);

  before = peer->DataSegmentsIn();  // and a flush never waits for more to come (TCP_NODELAY)
  for (std::uint32_t i = 0; i < 10; ++i) {
    stream.Say(Token(i));
    EXPECT_EQ(peer->Read(Token(i).size()), Token(i));
  }
  EXPECT_EQ(peer->DataSegmentsIn() - before, 10U);
}

TEST(ResponseStream, FlushWithNothingAppendedWritesNothing) {
  LoopThread thread;
  PeerListener listener;
  Dialled stream(thread, listener.address());
  stream.Say(Handshake());
  const auto peer = listener.Accept();
  ASSERT_NE(peer, nullptr);
  peer->Read(Handshake().size());
  const auto before = peer->DataSegmentsIn();
  stream.Do([](ResponseStream& s) {
    s.Flush();
    s.Flush();
  });
  stream.Say(Token(1));
  EXPECT_EQ(peer->Read(Token(1).size()), Token(1));
  EXPECT_EQ(peer->DataSegmentsIn() - before, 1U);
}

TEST(ResponseStream, DialsAnUnbracketedIpv6Address) {
  LoopThread thread;
  PeerListener listener(true);
  ASSERT_EQ(listener.address().find('['), std::string::npos);
  Dialled stream(thread, listener.address());
  stream.Say(Handshake());
  const auto peer = listener.Accept();
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(peer->Read(Handshake().size()), Handshake());
}

TEST(ResponseStream, DialsABracketedIpv6Address) {
  LoopThread thread;
  PeerListener listener(true);
  Dialled stream(thread, "[::1]:" + std::to_string(listener.port()));
  stream.Say(Handshake());
  const auto peer = listener.Accept();
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(peer->Read(Handshake().size()), Handshake());
}

TEST(ResponseStream, TriesEveryAddressOfAName) {
  LoopThread thread;
  PeerListener only_v4;  // where localhost means ::1 first, the first try is refused
  Dialled stream(thread, "localhost:" + std::to_string(only_v4.port()));
  stream.Say(Handshake());
  const auto peer = only_v4.Accept();
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(peer->Read(Handshake().size()), Handshake());
}

TEST(ResponseStream, KeepsTheOrderWhenThePeerReadsSlowly) {
  LoopThread thread;
  PeerListener listener(false, 8192);
  Dialled stream(thread, listener.address());
  const auto peer = listener.Accept();
  ASSERT_NE(peer, nullptr);
  std::string expected;
  for (std::uint32_t i = 0; i < 40'000; ++i) {
    expected += Token(i);
  }
  for (std::size_t at = 0; at < expected.size(); at += 50'000) {
    stream.Say(std::string_view(expected).substr(at, 50'000));
  }
  stream.Do([](ResponseStream& s) { s.Finish(); });
  std::string got;
  while (got.size() < expected.size()) {
    const auto piece = peer->Read(1);
    ASSERT_FALSE(piece.empty());
    got += piece;
  }
  EXPECT_EQ(got, expected);
  peer->Close();
  EXPECT_EQ(stream.WaitForEnd().first, StreamEnd::kFinished);
}

/// A peer that reads steadily, but is never quite up to date: what was sent may not pile up in
/// memory.
TEST(ResponseStream, KeepsNoMemoryOfWhatASlowReaderHasRead) {
  LoopThread thread;
  PeerListener listener;
  Dialled stream(thread, listener.address());
  const auto peer = listener.Accept();
  ASSERT_NE(peer, nullptr);
  const std::string chunk(1U << 20, 'x');
  std::size_t appended = 0;
  std::size_t read = 0;
  const auto append = [&] {
    stream.Say(chunk);
    appended += chunk.size();
  };
  constexpr std::size_t kAhead = 12U
                                 << 20;  // more than the kernel takes: the buffer is never empty
  while (appended < kAhead) {
    append();
  }
  const auto before = ResidentBytes();
  constexpr std::size_t kTotal = 800U << 20;
  while (appended < kTotal) {
    const auto piece = peer->Read(chunk.size());
    ASSERT_FALSE(piece.empty());
    read += piece.size();
    while (appended < read + kAhead) {
      append();
    }
  }
  EXPECT_EQ(stream.ends(), 0);
  EXPECT_LT(ResidentBytes(),
            before + kTotal / 2);  // AddressSanitizer keeps 256 MiB of freed memory
}

TEST(ResponseStream, ManyInARowLeaveNoDescriptorBehind) {
  LoopThread thread;
  PeerListener listener;
  std::size_t before = 0;
  for (int i = 0; i < 1000; ++i) {
    Dialled stream(thread, listener.address());
    stream.Say(Handshake() + Token(1) + Ending());
    stream.Do([](ResponseStream& s) { s.Finish(); });
    const auto peer = listener.Accept();
    ASSERT_NE(peer, nullptr);
    const auto size = (Handshake() + Token(1) + Ending()).size();
    ASSERT_EQ(peer->Read(size).size(), size);
    peer->Close();
    ASSERT_EQ(stream.WaitForEnd().first, StreamEnd::kFinished);
    if (i == 10) {  // everything that is made once is there by now
      before = OpenDescriptors();
    }
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

}  // namespace
}  // namespace understudy::transport
