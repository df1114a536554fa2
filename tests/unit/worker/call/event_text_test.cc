#include "worker/call/printer.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

std::string LoadEvent() {
  transport::ActiveLoad load;
  load.worker_id = 0xabc;
  load.dp_rank = 3;
  load.kv_used_blocks = 17;
  return transport::EncodeEnvelope(
      {0x99, 5, 1'700'000'000'000, "kv_metrics", transport::EncodeActiveLoad(load)});
}

TEST(CallEventText, ShowsWorkerRankAndUsedBlocksOfALoadMetric) {
  const auto text = DescribeEvent("namespace.ns.kv_metrics", LoadEvent());
  EXPECT_EQ(text,
            "event kv_metrics worker=abc rank=3 kv_used_blocks=17 active_decode_blocks=- "
            "active_prefill_tokens=- "
            "publisher=99 seq=5");
}

TEST(CallEventText, NamesOtherTopicsOnly) {
  const auto bytes = transport::EncodeEnvelope({1, 2, 3, "kv-events", "whatever"});
  const auto text = DescribeEvent("namespace.ns.component.backend.kv-events", bytes);
  EXPECT_EQ(text.rfind("event kv-events subject=namespace.ns.component.backend.kv-events", 0), 0U)
      << text;
}

TEST(CallEventText, SaysWhatCannotBeDecoded) {
  EXPECT_EQ(DescribeEvent("s", "garbage").rfind("event undecodable subject=s bytes=7 error=", 0),
            0U);
  const auto bad_load =
      DescribeEvent("s", transport::EncodeEnvelope({1, 2, 3, "kv_metrics", "\xC1"}));
  EXPECT_NE(bad_load.find("undecodable="), std::string::npos) << bad_load;
}

TEST(CallEventText, KeepsControlCharactersOfAPeerOffTheTerminal) {
  const auto text = DescribeEvent("s", transport::EncodeEnvelope({1, 2, 3, "\x1b[2Jevil\n", ""}));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(CallEventText, JsonHoldsTheSameAsNumbers) {
  const auto line =
      nlohmann::json::parse(DescribeEventJson("namespace.ns.kv_metrics", LoadEvent()));
  EXPECT_EQ(line["topic"], "kv_metrics");
  EXPECT_EQ(line["worker_id"], 0xabc);
  EXPECT_EQ(line["dp_rank"], 3);
  EXPECT_EQ(line["kv_used_blocks"], 17);
  EXPECT_EQ(line["sequence"], 5);
  EXPECT_FALSE(line.contains("active_prefill_tokens"));
  EXPECT_TRUE(nlohmann::json::parse(DescribeEventJson("s", "\xFF\xFE")).contains("error"));
}

}  // namespace
}  // namespace understudy::worker
