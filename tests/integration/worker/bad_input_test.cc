// Whatever a peer sends: it gets an answer, and the worker and the next request are unharmed.
// Source: wire.md 4.2, 4.3, 4.4, 6.4; mission.md M-077 to M-080.
#include "tests/integration/worker/worker_test.h"

#include <cstring>
#include <ostream>

namespace understudy::worker {
namespace {

struct BadBody {
  const char* name;
  PayloadCodec codec;
  std::string body;
};
void PrintTo(const BadBody& value, std::ostream* out) {
  *out << value.name;
}

std::string Repeat(const std::string& text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

/// A whole msgpack request up to (not with) its last entry.
std::string MsgpackWith(const std::string& key, const std::string& value) {
  const auto text = [](const std::string& t) { return static_cast<char>(0xa0 | t.size()) + t; };
  return "\x83" + text("token_ids") + "\x92\x01\x02" + text("stop_conditions") + "\x81" +
         text("max_tokens") + "\x05" + text(key) + value;
}

const BadBody kBadBodies[] = {
    {"JsonNothing", PayloadCodec::kJson, ""},
    {"JsonCutOff", PayloadCodec::kJson, R"({"token_ids":[1,2],"stop_cond)"},
    {"JsonNoObject", PayloadCodec::kJson, "[1,2,3]"},
    {"JsonGarbage", PayloadCodec::kJson, std::string("\x00\xff\x01 garbage", 11)},
    {"JsonTextAfterTheValue",
     PayloadCodec::kJson,
     R"({"token_ids":[1],"stop_conditions":{"max_tokens":1}} more)"},
    {"JsonNotUtf8",
     PayloadCodec::kJson,
     "{\"model\":\"\xff\xfe\",\"token_ids\":[1],\"stop_conditions\":{\"max_tokens\":1}}"},
    {"JsonNestedTooDeep",
     PayloadCodec::kJson,
     R"({"token_ids":[1],"stop_conditions":{"max_tokens":1},"extra_args":)" + Repeat("[", 5000) +
         Repeat("]", 5000) + "}"},
    {"JsonNestedWithoutEnd", PayloadCodec::kJson, Repeat("{\"a\":", 100'000)},
    {"JsonTokensOfTheWrongType", PayloadCodec::kJson, R"({"token_ids":"1 2 3"})"},
    {"JsonTokenNegative",
     PayloadCodec::kJson,
     R"({"token_ids":[-1],"stop_conditions":{"max_tokens":1}})"},
    {"JsonTokenOver32Bits",
     PayloadCodec::kJson,
     R"({"token_ids":[4294967296],"stop_conditions":{"max_tokens":1}})"},
    {"JsonBudgetOfTheWrongType",
     PayloadCodec::kJson,
     R"({"token_ids":[1],"stop_conditions":{"max_tokens":"many"}})"},
    {"JsonRankOfTheWrongType",
     PayloadCodec::kJson,
     R"({"token_ids":[1],"stop_conditions":{"max_tokens":1},"routing":{"dp_rank":[]}})"},
    {"MsgpackNothing", PayloadCodec::kMsgpack, ""},
    {"MsgpackCutOff", PayloadCodec::kMsgpack, "\x82\xa9token_ids\x92\x01"},
    {"MsgpackNoMap", PayloadCodec::kMsgpack, "\x93\x01\x02\x03"},
    {"MsgpackNeverUsedByte", PayloadCodec::kMsgpack, "\xc1"},
    {"MsgpackBytesAfterTheValue", PayloadCodec::kMsgpack, MsgpackWith("model", "\xa1m") + "\x01"},
    {"MsgpackNotUtf8", PayloadCodec::kMsgpack, MsgpackWith("model", "\xa2\xff\xfe")},
    {"MsgpackNestedTooDeep",
     PayloadCodec::kMsgpack,
     MsgpackWith("extra_args", Repeat("\x91", 5000) + "\x01")},
    {"MsgpackNestedWithoutEnd", PayloadCodec::kMsgpack, Repeat("\x91", 100'000)},
    {"MsgpackArrayOf4GigaEntries",
     PayloadCodec::kMsgpack,
     "\x81\xa9token_ids\xdd\xff\xff\xff\xff\x01"},
    {"MsgpackMapOf4GigaEntries", PayloadCodec::kMsgpack, "\xdf\xff\xff\xff\xff\xa1k\x01"},
    {"MsgpackTextOf4GigaBytes",
     PayloadCodec::kMsgpack,
     "\x81\xa5model\xdb\xff\xff\xff\xff"
     "abc"},
    {"MsgpackTokensOfTheWrongType",
     PayloadCodec::kMsgpack,
     "\x81\xa9token_ids\xa3"
     "abc"},
    {"MsgpackKeyThatIsNoText", PayloadCodec::kMsgpack, "\x81\x01\x02"},
    {"MsgpackSentAsJson", PayloadCodec::kJson, MsgpackWith("model", "\xa1m")},
    {"JsonSentAsMsgpack", PayloadCodec::kMsgpack, R"({"token_ids":[1]})"},
};

class UndecodableBody : public WorkerTest, public ::testing::WithParamInterface<BadBody> {};
INSTANTIATE_TEST_SUITE_P(Bodies,
                         UndecodableBody,
                         ::testing::ValuesIn(kBadBodies),
                         [](const auto& body) { return body.param.name; });

TEST_P(UndecodableBody, IsRefusedInBandInItsCodec) {
  const auto worker = Start(kFree);
  auto spec = Spec(*worker, 1, 1, GetParam().codec);
  spec.body = GetParam().body;
  const auto call = frontend().Send(spec);
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->WhyNotRefusedInBand(), "");
  EXPECT_NE(call->error(), "");
  EXPECT_EQ(WhyNotServing(*worker), "");
  EXPECT_TRUE(worker->WaitIdle());
  EXPECT_EQ(worker->Metric("understudy_requests_refused_total"), 1);
  EXPECT_EQ(worker->Metric("dynamo_component_errors_total", "deserialization"), 1);
}

class BadInput : public WorkerTest {
 protected:
  void ExpectRefusedInBand(const CallSpec& spec, const std::string& text) {
    const auto call = frontend().Send(spec);
    ASSERT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->WhyNotRefusedInBand(), "");
    EXPECT_NE(call->error().find(text), std::string::npos) << call->error();
  }
};

TEST_F(BadInput, AnUnknownCodecIsNamedInAJsonRefusal) {
  const auto worker = Start(kFree);
  auto spec = Spec(*worker, 1, 1);
  spec.payload_codec = "bincode";
  ExpectRefusedInBand(spec, "bincode");
  EXPECT_EQ(WhyNotServing(*worker), "");
}

TEST_F(BadInput, APromptOverItsLimitIsRefusedAndOneAtTheLimitServed) {
  const auto worker = Start(kFree + Arguments{"--prompt-tokens-max", "100"});
  for (const auto codec : {PayloadCodec::kJson, PayloadCodec::kMsgpack}) {
    ExpectRefusedInBand(Spec(*worker, 101, 5, codec), "100");
    const auto call = Send(*worker, 100, 5, codec);
    ASSERT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->WhyNotWhole(5), "");
  }
  EXPECT_EQ(worker->Metric("understudy_requests_refused_total", "too_large"), 2);
}

TEST_F(BadInput, ABodyOverItsLimitIsRefusedInBand) {
  const auto worker = Start(kFree + Arguments{"--body-bytes-max", "1024"});
  for (const auto codec : {PayloadCodec::kJson, PayloadCodec::kMsgpack}) {
    ExpectRefusedInBand(Spec(*worker, 2000, 5, codec), "1024");
  }
  EXPECT_EQ(worker->Metric("understudy_requests_refused_total", "too_large"), 2);
  EXPECT_EQ(WhyNotServing(*worker), "");
}

TEST_F(BadInput, NestingOverItsLimitIsRefused) {
  const auto worker = Start(kFree + Arguments{"--nesting-max", "8"});
  auto spec = Spec(*worker, 1, 1);
  spec.body = R"({"token_ids":[1],"stop_conditions":{"max_tokens":1},"extra_args":)" +
              Repeat("[", 8) + "1" + Repeat("]", 8) + "}";
  ExpectRefusedInBand(spec, "");
  spec.body = R"({"token_ids":[1],"stop_conditions":{"max_tokens":1},"extra_args":)" +
              Repeat("[", 7) + "1" + Repeat("]", 7) + "}";
  const auto call = frontend().Send(spec);
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->WhyNotWhole(1), "");
}

TEST_F(BadInput, KeysNobodyKnowsAndNullsAreSkipped) {
  const auto worker = Start(kFree);
  auto spec = Spec(*worker, 1, 1);
  spec.body = R"({"token_ids":[1],"stop_conditions":{"max_tokens":2,"stop":null,"new":{"a":[1]}},)"
              R"("routing":null,"annotations":[],"router_config_override":null,"x":[{"y":null}]})";
  const auto call = frontend().Send(spec);
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->WhyNotWhole(2), "");
}

std::string WithLength(std::string payload, std::size_t at, std::uint64_t length) {
  for (std::size_t i = 0; i < 8; ++i) {
    payload[at + i] = static_cast<char>(length >> (56 - 8 * i) & 0xFF);
  }
  return payload;
}

std::string WithHeader(const std::string& header) {
  std::string payload;
  transport::AppendTwoPart(payload, header, "{}");
  return payload;
}

struct BadEnvelope {
  const char* name;
  std::function<std::string(std::string)> reframe;
};
void PrintTo(const BadEnvelope& value, std::ostream* out) {
  *out << value.name;
}

const BadEnvelope kBadEnvelopes[] = {
    {"Empty", [](const std::string&) { return std::string(); }},
    {"CutInTheHead", [](std::string p) { return p.substr(0, 23); }},
    {"CutInTheHeader", [](std::string p) { return p.substr(0, 40); }},
    {"CutInTheBody", [](std::string p) { return p.substr(0, p.size() - 1); }},
    {"Garbage", [](const std::string&) { return Repeat("\xde\xad\xbe\xef", 100); }},
    {"HeaderOf2To40", [](std::string p) { return WithLength(std::move(p), 0, 1ULL << 40); }},
    {"HeaderOf2To63", [](std::string p) { return WithLength(std::move(p), 0, 1ULL << 63); }},
    {"BodyOf2To40", [](std::string p) { return WithLength(std::move(p), 8, 1ULL << 40); }},
    {"BodyOf2To63", [](std::string p) { return WithLength(std::move(p), 8, 1ULL << 63); }},
    {"BodyOf2To64Minus1", [](std::string p) { return WithLength(std::move(p), 8, ~0ULL); }},
    {"HeaderEmpty", [](const std::string&) { return WithHeader(""); }},
    {"HeaderNoJson", [](const std::string&) { return WithHeader("{\"id\":"); }},
    {"HeaderNoObject", [](const std::string&) { return WithHeader("[1]"); }},
    {"HeaderNotUtf8", [](const std::string&) { return WithHeader("{\"id\":\"\xff\"}"); }},
    {"HeaderNestedTooDeep", [](const std::string&) { return WithHeader(Repeat("[", 60'000)); }},
    {"HeaderOverItsLimit",
     [](const std::string&) {
       return WithHeader("\"" + std::string(transport::kControlHeaderBytesMax, 'x') + "\"");
     }},
    {"HeaderWithoutConnection",
     [](const std::string&) {
       return WithHeader(R"({"id":"a","request_type":"single_in","response_type":"many_out"})");
     }},
    {"InfoWithoutAddress",
     [](const std::string&) {
       return WithHeader(
           R"({"id":"a","request_type":"single_in","response_type":"many_out","connection_info":)"
           R"({"transport":"tcp_server","info":"{\"subject\":\"s\",\"context\":\"a\",\"stream_type\":\"response\"}"}})");
     }},
    {"InfoNoJson",
     [](const std::string&) {
       return WithHeader(
           R"({"id":"a","request_type":"single_in","response_type":"many_out","connection_info":)"
           R"({"transport":"tcp_server","info":"nothing"}})");
     }},
};

class UnusableEnvelope : public WorkerTest, public ::testing::WithParamInterface<BadEnvelope> {};
INSTANTIATE_TEST_SUITE_P(Envelopes,
                         UnusableEnvelope,
                         ::testing::ValuesIn(kBadEnvelopes),
                         [](const auto& envelope) { return envelope.param.name; });

TEST_P(UnusableEnvelope, IsAnsweredInTheAckAndAllocatesNothing) {
  const auto worker = Start(kFree);
  ASSERT_EQ(WhyNotServing(*worker), "");
  const auto before = worker->resident_bytes();
  auto spec = Spec(*worker, 10, 10);
  spec.reframe = GetParam().reframe;
  const auto call = frontend().Send(spec);
  const auto ack = call->WaitAck();
  ASSERT_TRUE(ack);
  EXPECT_TRUE(ack->starts_with("Server unavailable:")) << *ack;
  EXPECT_EQ(call->connections(), 0U);
  EXPECT_EQ(WhyNotServing(*worker), "");
  EXPECT_LT(worker->resident_bytes(), before + (64U << 20));
  EXPECT_EQ(worker->Metric("understudy_bad_frames_total"), 1);
  EXPECT_TRUE(worker->WaitIdle());
}

TEST_F(BadInput, AResponsePlaneOfAnotherKindIsNamedInTheAck) {
  const auto worker = Start(kFree);
  auto spec = Spec(*worker, 10, 10);
  spec.transport = "quic-response";
  const auto call = frontend().Send(spec);
  const auto ack = call->WaitAck();
  ASSERT_TRUE(ack);
  EXPECT_TRUE(ack->starts_with("Server unavailable:")) << *ack;
  EXPECT_NE(ack->find("response plane mismatch: frontend requested quic-response"),
            std::string::npos)
      << *ack;
  EXPECT_EQ(WhyNotServing(*worker), "");
}

TEST_F(BadInput, AFloodOfItLeavesNothingBehind) {
  const auto worker = Start(kFree);
  ASSERT_EQ(WhyNotServing(*worker), "");
  const auto descriptors = worker->descriptors();
  std::vector<CallPtr> calls;
  for (int i = 0; i < 300; ++i) {
    auto spec = Spec(*worker, 10, 10);
    if (i % 3 == 0) {
      spec.body = "{";
    } else if (i % 3 == 1) {
      spec.reframe = [](std::string p) { return p.substr(0, 30); };
    }
    calls.push_back(frontend().Send(spec));
  }
  for (int i = 0; i < 300; ++i) {
    const auto& call = calls[static_cast<std::size_t>(i)];
    ASSERT_TRUE(call->WaitAck());
    if (i % 3 != 1) {
      ASSERT_TRUE(call->WaitClosed());
    }
    if (i % 3 == 2) {
      EXPECT_EQ(call->WhyNotWhole(10), "");
    }
  }
  EXPECT_TRUE(worker->WaitIdle());
  EXPECT_TRUE(Eventually([&] { return worker->descriptors() <= descriptors; }));
}

}  // namespace
}  // namespace understudy::worker
