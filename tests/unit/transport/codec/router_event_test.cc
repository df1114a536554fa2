#include "understudy/transport/router_event.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::transport {
namespace {

using Json = nlohmann::ordered_json;

std::string Pack(const Json& value) {
  const auto bytes = Json::to_msgpack(value);
  return {bytes.begin(), bytes.end()};
}

RouterEvent RandomEvent(std::mt19937& random) {
  const auto any = [&] { return static_cast<std::uint32_t>(random()); };
  const auto below = [&](std::uint32_t n) { return any() % n; };
  RouterEvent event;
  event.worker_id = WorkerId{std::uint64_t{random()} << 31U};
  event.dp_rank = DpRank{below(8)};
  event.event_id = random();
  event.kind = static_cast<RouterEvent::Kind>(below(3));
  event.tier = static_cast<StorageTier>(below(4));
  event.domain = static_cast<ResidencyDomain>(below(2));
  if (below(3) == 0) {
    event.session_id = "session \xc3\xa9";
  }
  if (event.kind == RouterEvent::Kind::kCleared) {
    return event;
  }
  event.blocks.resize(below(20));
  for (RouterBlock& block : event.blocks) {
    block.block_hash = BlockHash{std::uint64_t{random()} << below(33)};
  }
  if (event.kind == RouterEvent::Kind::kRemoved) {
    return event;
  }
  if (below(2) == 0) {
    event.parent = BlockHash{~std::uint64_t{0}};
    event.start_position = below(1000);
  }
  for (std::uint32_t i = 0; i < event.blocks.size(); ++i) {
    event.blocks[i].tokens_hash = TokensHash{random()};
    if (below(4) == 0) {
      event.mm_infos.push_back({i, {{random(), {{0, below(9)}}}, {1, {}}}});
    }
  }
  return event;
}

class RouterEventRoundTrip : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(RouterEventRoundTrip, TheArrayFormGivesBackWhatWasWritten) {
  std::mt19937 random(GetParam());
  std::vector<RouterEvent> events(random() % 6);
  for (RouterEvent& event : events) {
    event = RandomEvent(random);
  }
  const auto read = DecodeRouterEvents(EncodeRouterEvents(events, kRouterEventForm16));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, events);
}

TEST_P(RouterEventRoundTrip, TheBareFormGivesBackAllButDomainAndSession) {
  std::mt19937 random(GetParam());
  RouterEvent event = RandomEvent(random);
  const auto read =
      DecodeRouterEvents(EncodeRouterEvents(std::span(&event, 1), kRouterEventForm13));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  event.domain = ResidencyDomain::kNone;
  event.session_id.reset();
  EXPECT_EQ(*read, std::vector{event});
}

TEST_P(RouterEventRoundTrip, JsonSaysTheSameAsMsgpack) {
  std::mt19937 random(GetParam());
  const RouterEvent event = RandomEvent(random);
  for (const RouterEventForm form : {kRouterEventForm13, kRouterEventForm16}) {
    std::string json = "  ";
    std::string msgpack;
    AppendRouterEventJson(json, event, form);
    AppendRouterEvent(msgpack, event, form);
    EXPECT_EQ(Json::parse(json).dump(), Json::from_msgpack(msgpack).dump());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RouterEventRoundTrip, ::testing::Range(0U, 100U));

Json Stored() {
  return {{"worker_id", 1},
          {"storage_tier", "device"},
          {"event",
           {{"event_id", 2}, {"data", {{"removed", {{"block_hashes", {3}}}}}}, {"dp_rank", 0}}}};
}

TEST(RouterEventDecode, TakesUnknownKeysAndMissingOptionalOnes) {
  Json event = Stored();
  event["state_source"] = {{"a", 1}};
  event.erase("storage_tier");
  const auto read = DecodeRouterEvents(Pack(event));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->at(0).tier, StorageTier::kDevice);
  EXPECT_EQ(read->at(0).domain, ResidencyDomain::kNone);
}

TEST(RouterEventDecode, NamesTheFieldThatIsWrong) {
  const auto refusal = [](const Json& event) {
    const auto read = DecodeRouterEvents(Pack(event));
    return read ? "accepted" : read.error().message;
  };
  for (const char* key : {"worker_id", "event"}) {
    Json event = Stored();
    event.erase(key);
    EXPECT_EQ(refusal(event), "router event: " + std::string(key) + ": missing");
  }
  Json event = Stored();
  event["storage_tier"] = "tape";
  EXPECT_EQ(refusal(event),
            "router event: storage_tier: 'tape' (allowed: device, host_pinned, disk, external)");
  event = Stored();
  event["residency_domain"] = "shared";
  EXPECT_EQ(refusal(event), "router event: residency_domain: 'shared' (allowed: worker)");
  event = Stored();
  event["event"]["data"] = "emptied";
  EXPECT_EQ(refusal(event), "router event: data: a word other than cleared");
  event["event"]["data"] = {{"moved", 1}};
  EXPECT_EQ(refusal(event), "router event: moved: neither stored nor removed");
  EXPECT_EQ(refusal(Json(5)), "router event: not a map");
  EXPECT_EQ(DecodeRouterEvents(Pack(Stored()) + "x").error().message,
            "router event: bytes after the value");
}

}  // namespace
}  // namespace understudy::transport
