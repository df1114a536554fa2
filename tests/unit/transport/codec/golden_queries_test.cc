// Recovery queries and their answers, captured from real workers:
// vectors/events/local_indexer_query_* and query_wire_*.
#include "tests/unit/transport/codec/golden.h"
#include "understudy/transport/kv_query.h"

#include <string>

#include <gtest/gtest.h>

namespace understudy::transport::golden {
namespace {

struct Exchange {
  Json query;  ///< decoded
  std::string query_bytes, answer_bytes;
  Json answer;
  PayloadCodec codec{};
};

PayloadCodec CodecNamed(const std::string& name) {
  return name == "json" ? PayloadCodec::kJson : PayloadCodec::kMsgpack;
}

std::vector<Exchange> ExchangesOf(const std::string& release) {
  std::vector<Exchange> all;
  for (const Json& one : Load("events/local_indexer_query_" + release + ".json")) {
    all.push_back({one["decoded"],
                   FromHex(one["input_hex"]),
                   FromHex(one["output_hex"]),
                   one["output_decoded"],
                   CodecNamed(one["codec"])});
  }
  for (const std::string codec : {"json", "msgpack"}) {
    if (release == "1.6.1" && codec == "json") {
      continue;
    }
    for (const Json& one : Load("events/query_wire_" + release + "_" + codec + ".json")) {
      if (!one["output_frames"].empty()) {
        all.push_back({one["decoded"],
                       FromHex(one["input_hex"]),
                       FromHex(one["output_frames"][2][1]),
                       one["output_decoded"][0],
                       CodecNamed(codec)});
      }
    }
  }
  return all;
}

/// The answer, written by our encoder from what was captured.
std::string Rewritten(const Exchange& exchange, KvAnswerForm form) {
  const auto only = exchange.answer["data"].begin();
  const std::string variant = only.key();
  const Json body = only.value();
  std::string out;
  if (variant == "Events" || variant == "TreeDump") {
    KvAnswerWriter writer(exchange.codec, form);
    for (const Json& event : body["events"]) {
      const auto msgpack = Json::to_msgpack(event);
      const auto decoded =
          DecodeRouterEvents({reinterpret_cast<const char*>(msgpack.data()), msgpack.size()});
      EXPECT_TRUE(decoded.has_value());
      writer.Add(decoded->front());
    }
    const std::uint64_t last = body["last_event_id"];
    for (const auto& piece :
         variant == "Events" ? writer.TakeEvents(last) : writer.TakeTreeDump(last)) {
      out += piece;
    }
  } else if (variant == "TooNew") {
    AppendKvTooNew(out,
                   exchange.codec,
                   body["requested_start"],
                   body["requested_end"],
                   body["newest_available"]);
  } else if (variant == "InvalidRange") {
    AppendKvInvalidRange(out, exchange.codec, body["start_id"], body["end_id"]);
  } else if (variant == "Error") {
    AppendKvError(out, exchange.codec, body.get<std::string>());
  }
  return out;
}

class GoldenQueries : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] static bool Is16() { return GetParam() == "1.6.1"; }
};
INSTANTIATE_TEST_SUITE_P(Releases,
                         GoldenQueries,
                         ::testing::Values("1.3.0", "1.6.1"),
                         [](const auto& release) {
                           return release.param == "1.3.0" ? "v13" : "v16";
                         });

TEST_P(GoldenQueries, Decode) {
  const auto exchanges = ExchangesOf(GetParam());
  EXPECT_GT(exchanges.size(), 14U);
  for (const Exchange& exchange : exchanges) {
    const auto query = DecodeKvQuery(exchange.codec, exchange.query_bytes);
    ASSERT_TRUE(query.has_value()) << query.error().message;
    const Json& seen = exchange.query;
    const auto field = [&](const char* key, std::size_t place) {
      if (seen.is_array()) {
        return seen[place];
      }
      return seen.contains(key) ? seen[key] : Json();
    };
    const auto same = [](const std::optional<std::uint64_t>& number, const Json& json) {
      return number ? json == *number : json.is_null();
    };
    EXPECT_EQ(query->worker_id, field("worker_id", 0));
    EXPECT_EQ(query->dp_rank, field("dp_rank", 1));
    EXPECT_TRUE(same(query->start_event_id, field("start_event_id", 2)));
    EXPECT_TRUE(same(query->end_event_id, field("end_event_id", 3)));
    if (seen.is_object() && seen.size() != 2) {
      EXPECT_EQ(EncodeKvQuery(exchange.codec, *query, seen.contains("kind")), exchange.query_bytes);
    }
  }
}

