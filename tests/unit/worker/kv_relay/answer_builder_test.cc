#include "worker/kv_relay/answer_builder.h"

#include "tests/unit/worker/kv_relay/events.h"

#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using Json = nlohmann::ordered_json;
using transport::PayloadCodec;
using State = AnswerBuilder::State;

constexpr WorkerId kWorker{1001};

class AnswerBuilderTest : public ::testing::Test {
 protected:
  void Take(RouterEvent event) {
    event.worker_id = kWorker;
    if (indexer_.Admit(event)) {
      event.event_id = indexer_.last_id() + 1;
      indexer_.Record(event);
    }
  }
  std::unique_ptr<AnswerBuilder> Begin(const Indexer::Plan& plan,
                                       transport::KvAnswerForm form = transport::kKvAnswerForm16,
                                       PayloadCodec codec = PayloadCodec::kJson) {
    return std::make_unique<AnswerBuilder>(indexer_, kWorker, DpRank{0}, codec, form, plan);
  }
  /// `change` runs between the steps.
  template <class F>
  Json Finish(AnswerBuilder& builder, std::size_t step, F change) {
    auto state = State::kMore;
    while ((state = builder.Advance(step)) == State::kMore) {
      change();
    }
    EXPECT_EQ(state, State::kDone) << builder.problem();
    std::string frame;
    for (const auto& piece : builder.Take()) {
      frame += piece;
    }
    const auto parsed = transport::ParseTwoPart(frame, frame.size());
    EXPECT_TRUE(parsed.has_value());
    return Json::parse(parsed->body)["data"];
  }
  Json Dump(std::size_t step = 1000) {
    const auto builder = Begin(Indexer::Dump{});
    return Finish(*builder, step, [] {})["TreeDump"];
  }
  /// Applies a dump and then events of the ring behind it, as a router does.
  static std::set<std::uint64_t> Blocks(const Json& dump, const char* tier = "device") {
    std::set<std::uint64_t> blocks;
    for (const Json& event : dump["events"]) {
      const Json& stored = event["event"]["data"]["stored"];
      EXPECT_TRUE(stored["parent_hash"].is_null() || event["storage_tier"] != tier ||
                  blocks.count(stored["parent_hash"].get<std::uint64_t>()) == 1)
          << "a child before its parent";
      for (const Json& block : stored["blocks"]) {
        if (event["storage_tier"] == tier) {
          blocks.insert(block["block_hash"].get<std::uint64_t>());
        }
      }
    }
    return blocks;
  }

  Indexer indexer_;
};

TEST_F(AnswerBuilderTest, AnEmptyCacheGivesAnEmptyDump) {
  const Json dump = Dump();
  EXPECT_EQ(dump["last_event_id"], 0);
  EXPECT_TRUE(dump["events"].empty());
  EXPECT_EQ(dump["reset_scope"], "all");
}

TEST_F(AnswerBuilderTest, LowerTiersFollowIn16WithIdsOfTheirOwn) {
  Take(Stored({}, {1, 2}));
  Take(Stored(1, {3}));
  Take(Stored({}, {41}, StorageTier::kHostPinned));
  Take(Stored({}, {51}, StorageTier::kDisk));
  const Json dump = Dump();
  EXPECT_EQ(Blocks(dump), (std::set<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(Blocks(dump, "host_pinned"), (std::set<std::uint64_t>{41}));
  EXPECT_EQ(Blocks(dump, "disk"), (std::set<std::uint64_t>{51}));
  std::vector<std::uint64_t> ids;
  for (const Json& event : dump["events"]) {
    ids.push_back(event["event"]["event_id"]);
  }
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{0, 1, 2, 0, 0}));
  EXPECT_EQ(dump["last_event_id"], 4);
  const auto builder = Begin(Indexer::Dump{}, transport::kKvAnswerForm13);
  const Json old = Finish(*builder, 1000, [] {})["TreeDump"];
  EXPECT_EQ(old["events"].size(), 3U);
  EXPECT_FALSE(old.contains("reset_scope"));
}

TEST_F(AnswerBuilderTest, AClearMeanwhileBeginsTheDumpAnew) {
  for (std::uint64_t i = 1; i < 50; ++i) {
    Take(Stored({}, {i}));
  }
  const auto builder = Begin(Indexer::Dump{});
  int step = 0;
  const Json dump = Finish(*builder, 1, [&] {
    if (++step == 10) {
      Take(Cleared());
      Take(Stored({}, {99}));
    }
  })["TreeDump"];
  EXPECT_EQ(Blocks(dump), (std::set<std::uint64_t>{99}));
  EXPECT_EQ(dump["last_event_id"], 51);
}

