// Response streams of real 1.3.0 and 1.6.1 mockers, both codecs and planes:
// vectors/wire/response_*.json.
#include "tests/unit/transport/codec/golden.h"

#include <string>

#include <gtest/gtest.h>

namespace understudy::transport::golden {
namespace {

using Kind = ResponseFrame::Kind;

class GoldenResponses : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { vector_ = Load(GetParam()); }
  [[nodiscard]] PayloadCodec codec() const { return CodecOf(vector_); }
  Json vector_;
};

INSTANTIATE_TEST_SUITE_P(Files, GoldenResponses, ::testing::ValuesIn(WireFiles("response_")));

TEST(GoldenResponseFiles, AreAllThere) {
  EXPECT_EQ(WireFiles("response_").size(), 7U);
}

ResponseFrame Decode(PayloadCodec codec, const std::string& bytes) {
  const auto view = ParseTwoPart(bytes, DecodeLimits{}.body_bytes_max);
  EXPECT_TRUE(view.has_value());
  EXPECT_EQ(view->frame_bytes, bytes.size());
  auto frame = DecodeResponseFrame(codec, *view);
  EXPECT_TRUE(frame.has_value()) << frame.error().message;
  return frame.value_or(ResponseFrame{});
}

/// Our encoding of an item: only the keys a frontend needs.
std::string EncodeItem(PayloadCodec codec, const ResponseFrame& item) {
  std::string out;
  const Usage* usage = item.usage ? &*item.usage : nullptr;
  if (item.finish_reason) {
    AppendFinish(out, codec, *item.finish_reason, usage);
  } else if (usage != nullptr) {
    AppendToken(out, codec, item.token_ids.at(0), *usage);
  } else {
    AppendToken(out, codec, item.token_ids.at(0));
  }
  return out;
}

void ExpectSameItem(const ResponseFrame& left, const ResponseFrame& right) {
  EXPECT_EQ(left.kind, right.kind);
  EXPECT_EQ(left.token_ids, right.token_ids);
  EXPECT_EQ(left.finish_reason, right.finish_reason);
  ASSERT_EQ(left.usage.has_value(), right.usage.has_value());
  if (left.usage) {
    EXPECT_EQ(left.usage->prompt_tokens, right.usage->prompt_tokens);
    EXPECT_EQ(left.usage->completion_tokens, right.usage->completion_tokens);
    EXPECT_EQ(left.usage->cached_tokens, right.usage->cached_tokens);
  }
}

void ExpectMatchesDecodedForm(const ResponseFrame& item, const Json& output) {
  EXPECT_EQ(item.token_ids, output["token_ids"].get<std::vector<std::uint32_t>>());
  EXPECT_EQ(item.finish_reason.has_value(), !output["finish_reason"].is_null());
  if (item.finish_reason) {
    EXPECT_EQ(*item.finish_reason, output["finish_reason"]);
  }
  ASSERT_EQ(item.usage.has_value(), output.contains("completion_usage"));
  if (item.usage) {
    const Json& usage = output["completion_usage"];
    EXPECT_EQ(item.usage->prompt_tokens, usage["prompt_tokens"]);
    EXPECT_EQ(item.usage->completion_tokens, usage["completion_tokens"]);
    EXPECT_EQ(item.usage->cached_tokens, usage["prompt_tokens_details"]["cached_tokens"]);
  }
}

TEST_P(GoldenResponses, EverythingButTokensReencodesToTheSameBytes) {
  for (const Json& connection : vector_["connections"]) {
    for (const Json& captured : connection["worker_to_frontend"]) {
      const std::string bytes = FromHex(captured["hex"]);
      const ResponseFrame frame = Decode(codec(), bytes);
      std::string again;
      switch (frame.kind) {
        case Kind::kHandshake:
          AppendHandshake(again, frame.subject);
          break;
        case Kind::kPrologue:
          AppendPrologue(again);
          break;
        case Kind::kCompleteFinal:
          AppendCompleteFinal(again, codec());
          break;
        case Kind::kSentinel:
          AppendSentinel(again);
          break;
        default:
          continue;
      }
      EXPECT_EQ(again, bytes);
    }
  }
}

// Token frames are not byte-equal on purpose: the mocker writes nine keys, most of them null (1.3
// also the text), a frontend of either release needs only those we write (wire.md 6.3, measured),
// and these frames are most of the traffic. What both say is equal.
TEST_P(GoldenResponses, ItemsDecodeAndOurShorterFramesSayTheSame) {
  std::size_t items = 0;
  for (const Json& connection : vector_["connections"]) {
    for (const Json& captured : connection["worker_to_frontend"]) {
      const ResponseFrame item = Decode(codec(), FromHex(captured["hex"]));
      if (item.kind != Kind::kItem) {
        continue;
      }
      ++items;
      ExpectMatchesDecodedForm(item, captured["body"]["data"]["data"]);
      const std::string ours = EncodeItem(codec(), item);
      EXPECT_LT(ours.size(), FromHex(captured["hex"]).size());
      ExpectSameItem(Decode(codec(), ours), item);
    }
  }
  EXPECT_GT(items, 4U);
}

TEST_P(GoldenResponses, CompleteStreamComesInTheKnownOrder) {
  const Json& frames = vector_["connections"][0]["worker_to_frontend"];
  ASSERT_EQ(vector_["connections"][0]["kind"], "complete");
  std::vector<Kind> kinds;
  for (const Json& captured : frames) {
    kinds.push_back(Decode(codec(), FromHex(captured["hex"])).kind);
  }
  ASSERT_GT(kinds.size(), 5U);
  EXPECT_EQ(kinds[0], Kind::kHandshake);
  EXPECT_EQ(kinds[1], Kind::kPrologue);
  EXPECT_EQ(kinds[2], Kind::kItem);
  EXPECT_EQ(kinds[kinds.size() - 2], Kind::kCompleteFinal);
  EXPECT_EQ(kinds.back(), Kind::kSentinel);
}

TEST_P(GoldenResponses, FrontendCancelsWithKill) {
  std::size_t cancelled = 0;
  for (const Json& connection : vector_["connections"]) {
    for (const Json& captured : connection["frontend_to_worker"]) {
      const std::string bytes = FromHex(captured["hex"]);
      const auto frame = ParseTwoPart(bytes, 0);
      ASSERT_TRUE(frame.has_value());
      EXPECT_EQ(ParseStreamControl(*frame), StreamControl::kKill);
      ++cancelled;
    }
  }
  EXPECT_EQ(cancelled, 1U);
}

}  // namespace
}  // namespace understudy::transport::golden
