// The control schema's bytes: tests/vectors/control.
#include "tests/unit/transport/codec/golden.h"
#include "understudy/transport/worker_control.h"

#include <string>

#include <gtest/gtest.h>

namespace understudy::transport::golden {
namespace {

constexpr PayloadCodec kCodecs[] = {PayloadCodec::kJson, PayloadCodec::kMsgpack};

std::string BytesOf(const Json& one, PayloadCodec codec) {
  return codec == PayloadCodec::kJson ? one["json"].get<std::string>()
                                      : FromHex(one["msgpack_hex"]);
}

/// `command` says of each member of `text` what stands there.
void ExpectMembers(const ControlCommand& command, const Json& text) {
  EXPECT_EQ(NameOf(command.op), text["op"].get<std::string>());
  EXPECT_EQ(command.rank.value_or(99), text.value("rank", 99U));
  EXPECT_EQ(command.interval_ms.value_or(0), text.value("interval_ms", 0U));
  EXPECT_EQ(command.refuse_in_use, text.value("in_use", "keep") == std::string("refuse"));
  EXPECT_EQ(command.wait, text.value("wait", false));
  if (text.contains("handoff_id")) {
    EXPECT_EQ(ToText(command.handoff_id), text["handoff_id"].get<std::string>());
  }
  EXPECT_EQ(command.generation, text.value("generation", std::uint64_t{0}));
  EXPECT_EQ(command.request_id, text.value("request_id", ""));
  EXPECT_EQ(command.token_ids, text.value("token_ids", std::vector<std::uint32_t>{}));
  EXPECT_EQ(command.max_tokens, text.value("max_tokens", 0U));
}

TEST(GoldenWorkerControl, EveryOperationIsReadAndWrittenByteForByte) {
  const Json vectors = Load("control/version1.json");
  ASSERT_GE(vectors["requests"].size(), kControlOpCount);
  for (const Json& one : vectors["requests"]) {
    for (const auto codec : kCodecs) {
      const auto command = DecodeControlCommand(codec, BytesOf(one, codec), {});
      ASSERT_TRUE(command.has_value()) << one << command.error().message;
      ExpectMembers(*command, Json::parse(one["json"].get<std::string>()));
      EXPECT_EQ(EncodeControlCommand(codec, *command), BytesOf(one, codec)) << one;
    }
  }
}

TEST(GoldenWorkerControl, EveryItemIsWrittenAndReadByteForByte) {
  const Json vectors = Load("control/version1.json");
  for (const Json& one : vectors["items"]) {
    for (const auto codec : kCodecs) {
      const auto item = DecodeControlItem(codec, BytesOf(one, codec));
      ASSERT_TRUE(item.has_value()) << one << item.error().message;
      std::string frame;
      AppendControlItem(frame, codec, *item);
      EXPECT_EQ(frame.substr(kTwoPartHeadBytes), BytesOf(one, codec)) << one;
      const Json written = Json::parse(one["json"].get<std::string>())["data"]["data"];
      EXPECT_EQ(NameOf(item->kind), written["type"].get<std::string>());
    }
  }
}

}  // namespace
}  // namespace understudy::transport::golden
