#include "understudy/transport/bootstrap_frame.h"

#include "transport/codec/rust_number.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

constexpr BootstrapIdentity kIdentity{{0xfd2886aebf20446d, 0x9001301c934eb54f},
                                      std::numeric_limits<std::uint64_t>::max(),
                                      {0x449eede6c0da4a04, 0x939685a64d3130ba}};

std::string Json(const BootstrapMessage& message) {
  std::string bytes;
  EXPECT_TRUE(AppendBootstrapFrame(bytes, {kIdentity, message}));
  const auto body = SplitBootstrapFrame(bytes);
  EXPECT_TRUE(body);
  EXPECT_EQ(body->frame_bytes, bytes.size());
  return std::string(body->json);
}
std::string MessageJson(const BootstrapMessage& message) {
  const std::string json = Json(message);
  const std::size_t at = json.find("\"message\":") + 10;
  return json.substr(at, json.size() - at - 1);
}
std::string ErrorOf(const std::string& json) {
  const auto frame = DecodeBootstrapBody(json);
  return frame ? "" : frame.error().message;
}
/// A whole frame around `message`.
std::string Around(const std::string& message) {
  return R"({"identity":{"handoff_id":"fd2886ae-bf20-446d-9001-301c934eb54f","bootstrap_room":7,)"
         R"("request_id":"449eede6-c0da-4a04-9396-85a64d3130ba"},"message":)" +
         message + "}";
}

constexpr Uuid kHandoff{0xfd2886aebf20446d, 0x9001301c934eb54f};

std::vector<BootstrapMessage> Samples() {
  BootstrapFact held;
  held.kind = BootstrapFact::Kind::kSourceHeld;
  held.handoff_id = kHandoff;
  held.timing = {BootstrapTiming::Mode::kDestinationMissing, 60, 45056, 0.01};
  BootstrapFact held_bare = held;
  held_bare.timing = {BootstrapTiming::Mode::kFullPrompt, 0, std::nullopt, std::nullopt};
  BootstrapFact reserved;
  reserved.kind = BootstrapFact::Kind::kDestinationReserved;
  reserved.handoff_id = kHandoff;
  reserved.transferable_prompt_tokens = 64;
  std::vector<BootstrapMessage> samples = {
      BootstrapRegister{3, BootstrapOrder::kDestinationFirst, BootstrapEngine::kSglang},
      BootstrapRegister{0, BootstrapOrder::kSourceFirst, BootstrapEngine::kTrtllm},
      BootstrapRegistered(),
      BootstrapAction{2, BootstrapAction::Kind::kStartTransfer, kHandoff, 270.336},
      BootstrapActionAck{7, BootstrapActionAck::Outcome::kFailed, "no \"room\"\n"},
      held,
      held_bare,
      reserved,
      BootstrapComplete(),
      BootstrapAbort{"caf\xC3\xA9"},
      BootstrapOverloaded(),
      BootstrapProtocolError{""},
  };
  for (int kind = 0; kind < 8; ++kind) {
    if (static_cast<BootstrapAction::Kind>(kind) != BootstrapAction::Kind::kStartTransfer) {
      samples.push_back(BootstrapAction{
          static_cast<std::uint64_t>(kind), static_cast<BootstrapAction::Kind>(kind), kHandoff});
    }
  }
  for (int outcome = 0; outcome < 5; ++outcome) {
    samples.push_back(BootstrapActionAck{1, static_cast<BootstrapActionAck::Outcome>(outcome), ""});
  }
  for (int kind = 2; kind < 6; ++kind) {
    BootstrapFact fact;
    fact.kind = static_cast<BootstrapFact::Kind>(kind);
    fact.handoff_id = kHandoff;
    samples.push_back(fact);
  }
  return samples;
}

TEST(BootstrapHeader, M132_IsEightBytes) {
  std::string bytes;
  AppendBootstrapHeader(bytes);
  EXPECT_EQ(bytes, std::string("DMHF\x01\0\0\0", 8));
  EXPECT_TRUE(CheckBootstrapHeader(bytes));
  EXPECT_TRUE(CheckBootstrapHeader(bytes + "more"));
}