TEST_P(GoldenQueries, AnswersAreWrittenToTheSameBytes) {
  const auto form = Is16() ? kKvAnswerForm16 : kKvAnswerForm13;
  for (const Exchange& exchange : ExchangesOf(GetParam())) {
    const std::string frame = Rewritten(exchange, form);
    const auto parsed = ParseTwoPart(frame, frame.size());
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    EXPECT_EQ(parsed->frame_bytes, frame.size());
    EXPECT_TRUE(parsed->header.empty());
    EXPECT_EQ(parsed->body, exchange.answer_bytes) << exchange.answer.dump();
  }
}

TEST(KvQueries, SayWhatIsWrong) {
  const auto refusal = [](const std::string& json) {
    const auto query = DecodeKvQuery(PayloadCodec::kJson, json);
    return query ? std::string("accepted") : query.error().message;
  };
  EXPECT_EQ(refusal(R"({"dp_rank":0})"), "KV query: worker_id: missing");
  EXPECT_EQ(refusal(R"({"worker_id":1})"), "KV query: dp_rank: missing");
  EXPECT_EQ(refusal(R"({"worker_id":1,"dp_rank":-1})"),
            "KV query: dp_rank: not an unsigned integer");
  EXPECT_EQ(refusal(R"({"worker_id":1,"dp_rank":0,"kind":"x"})"),
            "KV query: kind: 'x' is not known (allowed: recovery)");
  EXPECT_EQ(refusal(R"([1,0,null,"x"])"), "KV query: end_event_id: not an unsigned integer");
  EXPECT_EQ(refusal("7"), "KV query: not an object");
  EXPECT_EQ(refusal(R"({"worker_id":1,"dp_rank":0,"later":[1]})"), "accepted");
  EXPECT_FALSE(DecodeKvQuery(PayloadCodec::kMsgpack, "\x81\xa3").has_value());
  EXPECT_FALSE(DecodeKvQuery(PayloadCodec::kMsgpack, "").has_value());
}

TEST(KvAnswers, SayThatADumpFailed) {
  std::string frame;
  AppendKvTreeDumpFailed(frame, PayloadCodec::kJson, 7, "why");
  EXPECT_EQ(
      frame.substr(kTwoPartHeadBytes),
      R"({"data":{"TreeDumpFailed":{"last_event_id":7,"message":"why"}},"complete_final":false})");
}

TEST(KvAnswers, ComeInPiecesThatMakeOneFrame) {
  RouterEvent event;
  event.blocks.resize(700);
  for (const auto codec : {PayloadCodec::kJson, PayloadCodec::kMsgpack}) {
    KvAnswerWriter writer(codec, kKvAnswerForm16);
    for (int i = 0; i < 30; ++i) {
      writer.Add(event);
    }
    const auto pieces = writer.TakeTreeDump(9);
    EXPECT_GT(pieces.size(), 5U);
    std::string frame;
    for (const auto& piece : pieces) {
      EXPECT_LT(piece.size(), 3 * KvAnswerWriter::kPieceBytes);
      frame += piece;
    }
    const auto parsed = ParseTwoPart(frame, frame.size());
    ASSERT_TRUE(parsed.has_value());
    const Json answer =
        codec == PayloadCodec::kJson ? Json::parse(parsed->body) : Json::from_msgpack(parsed->body);
    EXPECT_EQ(answer["data"]["TreeDump"]["events"].size(), 30U);
    EXPECT_EQ(answer["data"]["TreeDump"]["last_event_id"], 9);
    EXPECT_EQ(answer["data"]["TreeDump"]["reset_scope"], "all");
    EXPECT_EQ(answer["complete_final"], false);
  }
}

}  // namespace
}  // namespace understudy::transport::golden
