#include "worker/call/stream_reader.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using transport::PayloadCodec;
using transport::ResponseFrame;
using Kind = ResponseFrame::Kind;

std::string WholeStream(PayloadCodec codec) {
  std::string bytes;
  transport::AppendHandshake(bytes, "s");
  transport::AppendPrologue(bytes);
  for (std::uint32_t token = 1; token <= 5; ++token) {
    transport::AppendToken(bytes, codec, token);
  }
  transport::AppendFinish(bytes, codec, "length", nullptr);
  transport::AppendCompleteFinal(bytes, codec);
  transport::AppendSentinel(bytes);
  return bytes;
}

/// Kinds of the frames read, or the error at the end.
std::pair<std::vector<Kind>, Status> Read(StreamReader& reader, std::string_view bytes) {
  std::vector<Kind> kinds;
  auto status =
      reader.Feed(bytes, [&](const ResponseFrame& frame) { kinds.push_back(frame.kind); });
  return {kinds, status};
}

TEST(StreamReader, ReadsAWholeResponse) {
  StreamReader reader;
  const auto [kinds, status] = Read(reader, WholeStream(PayloadCodec::kJson));
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(kinds,
            (std::vector<Kind>{Kind::kHandshake,
                               Kind::kPrologue,
                               Kind::kItem,
                               Kind::kItem,
                               Kind::kItem,
                               Kind::kItem,
                               Kind::kItem,
                               Kind::kItem,
                               Kind::kCompleteFinal,
                               Kind::kSentinel}));
  EXPECT_TRUE(reader.complete());
}

class StreamCut : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(StreamCut, AnyCutGivesTheSameFrames) {
  std::mt19937 random(GetParam());
  const auto codec = GetParam() % 2 == 0 ? PayloadCodec::kJson : PayloadCodec::kMsgpack;
  const auto bytes = WholeStream(codec);
  StreamReader reader;
  reader.set_codec(codec);
  std::vector<std::uint32_t> tokens;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto n = std::min<std::size_t>(1 + random() % 40, bytes.size() - at);
    const auto status =
        reader.Feed(std::string_view(bytes).substr(at, n), [&](const ResponseFrame& frame) {
          tokens.insert(tokens.end(), frame.token_ids.begin(), frame.token_ids.end());
        });
    ASSERT_TRUE(status) << status.error().message;
    at += n;
    EXPECT_EQ(reader.complete(), at == bytes.size());
  }
  EXPECT_EQ(tokens, (std::vector<std::uint32_t>{1, 2, 3, 4, 5}));
}
INSTANTIATE_TEST_SUITE_P(Seeds, StreamCut, ::testing::Range(0U, 50U));

TEST(StreamReader, AnErrorPrologueEndsTheResponse) {
  std::string bytes;
  transport::AppendHandshake(bytes, "s");
  transport::AppendErrorPrologue(bytes, "no engine");
  StreamReader reader;
  std::string text;
  ASSERT_TRUE(reader.Feed(bytes, [&](const ResponseFrame& frame) { text = frame.error; }));
  EXPECT_EQ(text, "no engine");
  EXPECT_TRUE(reader.complete());
}

void Handshake(std::string& bytes) {
  transport::AppendHandshake(bytes, "s");
}
void Item(std::string& bytes) {
  transport::AppendToken(bytes, PayloadCodec::kJson, 1);
}
void Final(std::string& bytes) {
  transport::AppendCompleteFinal(bytes, PayloadCodec::kJson);
}

using Step = void (*)(std::string&);
struct Disorder {
  const char* name;
  std::vector<Step> steps;
  const char* due;  ///< what the text must say was due
};
class BrokenOrder : public ::testing::TestWithParam<Disorder> {};

TEST_P(BrokenOrder, IsNamed) {
  std::string bytes;
  for (const auto step : GetParam().steps) {
    step(bytes);
  }
  StreamReader reader;
  const auto [kinds, status] = Read(reader, bytes);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kMalformed);
  EXPECT_NE(status.error().message.find(GetParam().due), std::string::npos)
      << status.error().message;
  EXPECT_EQ(kinds.size(), GetParam().steps.size() - 1)
      << "the frames before the fault are handed over";
}
INSTANTIATE_TEST_SUITE_P(
    Orders,
    BrokenOrder,
    ::testing::Values(
        Disorder{"no_handshake", {transport::AppendPrologue}, "the handshake is due"},
        Disorder{"no_prologue", {Handshake, Item}, "the prologue is due"},
        Disorder{"final_first", {Handshake, Final}, "the prologue is due"},
        Disorder{"no_final",
                 {Handshake, transport::AppendPrologue, Item, transport::AppendSentinel},
                 "complete_final is due"},
        Disorder{"data_after_final",
                 {Handshake, transport::AppendPrologue, Final, Item},
                 "the sentinel is due"},
        Disorder{"two_finals",
                 {Handshake, transport::AppendPrologue, Final, Final},
                 "the sentinel is due"},
        Disorder{"two_handshakes", {Handshake, Handshake}, "the prologue is due"},
        Disorder{"after_sentinel",
                 {Handshake, transport::AppendPrologue, Final, transport::AppendSentinel, Item},
                 "nothing more is due"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(StreamReader, RefusesAFrameOverTheLimitBeforeItIsThere) {
  StreamReader reader;
  std::string head(24, '\0');
  head[15] = 1;
  head[11] = 1;  // body of more than 4 GiB
  EXPECT_FALSE(Read(reader, head).second);
}

TEST(StreamReader, RefusesGarbage) {
  StreamReader reader;
  EXPECT_FALSE(Read(reader, "GET / HTTP/1.1\r\nHost: here\r\n\r\n").second);
}

}  // namespace
}  // namespace understudy::worker