TEST_F(AnswerBuilderTest, GivesUpWhenTheCacheIsClearedAgainAndAgain) {
  const auto fill = [&] {
    for (std::uint64_t i = 1; i < 50; ++i) {
      Take(Stored({}, {i}));
    }
  };
  fill();
  const auto builder = Begin(Indexer::Dump{});
  auto state = State::kMore;
  int steps = 0;
  while ((state = builder->Advance(1)) == State::kMore && steps < 1000) {
    ++steps;
    Take(Cleared());
    fill();
  }
  EXPECT_EQ(state, State::kFailed);
  EXPECT_FALSE(builder->problem().empty());
  EXPECT_EQ(Dump()["events"].size(), 49U);  // the next one is whole
}

TEST_F(AnswerBuilderTest, ARangeThatTheRingOvertakesBecomesADump) {
  for (std::uint64_t i = 1; i <= EventRing::kEventsMax; ++i) {
    Take(Stored({}, {i}));
  }
  const auto builder = Begin(Indexer::Range{1, EventRing::kEventsMax});
  std::uint64_t next = EventRing::kEventsMax;
  const Json answer = Finish(*builder, 2, [&] {  // an event per step, and two come meanwhile
    if (next < EventRing::kEventsMax + 100) {
      Take(Stored({}, {++next}));
      Take(Stored({}, {++next}));
    }
  });
  ASSERT_TRUE(answer.contains("TreeDump")) << answer.dump().substr(0, 200);
  EXPECT_EQ(Blocks(answer["TreeDump"]).size(), answer["TreeDump"]["last_event_id"]);
}

class DumpUnderLoad : public ::testing::TestWithParam<std::uint32_t> {};

