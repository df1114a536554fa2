#include "understudy/transport/event_payloads.h"
#include "understudy/transport/router_event.h"
#include "worker/call/printer.h"

#include <string>
#include <vector>

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
  const auto bytes = transport::EncodeEnvelope({1, 2, 3, "other-topic", "whatever"});
  const auto text = DescribeEvent("namespace.ns.component.backend.other-topic", bytes);
  EXPECT_EQ(text.rfind("event other-topic subject=namespace.ns.component.backend.other-topic", 0),
            0U)
      << text;
  EXPECT_EQ(text.find("undecodable"), std::string::npos);
}

transport::RouterEvent Stored() {
  transport::RouterEvent event;
  event.worker_id = WorkerId{0xabc};
  event.dp_rank = DpRank{1};
  event.event_id = 7;
  event.parent = BlockHash{0x10};
  for (std::uint64_t i = 1; i <= 6; ++i) {
    event.blocks.push_back({BlockHash{i}, TokensHash{i}});
  }
  return event;
}

TEST(CallEventText, ShowsKvEventsOfBothReleases) {
  const transport::RouterEvent event = Stored();
  const std::string expected =
      " worker=abc rank=1 id=7 stored tier=device blocks=6 parent=10 hashes=1,2,3,4,...";
  for (const auto form : {transport::kRouterEventForm13, transport::kRouterEventForm16}) {
    const auto bytes = transport::EncodeEnvelope(
        {1, 2, 3, "kv-events", transport::EncodeRouterEvents({&event, 1}, form)});
    EXPECT_EQ(DescribeEvent("s", bytes), "event kv-events" + expected + " publisher=1 seq=2");
    const auto line = nlohmann::json::parse(DescribeEventJson("s", bytes));
    ASSERT_EQ(line["events"].size(), 1U);
    EXPECT_EQ(line["events"][0]["event"]["event_id"], 7);
    EXPECT_EQ(line["events"][0]["event"]["data"]["stored"]["blocks"].size(), 6U);
  }
  transport::RouterEvent removed;
  removed.kind = transport::RouterEvent::Kind::kRemoved;
  removed.blocks = {{BlockHash{5}, TokensHash{}}};
  const std::vector<transport::RouterEvent> both = {event, removed};
  const auto text =
      DescribeEvent("s",
                    transport::EncodeEnvelope(
                        {1,
                         2,
                         3,
                         "kv-events",
                         transport::EncodeRouterEvents(both, transport::kRouterEventForm16)}));
  EXPECT_TRUE(text.starts_with("event kv-events events=2 | worker=abc")) << text;
  EXPECT_NE(text.find("removed tier=device blocks=1 hashes=5"), std::string::npos) << text;
}

TEST(CallEventText, ShowsPassesAndComputedPrompts) {
  transport::ForwardPassMetrics pass;
  pass.worker_id = "77";
  pass.counter_id = 3;
  pass.wall_time_s = 0.0015;
  pass.decode = {2, 300, 0};
  std::string payload;
  transport::EncodeForwardPass(payload, pass);
  auto bytes = transport::EncodeEnvelope({1, 2, 3, "forward-pass-metrics", payload});
  EXPECT_EQ(DescribeEvent("s", bytes),
            "event forward-pass-metrics worker=77 rank=0 counter=3 wall_time_s=0.001500 "
            "prefill=0/0 decode=2/300 queued=0 publisher=1 seq=2");
  EXPECT_EQ(nlohmann::json::parse(DescribeEventJson("s", bytes))["payload"]["counter_id"], 3);
  payload.clear();
  transport::AppendSequenceEvent(payload, {"request", 0xabc, 1, "MarkPrefillCompleted", 0xabc});
  bytes = transport::EncodeEnvelope({1, 2, 3, "active_sequences_events", payload});
  EXPECT_EQ(DescribeEvent("s", bytes),
            "event active_sequences_events worker=abc rank=1 MarkPrefillCompleted request=request "
            "publisher=1 seq=2");
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