TEST(BootstrapHeader, M137_RefusesWhatIsNotOurs) {
  const auto text = [](std::string_view bytes) {
    const Status status = CheckBootstrapHeader(bytes);
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(CheckBootstrapHeader("DMHF\x01").error().code, Errc::kTruncated);
  EXPECT_EQ(text(std::string("NOPE\x01\0\0\0", 8)), "bootstrap protocol magic mismatch");
  EXPECT_EQ(text(std::string("DMHF\x02\0\0\0", 8)), "unsupported bootstrap protocol version 2");
  EXPECT_EQ(text(std::string("DMHF\x01\x01\0\0", 8)), "unsupported bootstrap protocol version 257");
  EXPECT_EQ(text(std::string("DMHF\x01\0\x01\0", 8)), "bootstrap protocol flags must be zero");
}

TEST(BootstrapFrame, M133_LengthIsLittleEndianAndBounded) {
  std::string bytes;
  ASSERT_TRUE(AppendBootstrapFrame(bytes, {kIdentity, BootstrapComplete()}));
  EXPECT_EQ(static_cast<std::uint8_t>(bytes[0]), bytes.size() - 4);
  EXPECT_EQ(bytes.substr(1, 3), std::string(3, '\0'));
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_EQ(SplitBootstrapFrame(bytes.substr(0, cut)).error().code, Errc::kTruncated);
  }
  const auto longest = SplitBootstrapFrame(std::string("\0\0\x01\0", 4) + std::string(65536, 'x'));
  ASSERT_TRUE(longest);
  EXPECT_EQ(longest->json.size(), 65536U);
  const auto beyond = SplitBootstrapFrame(std::string("\x01\0\x01\0", 4));
  EXPECT_EQ(beyond.error().code, Errc::kMalformed);
  const auto empty = SplitBootstrapFrame(std::string(4, '\0'));
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->json.empty());
}

TEST(BootstrapFrame, M142_TooLongAMessageIsRefusedBeforeItIsWritten) {
  std::string bytes = "kept";
  const Status status =
      AppendBootstrapFrame(bytes, {kIdentity, BootstrapAbort{std::string(65536, 'x')}});
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("is outside 1..=65536"), std::string::npos);
  EXPECT_TRUE(status.error().message.starts_with("bootstrap frame length 65"));
  EXPECT_EQ(bytes, "kept");
}

TEST(BootstrapFrame, EveryMessageComesBackAsItWas) {
  for (const BootstrapMessage& message : Samples()) {
    const auto frame = DecodeBootstrapBody(Json(message));
    ASSERT_TRUE(frame) << frame.error().message << DebugText(message);
    EXPECT_EQ(frame->identity, kIdentity);
    EXPECT_EQ(frame->message, message) << DebugText(message);
  }
}

TEST(BootstrapFrame, M135_MessagesLookAsCaptured) {
  EXPECT_EQ(MessageJson(BootstrapRegister{0, BootstrapOrder::kSourceFirst, BootstrapEngine::kVllm}),
            R"({"Register":{"role":"Destination","dp_rank":0,"order":"SourceFirst",)"
            R"("engine_type":"vllm"}})");
  EXPECT_EQ(MessageJson(BootstrapRegistered()), R"("Registered")");
  EXPECT_EQ(
      MessageJson(BootstrapAction{1, BootstrapAction::Kind::kReserveDestination, kHandoff, 0.0}),
      R"({"Action":{"id":1,"action":{"ReserveDestination":{"handoff_id":)"
      R"("fd2886ae-bf20-446d-9001-301c934eb54f"}}}})");
  EXPECT_EQ(MessageJson(BootstrapActionAck{1, BootstrapActionAck::Outcome::kFailed, "no"}),
            R"({"ActionAck":{"action_id":1,"outcome":{"Failed":"no"}}})");
  BootstrapFact fact;
  fact.kind = BootstrapFact::Kind::kSourceHeld;
  fact.handoff_id = kHandoff;
  fact.timing.bandwidth_gb_s = 64.0;
  EXPECT_EQ(MessageJson(fact),
            R"({"Fact":{"SourceHeld":{"handoff_id":"fd2886ae-bf20-446d-9001-301c934eb54f",)"
            R"("transfer_timing":{"mode":"full_prompt","full_prompt_tokens":0,)"
            R"("kv_bytes_per_token":null,"bandwidth_gb_s":64.0}}}})");
  EXPECT_EQ(MessageJson(BootstrapAbort{"x"}), R"({"Abort":{"message":"x"}})");
}