// The parameter is the seed. A router that takes the dump and the later events holds what the
// worker holds, and the dump alone is the cache at its last_event_id.
TEST_P(DumpUnderLoad, IsTheCacheAtOneMoment) {
  std::mt19937 random(GetParam());
  Indexer indexer;
  std::map<std::uint64_t, std::set<std::uint64_t>> history;  // blocks after each event
  std::set<std::uint64_t> held;
  history[0] = held;
  const auto change = [&] {
    const std::uint64_t block = random() % 300 + 1;
    const auto parent = block / 2;
    RouterEvent event;
    const bool has_children = held.count(block * 2) + held.count(block * 2 + 1) > 0;
    if (held.count(block) == 0 && (parent == 0 || held.count(parent) == 1)) {
      event = Stored(parent == 0 ? std::nullopt : std::optional(parent), {block});
      held.insert(block);
    } else if (held.count(block) == 1 && !has_children) {
      event = Removed({block});
      held.erase(block);
    } else {
      return;
    }
    ASSERT_TRUE(indexer.Admit(event));
    event.event_id = indexer.last_id() + 1;
    indexer.Record(event);
    history[event.event_id] = held;
  };
  for (int i = 0; i < 1500; ++i) {
    change();
  }
  for (int round = 0; round < 20; ++round) {
    AnswerBuilder builder(indexer,
                          kWorker,
                          DpRank{0},
                          PayloadCodec::kJson,
                          transport::kKvAnswerForm13,
                          Indexer::Dump{});
    auto state = State::kMore;
    while ((state = builder.Advance(3)) == State::kMore) {
      change();
      change();
    }
    ASSERT_EQ(state, State::kDone);
    std::string frame;
    for (const auto& piece : builder.Take()) {
      frame += piece;
    }
    const auto parsed = transport::ParseTwoPart(frame, frame.size());
    ASSERT_TRUE(parsed.has_value());
    const Json dump = Json::parse(parsed->body)["data"]["TreeDump"];
    std::set<std::uint64_t> blocks;
    for (const Json& event : dump["events"]) {
      const Json& stored = event["event"]["data"]["stored"];
      ASSERT_TRUE(stored["parent_hash"].is_null() ||
                  blocks.count(stored["parent_hash"].get<std::uint64_t>()) == 1);
      for (const Json& block : stored["blocks"]) {
        ASSERT_TRUE(blocks.insert(block["block_hash"].get<std::uint64_t>()).second);
      }
    }
    ASSERT_EQ(blocks, history.at(dump["last_event_id"].get<std::uint64_t>()));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, DumpUnderLoad, ::testing::Range(0U, 20U));

/// The tree that every local_indexer_query vector was captured on (events.md 9).
class CapturedQueries : public ::testing::TestWithParam<std::string> {
 protected:
  static RouterEvent Block(std::optional<std::uint64_t> parent,
                           std::uint64_t hash,
                           std::uint64_t tokens,
                           StorageTier tier = StorageTier::kDevice) {
    RouterEvent event = Stored(parent, {hash}, tier);
    event.blocks[0].tokens_hash = TokensHash{tokens};
    return event;
  }
  void SetUp() override {
    RouterEvent chain = Block({}, 11, 14643705804678351452U);
    chain.blocks.push_back({BlockHash{12}, TokensHash{16777012769546811212U}});
    chain.blocks.push_back({BlockHash{13}, TokensHash{5}});
    for (RouterEvent event : {chain,
                              Block(11, 21, 1785965335803600570U),
                              Block({}, 31, 3680150612935552118U),
                              Block({}, 41, 2369005331082339589U, StorageTier::kHostPinned),
                              Removed({13}),
                              Block(12, 14, 16259602842512645169U)}) {
      event.worker_id = kWorker;
      ASSERT_TRUE(indexer_.Admit(event));
      event.event_id = indexer_.last_id() + 1;
      indexer_.Record(event);
    }
  }
  /// Rows of a dump: siblings may come in any order.
  static std::map<std::string, Json> Rows(const Json& dump) {
    std::map<std::string, Json> rows;
    for (Json event : dump["events"]) {
      event["event"].erase("event_id");
      rows[event["event"]["data"].dump()] = event;
    }
    return rows;
  }

  Indexer indexer_;
};

TEST_P(CapturedQueries, AreAnsweredAsByTheRealWorker) {
  std::ifstream file(std::string(UNDERSTUDY_SOURCE_DIR) +
                     "/tests/vectors/events/local_indexer_query_" + GetParam() + ".json");
  const auto form = GetParam() == "1.6.1" ? transport::kKvAnswerForm16 : transport::kKvAnswerForm13;
  const Json vectors = Json::parse(file);
  ASSERT_EQ(vectors.size(), 10U);
  for (const Json& exchange : vectors) {
    const auto codec = exchange["codec"] == "json" ? PayloadCodec::kJson : PayloadCodec::kMsgpack;
    const auto id = [&](const char* key) {
      const Json& value = exchange["decoded"][key];
      return value.is_null() ? std::nullopt : std::optional(value.get<std::uint64_t>());
    };
    const Json& captured = exchange["output_decoded"]["data"];
    const auto plan = indexer_.PlanFor(id("start_event_id"), id("end_event_id"));
    if (captured.contains("TooNew")) {
      const auto& too_new = std::get<Indexer::TooNew>(plan);
      EXPECT_EQ(too_new.requested_start, captured["TooNew"]["requested_start"]);
      EXPECT_EQ(too_new.requested_end, captured["TooNew"]["requested_end"]);
      EXPECT_EQ(too_new.newest_available, captured["TooNew"]["newest_available"]);
      continue;
    }
    if (captured.contains("InvalidRange")) {
      EXPECT_TRUE(std::holds_alternative<Indexer::InvalidRange>(plan));
      continue;
    }
    AnswerBuilder builder(indexer_, kWorker, DpRank{0}, codec, form, plan);
    ASSERT_EQ(builder.Advance(1000), State::kDone);
    std::string frame;
    for (const auto& piece : builder.Take()) {
      frame += piece;
    }
    const auto parsed = transport::ParseTwoPart(frame, frame.size());
    ASSERT_TRUE(parsed.has_value());
    const Json answer =
        codec == PayloadCodec::kJson ? Json::parse(parsed->body) : Json::from_msgpack(parsed->body);
    if (captured.contains("Events")) {
      EXPECT_EQ(answer, exchange["output_decoded"]) << exchange["note"];
      continue;
    }
    const Json& dump = captured["TreeDump"];
    EXPECT_EQ(Rows(answer["data"]["TreeDump"]), Rows(dump)) << exchange["note"];
    EXPECT_EQ(answer["data"]["TreeDump"]["last_event_id"], dump["last_event_id"]);
    EXPECT_EQ(answer["data"]["TreeDump"].size(), dump.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Releases,
                         CapturedQueries,
                         ::testing::Values("1.3.0", "1.6.1"),
                         [](const auto& release) {
                           return release.param == "1.3.0" ? "v13" : "v16";
                         });

}  // namespace
}  // namespace understudy::worker
