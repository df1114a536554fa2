#include "understudy/transport/worker_control.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::transport {
namespace {

/// Why `json` is refused, in either codec; empty when it is not.
std::string Refusal(const std::string& json, Errc code) {
  const auto parsed = nlohmann::ordered_json::parse(json);
  const auto bytes = nlohmann::ordered_json::to_msgpack(parsed);
  const std::string msgpack(bytes.begin(), bytes.end());
  std::string text;
  for (const auto codec : {PayloadCodec::kJson, PayloadCodec::kMsgpack}) {
    const auto command =
        DecodeControlCommand(codec, codec == PayloadCodec::kJson ? json : msgpack, {});
    if (command) {
      return {};
    }
    EXPECT_EQ(command.error().code, code) << json;
    EXPECT_TRUE(text.empty() || text == command.error().message) << command.error().message;
    text = command.error().message;
  }
  return text;
}

constexpr const char* kAllOps =
    "stats, clear_kv_blocks, drain, resume, register_handoff, submit_prefill, "
    "reserve_destination, activate_destination, cancel_destination, release_source, "
    "cancel_source";

TEST(ControlCommand, AnUnknownOperationIsToldWhichThereAre) {
  EXPECT_EQ(Refusal(R"({"version":1,"op":"explode"})", Errc::kUnsupported),
            std::string("control request: op: 'explode' is not known (allowed: ") + kAllOps + ")");
}

TEST(ControlCommand, TheVersionIsCheckedBeforeAnythingElse) {
  EXPECT_EQ(Refusal(R"({"op":"new_in_2","version":2,"shape":[]})", Errc::kUnsupported),
            "control request: version: 2 is not supported (supported: 1)");
  EXPECT_EQ(Refusal(R"({"op":"stats"})", Errc::kMalformed), "control request: version: missing");
  EXPECT_EQ(Refusal(R"({"version":"1","op":"stats"})", Errc::kMalformed),
            "control request: version: not an unsigned integer");
}

TEST(ControlCommand, MembersThatAnOperationDoesNotHaveAreRefused) {
  EXPECT_EQ(Refusal(R"({"version":1,"op":"stats","generation":3})", Errc::kUnsupported),
            "control request: 'generation': not a member of stats (allowed: version, op, rank, "
            "interval_ms)");
  EXPECT_EQ(Refusal(R"({"version":1,"op":"resume","speed":{"a":[1]}})", Errc::kUnsupported),
            "control request: 'speed': not a member of resume (allowed: version, op)");
}

TEST(ControlCommand, MissingMembersAreNamed) {
  EXPECT_EQ(Refusal(R"({"version":1})", Errc::kMalformed), "control request: op: missing");
  const std::string id = R"("handoff_id":"6f0c1a9e-3b52-4d0e-9a71-0123456789ab")";
  EXPECT_EQ(Refusal(R"({"version":1,"op":"register_handoff"})", Errc::kMalformed),
            "control request: handoff_id: missing");
  EXPECT_EQ(Refusal(R"({"version":1,"op":"cancel_source",)" + id + "}", Errc::kMalformed),
            "control request: generation: missing");
  EXPECT_EQ(
      Refusal(R"({"version":1,"op":"submit_prefill","generation":1,"max_tokens":1,)" + id + "}",
              Errc::kMalformed),
      "control request: token_ids: missing");
  EXPECT_EQ(Refusal(R"({"version":1,"op":"submit_prefill","generation":1,"max_tokens":1,)" +
                        std::string(R"("token_ids":[],)") + id + "}",
                    Errc::kMalformed),
            "control request: token_ids: empty");
}

TEST(ControlCommand, ValuesOfAnotherTypeAreNamed) {
  EXPECT_EQ(Refusal(R"({"version":1,"op":7})", Errc::kMalformed),
            "control request: op: not a string");
  EXPECT_EQ(Refusal(R"({"version":1,"op":"stats","rank":-1})", Errc::kMalformed),
            "control request: rank: not an unsigned integer");
  EXPECT_EQ(Refusal(R"({"version":1,"op":"stats","rank":4294967296})", Errc::kMalformed),
            "control request: rank: 4294967296 does not fit into 32 bits");
  EXPECT_EQ(Refusal(R"({"version":1,"op":"drain","wait":1})", Errc::kMalformed),
            "control request: wait: not true or false");
  EXPECT_EQ(Refusal(R"({"version":1,"op":"register_handoff","handoff_id":"x"})", Errc::kMalformed),
            "control request: handoff_id: 'x' is not a UUID");
  EXPECT_EQ(Refusal(R"({"version":1,"op":"clear_kv_blocks","in_use":"drop"})", Errc::kUnsupported),
            "control request: in_use: 'drop' is not known (allowed: keep, refuse)");
  EXPECT_EQ(Refusal(R"([1,"stats"])", Errc::kMalformed), "control request: not an object");
}

TEST(ControlCommand, LimitsAreNamed) {
  EXPECT_EQ(Refusal(R"({"version":1,"op":"stats","interval_ms":9})", Errc::kUnsupported),
            "control request: interval_ms: 9 is not allowed (10 to 3600000)");
  EXPECT_EQ(Refusal(R"({"version":1,"op":"stats","interval_ms":3600001})", Errc::kUnsupported),
            "control request: interval_ms: 3600001 is not allowed (10 to 3600000)");
  ControlCommand command;
  command.op = ControlOp::kSubmitPrefill;
  command.token_ids = {1, 2, 3};
  command.max_tokens = 1;
  DecodeLimits limits;
  limits.prompt_tokens_max = 2;
  for (const auto codec : {PayloadCodec::kJson, PayloadCodec::kMsgpack}) {
    const auto body = EncodeControlCommand(codec, command);
    EXPECT_EQ(DecodeControlCommand(codec, body, limits).error().message,
              "control request: token_ids: more than 2 tokens");
    DecodeLimits small;
    small.body_bytes_max = 10;
    EXPECT_EQ(
        DecodeControlCommand(codec, body, small).error().message,
        "control request: " + std::to_string(body.size()) + " bytes, more than the limit of 10");
  }
  command.token_ids = {1};
  command.request_id = std::string(kControlRequestIdBytesMax + 1, 'r');
  EXPECT_EQ(DecodeControlCommand(
                PayloadCodec::kJson, EncodeControlCommand(PayloadCodec::kJson, command), {})
                .error()
                .message,
            "control request: request_id: has 257 bytes (allowed: 1 to 256)");
}

TEST(ControlCommand, AMemberGivenTwiceIsRefused) {
  EXPECT_EQ(
      DecodeControlCommand(PayloadCodec::kJson, R"({"version":1,"op":"drain","op":"resume"})", {})
          .error()
          .message,
      "control request: op: given twice");
}

TEST(ControlCommand, BytesThatAreNoMessageAreRefused) {
  for (const auto codec : {PayloadCodec::kJson, PayloadCodec::kMsgpack}) {
    for (const std::string& bytes : {std::string(), std::string("{"), std::string("\x82\xa7", 2)}) {
      const auto command = DecodeControlCommand(codec, bytes, {});
      ASSERT_FALSE(command.has_value());
      EXPECT_EQ(command.error().code, Errc::kMalformed);
      EXPECT_TRUE(command.error().message.starts_with("control request: "));
    }
  }
}

TEST(ControlItem, WhatANewerWorkerAddsIsSkipped) {
  const auto item = DecodeControlItem(
      PayloadCodec::kJson,
      R"({"data":{"id":"x","data":{"type":"registered","generation":4,"since":[1]}},"complete_final":false})");
  ASSERT_TRUE(item.has_value()) << item.error().message;
  EXPECT_EQ(item->generation, 4U);
  EXPECT_EQ(DecodeControlItem(PayloadCodec::kJson, R"({"data":{"data":{"type":"novel"}}})")
                .error()
                .message,
            "control item: type: 'novel' is not known (allowed: stats, cleared, state, registered, "
            "outcome, source_held, destination_reserved, token, finished)");
  EXPECT_EQ(DecodeControlItem(PayloadCodec::kJson, R"({"data":{"data":{}}})").error().message,
            "control item: type: missing");
}

TEST(StatusMessage, IsWhatDynamosHandlersAnswer) {
  std::string frame;
  AppendStatusMessage(frame, PayloadCodec::kJson, true, "KV cache cleared");
  EXPECT_EQ(
      frame.substr(kTwoPartHeadBytes),
      R"({"data":{"data":{"status":"success","message":"KV cache cleared"}},"complete_final":false})");
  std::string msgpack;
  AppendStatusMessage(msgpack, PayloadCodec::kMsgpack, false, "KV cache reset failed");
  const auto body = nlohmann::json::from_msgpack(msgpack.substr(kTwoPartHeadBytes));
  EXPECT_EQ(body["data"]["data"],
            (nlohmann::json{{"status", "error"}, {"message", "KV cache reset failed"}}));
}

}  // namespace
}  // namespace understudy::transport