TEST(BootstrapFrame, TakesWhatTheReferencesLibraryTakes) {
  EXPECT_EQ(ErrorOf(Around(R"({"Registered":null})")), "");
  EXPECT_EQ(ErrorOf(Around(R"({"ActionAck":{"outcome":"Noop","extra":[1],"action_id":1}})")), "");
  EXPECT_EQ(ErrorOf(Around(R"({"ActionAck":{"outcome":{"Noop":null},"action_id":1}})")), "");
  EXPECT_EQ(
      ErrorOf(Around(R"({"Fact":{"SourceHeld":{"handoff_id":)"
                     R"("FD2886AEBF20446D9001301C934EB54F","transfer_timing":)"
                     R"({"mode":"full_prompt","full_prompt_tokens":1,"bandwidth_gb_s":64}}}})")),
      "");
}

struct Bad {
  const char* message;
  const char* error;
};

class BadMessage : public ::testing::TestWithParam<Bad> {};

TEST_P(BadMessage, IsRefusedByField) {
  EXPECT_EQ(ErrorOf(Around(GetParam().message)), GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    BadMessage,
    ::testing::Values(
        Bad{R"("Nonsense")", "Nonsense: without content"},
        Bad{R"({"Nonsense":{}})", "message: unknown word 'Nonsense'"},
        Bad{R"({"Registered":1})", "Registered: takes no content"},
        Bad{R"({})", "message: not a name with its content"},
        Bad{R"({"Registered":null,"Complete":null})", "message: more than one name"},
        Bad{R"(7)", "message: not a name with its content"},
        Bad{R"({"Register":{"role":"Source","dp_rank":0,"order":"SourceFirst","engine_type":"vllm"}})",
            "role: unknown word 'Source'"},
        Bad{R"({"Register":{"role":"Destination","order":"SourceFirst","engine_type":"vllm"}})",
            "dp_rank: missing"},
        Bad{R"({"Register":{"role":"Destination","dp_rank":4294967296,"order":"SourceFirst","engine_type":"vllm"}})",
            "dp_rank: 4294967296 does not fit into 32 bits"},
        Bad{R"({"Action":{"id":1,"action":"ReserveDestination"}})",
            "ReserveDestination: without content"},
        Bad{R"({"Action":{"id":1,"action":{"StartTransfer":{"handoff_id":"fd2886ae-bf20-446d-9001-301c934eb54f"}}}})",
            "delay_ms: missing"},
        Bad{R"({"Action":{"id":1,"id":2,"action":{}}})", "id: given twice"},
        Bad{R"({"Action":{"id":-1,"action":{}}})", "id: not an unsigned integer"},
        Bad{R"({"ActionAck":{"action_id":1,"outcome":"Failed"}})", "Failed: without content"},
        Bad{R"({"ActionAck":{"action_id":1,"outcome":{"Applied":"x"}}})",
            "Applied: takes no content"},
        Bad{R"({"Fact":{"TimedOut":{"handoff_id":"fd2886ae"}}})",
            "handoff_id: 'fd2886ae' is not a UUID"},
        Bad{R"({"Fact":{"DestinationReserved":{"handoff_id":"fd2886ae-bf20-446d-9001-301c934eb54f"}}})",
            "transferable_prompt_tokens: missing"},
        Bad{R"({"Abort":{"message":1}})", "message: not a string"}));

TEST(BootstrapFrame, RefusesAnIdentityThatIsNotWhole) {
  EXPECT_EQ(ErrorOf(R"({"message":"Complete"})"), "identity: missing");
  EXPECT_EQ(ErrorOf(R"({"identity":{},"message":"Complete"})"), "handoff_id: missing");
  EXPECT_EQ(ErrorOf(R"([])"), "frame: not an object");
  EXPECT_FALSE(DecodeBootstrapBody("{"));
  EXPECT_FALSE(DecodeBootstrapBody(""));
}

TEST(BootstrapText, MessagesAreShownAsRustShowsThem) {
  const std::string id = "handoff_id: HandoffId(fd2886ae-bf20-446d-9001-301c934eb54f)";
  BootstrapFact completed;
  completed.kind = BootstrapFact::Kind::kTransferCompleted;
  completed.handoff_id = kHandoff;
  EXPECT_EQ(DebugText(BootstrapMessage(completed)), "Fact(TransferCompleted { " + id + " })");
  EXPECT_EQ(
      DebugText(BootstrapMessage(BootstrapActionAck{1, BootstrapActionAck::Outcome::kApplied, ""})),
      "ActionAck { action_id: HandoffActionId(1), outcome: Applied }");
  EXPECT_EQ(
      DebugText(BootstrapMessage(
          BootstrapActionAck{1, BootstrapActionAck::Outcome::kFailed, "a\"b\\\n\x01"})),
      "ActionAck { action_id: HandoffActionId(1), outcome: Failed(\"a\\\"b\\\\\\n\\u{1}\") }");
  EXPECT_EQ(DebugText(BootstrapMessage(BootstrapOverloaded())), "Overloaded");
  EXPECT_EQ(DebugText(BootstrapMessage(
                BootstrapAction{2, BootstrapAction::Kind::kStartTransfer, kHandoff, 64.0})),
            "Action(IssuedHandoffAction { id: HandoffActionId(2), action: StartTransfer { " + id +
                ", delay_ms: 64.0 } })");
  BootstrapFact held;
  held.kind = BootstrapFact::Kind::kSourceHeld;
  held.handoff_id = kHandoff;
  held.timing = {BootstrapTiming::Mode::kFullPrompt, 40, 45056, std::nullopt};
  EXPECT_EQ(DebugText(BootstrapMessage(held)),
            "Fact(SourceHeld { " + id +
                ", transfer_timing: HandoffTransferTiming { mode: FullPrompt, full_prompt_tokens: "
                "40, kv_bytes_per_token: Some(45056), bandwidth_gb_s: None } })");
}

struct Number {
  double value;
  const char* json;
  const char* debug;
};

class RustNumbers : public ::testing::TestWithParam<Number> {};

TEST_P(RustNumbers, AreWrittenAlike) {
  EXPECT_EQ(RustJsonNumber(GetParam().value), GetParam().json);
  EXPECT_EQ(RustDebugNumber(GetParam().value), GetParam().debug);
}

INSTANTIATE_TEST_SUITE_P(Table,
                         RustNumbers,
                         ::testing::Values(Number{0.0, "0.0", "0.0"},
                                           Number{-0.0, "-0.0", "-0.0"},
                                           Number{64.0, "64.0", "64.0"},
                                           Number{0.01, "0.01", "0.01"},
                                           Number{-1.5, "-1.5", "-1.5"},
                                           Number{270.336, "270.336", "270.336"},
                                           Number{1e15, "1000000000000000.0", "1000000000000000.0"},
                                           Number{1e16, "1e16", "1e16"},
                                           Number{1.25e17, "1.25e17", "1.25e17"},
                                           Number{1e-4, "0.0001", "0.0001"},
                                           Number{1e-5, "0.00001", "1e-5"},
                                           Number{1.5e-7, "1.5e-7", "1.5e-7"},
                                           Number{5e-324, "5e-324", "5e-324"}));

class BootstrapNumbers : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(BootstrapNumbers, AnyFiniteNumberComesBack) {
  std::mt19937_64 random(GetParam());
  for (int i = 0; i < 200; ++i) {
    double number = 0;
    const std::uint64_t bits = random();
    static_assert(sizeof(number) == sizeof(bits));
    std::memcpy(&number, &bits, sizeof(number));
    if (!std::isfinite(number)) {
      continue;
    }
    const BootstrapAction action{
        bits, BootstrapAction::Kind::kStartTransfer, {bits, random()}, number};
    const auto frame = DecodeBootstrapBody(Json(action));
    ASSERT_TRUE(frame) << frame.error().message << RustJsonNumber(number);
    EXPECT_EQ(std::get<BootstrapAction>(frame->message), action);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, BootstrapNumbers, ::testing::Range(0U, 20U));

}  // namespace
}  // namespace understudy::transport
