#include "understudy/transport/kv_batch.h"

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

Json Bytes(std::size_t size, std::uint8_t fill) {
  return Json::binary(std::vector<std::uint8_t>(size, fill));
}

Json Batch(const Json& events, const Json& rank = 0) {
  return Json::array({1.5, events, rank});
}

EngineKvBatch Decoded(const Json& batch) {
  auto decoded = DecodeKvBatch(Pack(batch));
  EXPECT_TRUE(decoded.has_value()) << decoded.error().message;
  return decoded ? *decoded : EngineKvBatch{};
}

/// The only event of a batch that holds nothing else.
template <class Event>
Event Only(const Json& event) {
  const EngineKvBatch batch = Decoded(Batch(Json::array({event})));
  EXPECT_EQ(batch.problems_total, 0U) << (batch.problems.empty() ? "" : batch.problems[0].text);
  if (batch.events.size() != 1 || !std::holds_alternative<Event>(batch.events[0])) {
    ADD_FAILURE() << event << " is not read as the expected event";
    return {};
  }
  return std::get<Event>(batch.events[0]);
}

/// Why the only event of a batch cannot be read.
std::string ProblemOf(const Json& event) {
  const EngineKvBatch batch = Decoded(Batch(Json::array({event})));
  EXPECT_TRUE(batch.events.empty());
  EXPECT_EQ(batch.problems_total, 1U);
  return batch.problems.empty() ? "" : batch.problems[0].text;
}

std::string RefusalOf(const Json& batch) {
  const auto decoded = DecodeKvBatch(Pack(batch));
  return decoded ? "accepted" : decoded.error().message;
}

Json Stored(std::initializer_list<Json> more = {}) {
  Json event = Json::array({"BlockStored", {11}, nullptr, {1, 2, 3, 4}, 4});
  for (const Json& field : more) {
    event.push_back(field);
  }
  return event;
}

std::vector<BlockHash> Hashes(std::initializer_list<std::uint64_t> numbers) {
  std::vector<BlockHash> hashes;
  for (const std::uint64_t number : numbers) {
    hashes.push_back(BlockHash{number});
  }
  return hashes;
}

TEST(KvBatch, ReadsTheShortestAndTheLongestArrayForm) {
  const auto shortest = Only<EngineKvStored>(Stored());
  EXPECT_EQ(shortest.hashes, Hashes({11}));
  EXPECT_FALSE(shortest.parent.has_value());
  EXPECT_EQ(shortest.tokens, (std::vector<std::uint32_t>{1, 2, 3, 4}));
  EXPECT_EQ(shortest.block_size, 4U);
  EXPECT_EQ(shortest.scope, KvScope{});

  const auto longest =
      Only<EngineKvStored>(Json::array({"BlockStored",
                                        {11, 12},
                                        10,
                                        {1, 2, 3, 4, 5, 6, 7, 8},
                                        4,
                                        7,
                                        "GPU",
                                        "adapter",
                                        Json::array({Json::array({"a", 1, "b"}), nullptr}),
                                        1,
                                        "sliding_window",
                                        1024,
                                        "LOCAL",
                                        "kvcr",
                                        "and",
                                        "more"}));
  EXPECT_EQ(longest.parent, BlockHash{10});
  EXPECT_EQ(longest.lora_name, "adapter");
  EXPECT_EQ(longest.extra_keys, (std::vector<KvExtraKey>{{0, "a"}, {0, "b"}}));
  EXPECT_EQ(longest.scope, (KvScope{"GPU", 1, "sliding_window", 1024, "LOCAL", "kvcr"}));
}

TEST(KvBatch, ReadsMapsWhateverTheOrderOfTheirKeys) {
  const Json event = {{"medium", "CPU"},
                      {"future_key", {{"a", {1, 2}}}},
                      {"block_size", 4},
                      {"token_ids", {1, 2, 3, 4}},
                      {"session_id", "s-1"},
                      {"cache_salt", "tenant"},
                      {"kv_cache_spec_sliding_window", nullptr},
                      {"parent_block_hash", 9},
                      {"block_hashes", {11}},
                      {"group_idx", 0},
                      {"type", "BlockStored"}};
  const auto stored = Only<EngineKvStored>(event);
  EXPECT_EQ(stored.hashes, Hashes({11}));
  EXPECT_EQ(stored.parent, BlockHash{9});
  EXPECT_EQ(stored.session_id, "s-1");
  EXPECT_EQ(stored.cache_salt, "tenant");
  EXPECT_EQ(stored.scope, (KvScope{"CPU", 0, {}, {}, {}, {}}));
}

TEST(KvBatch, ReadsWhatCurrentVllmSends) {
  const EngineKvBatch batch =
      Decoded({{"ts", 1789095808.8378847},
               {"events",
                {{{"type", "BlockStored"},
                  {"block_hashes", {15760518052499183552U}},
                  {"parent_block_hash", nullptr},
                  {"token_ids", std::vector<int>(16, 7)},
                  {"block_size", 16},
                  {"lora_id", nullptr},
                  {"medium", "GPU"},
                  {"lora_name", nullptr},
                  {"extra_keys", {nullptr}},
                  {"group_idx", 0},
                  {"kv_cache_spec_kind", "full_attention"}},
                 {{"type", "BlockRemoved"}, {"block_hashes", {1}}, {"medium", nullptr}},
                 {{"type", "AllBlocksCleared"}}}},
               {"data_parallel_rank", 2}});
  EXPECT_EQ(batch.problems_total, 0U);
  ASSERT_EQ(batch.events.size(), 3U);
  EXPECT_EQ(batch.dp_rank, 2U);
  EXPECT_DOUBLE_EQ(batch.timestamp_s, 1789095808.8378847);
  EXPECT_EQ(std::get<EngineKvStored>(batch.events[0]).hashes, Hashes({15760518052499183552U}));
  EXPECT_TRUE(std::holds_alternative<EngineKvCleared>(batch.events[2]));
}

TEST(KvBatch, ANumberAboveTheSignedRangeAndItsNegativeTwinAreOneHash) {
  EXPECT_EQ(Only<EngineKvRemoved>({"BlockRemoved", {13360216285664366642U}, "GPU"}).hashes,
            Only<EngineKvRemoved>({"BlockRemoved", {-5086527788045184974}, "GPU"}).hashes);
}

TEST(KvBatch, AByteStringIsTheHashOfItsLastEightBytes) {
  Json digest = Bytes(32, 0xaa);
  for (std::uint8_t i = 0; i < 8; ++i) {
    digest.get_binary()[24U + i] = i;
  }
  const auto removed = Only<EngineKvRemoved>({"BlockRemoved", {digest, Bytes(8, 1)}});
  EXPECT_EQ(removed.hashes, Hashes({0x0001020304050607U, 0x0101010101010101U}));
  EXPECT_EQ(ProblemOf({"BlockRemoved", {Bytes(7, 1)}}),
            "block_hashes: a byte string of 7 bytes (allowed: 8 to 32)");
  EXPECT_EQ(ProblemOf({"BlockRemoved", {Bytes(33, 1)}}),
            "block_hashes: a byte string of 33 bytes (allowed: 8 to 32)");
}

TEST(KvBatch, PairsOfTokensAreOneOverlappingRow) {
  const auto stored =
      Only<EngineKvStored>({"BlockStored", {11}, nullptr, {{1, 2}, {2, 3}, {3, 4}, {4, 5}}, 4});
  EXPECT_TRUE(stored.is_eagle);
  EXPECT_EQ(stored.tokens, (std::vector<std::uint32_t>{1, 2, 3, 4, 5}));
}

TEST(KvBatch, FewTrailingValuesAreToldApartByType) {
  const auto scope = [](std::initializer_list<Json> trailing) {
    Json event = Stored({nullptr, "GPU", nullptr, nullptr});
    for (const Json& value : trailing) {
      event.push_back(value);
    }
    return Only<EngineKvStored>(event).scope;
  };
  EXPECT_EQ(scope({3}), (KvScope{"GPU", 3, {}, {}, {}, {}}));
  EXPECT_EQ(scope({"mamba"}), (KvScope{"GPU", {}, "mamba", {}, {}, {}}));
  EXPECT_EQ(scope({nullptr, 3, "mamba"}), (KvScope{"GPU", 3, "mamba", {}, {}, {}}));
  EXPECT_EQ(scope({1, "mamba", 1024}), (KvScope{"GPU", 1, "mamba", 1024, {}, {}}));
  // Four that do not fit the positions: the last text is the kind.
  EXPECT_EQ(scope({"a", 1, 2, "b"}), (KvScope{"GPU", 1, "b", 2, {}, {}}));
  EXPECT_EQ(scope({nullptr, nullptr, nullptr, "REMOTE"}),
            (KvScope{"GPU", {}, {}, {}, "REMOTE", {}}));
}

TEST(KvBatch, TrailingMediaInfosOfOldTuplesAreRead) {
  const Json infos = Json::array({{{"mm_objects", {{{"mm_hash", 42}, {"offsets", {{0, 2}}}}}}}});
  const auto stored = Only<EngineKvStored>(Stored({nullptr, "GPU", nullptr, nullptr, 0, infos}));
  EXPECT_TRUE(stored.has_mm_infos);
  ASSERT_EQ(stored.mm_infos.size(), 1U);
  EXPECT_EQ(stored.mm_infos[0], (BlockMmInfo{0, {{42, {{0, 2}}}}}));
  EXPECT_EQ(stored.scope.group_idx, 0U);
}

TEST(KvBatch, TheOldMockersRemovalWithoutMediumIsUnderstood) {
  const auto removed = Only<EngineKvRemoved>({"BlockRemoved", {11, 12}, 0});
  EXPECT_EQ(removed.scope, (KvScope{{}, 0, {}, {}, {}, {}}));
  EXPECT_EQ(removed.hashes, Hashes({11, 12}));
}

TEST(KvBatch, AClearMayCarryAnything) {
  EXPECT_FALSE(Only<EngineKvCleared>(Json::array({"AllBlocksCleared"})).ownership.has_value());
  EXPECT_EQ(Only<EngineKvCleared>({"AllBlocksCleared", "x"}).ownership, "x");
  EXPECT_FALSE(Only<EngineKvCleared>({"AllBlocksCleared", {1, 2}, 1}).ownership.has_value());
}

TEST(KvBatch, OneBadEventCostsItself) {
  const Json events = {Stored(),
                       {"BlockUpdated", {1}},
                       {"BlockStored", {12}, nullptr, {1, 2, 3, -4}, 4},
                       "AllBlocksCleared",
                       {{"block_hashes", {13}}},
                       {"BlockRemoved", {14}}};
  const EngineKvBatch batch = Decoded(Batch(events));
  ASSERT_EQ(batch.events.size(), 2U);
  EXPECT_EQ(std::get<EngineKvRemoved>(batch.events[1]).hashes, Hashes({14}));
  ASSERT_EQ(batch.problems.size(), 4U);
  EXPECT_EQ(batch.problems[0].position, 1U);
  EXPECT_EQ(batch.problems[0].text,
            "type: 'BlockUpdated' (known: BlockStored, BlockRemoved, AllBlocksCleared, Ignored)");
  EXPECT_EQ(batch.problems[1].text, "token_ids: -4 is outside 0..4294967295");
  EXPECT_EQ(batch.problems[2].text, "neither a map nor an array");
  EXPECT_EQ(batch.problems[3].text, "type: missing");
}

TEST(KvBatch, ATextThatIsNotUtf8CostsOnlyItsEvent) {
  std::string bytes = Pack(Batch({{"BlockRemoved", {11}, "GPU"}, Stored()}));
  bytes.replace(bytes.find("GPU"), 3, "\xff\xfe\xfd");
  const auto batch = DecodeKvBatch(bytes);
  ASSERT_TRUE(batch.has_value()) << batch.error().message;
  EXPECT_EQ(batch->events.size(), 1U);
  ASSERT_EQ(batch->problems.size(), 1U);
  EXPECT_EQ(batch->problems[0].text, "a string is not UTF-8");
}

TEST(KvBatch, OnlyTheFirstProblemsAreKeptAndAllAreCounted) {
  const EngineKvBatch batch = Decoded(Batch(Json(std::vector<Json>(50, Json::array({"?"})))));
  EXPECT_EQ(batch.problems.size(), kKvProblemsKept);
  EXPECT_EQ(batch.problems_total, 50U);
}

TEST(KvBatch, SaysWhichFieldIsWrong) {
  EXPECT_EQ(ProblemOf({"BlockStored", {11}, nullptr, {1}}), "block_size: missing");
  EXPECT_EQ(ProblemOf({"BlockStored", {11}}), "token_ids: missing");
  EXPECT_EQ(ProblemOf({"BlockRemoved"}), "block_hashes: missing");
  EXPECT_EQ(ProblemOf(Json::array()), "type: missing");
  EXPECT_EQ(ProblemOf({"BlockStored", {11}, nullptr, {1}, -1}),
            "block_size: not an unsigned integer");
  EXPECT_EQ(ProblemOf({"BlockStored", {"x"}, nullptr, {1}, 1}),
            "block_hashes: neither an integer nor a byte string");
  EXPECT_EQ(ProblemOf({"BlockStored", {11}, nullptr, {1, {2, 3}}, 1}), "token_ids: not an integer");
  EXPECT_EQ(ProblemOf({"BlockStored", {11}, nullptr, {{1, 2, 3}}, 1}),
            "token_ids: neither a list of numbers nor of pairs of them");
  EXPECT_EQ(ProblemOf({{"type", "BlockRemoved"}, {"block_hashes", {1}}, {"group_idx", -1}}),
            "group_idx: -1 is outside 0..4294967295");
  EXPECT_EQ(ProblemOf({{"type", "BlockRemoved"}, {"block_hashes", {1}}, {"medium", 1}}),
            "medium: not a text");
}

TEST(KvBatch, AKeyGivenTwiceIsRefused) {
  const std::string event = "\x83" + Pack("type") + Pack("BlockRemoved") + Pack("block_hashes") +
                            Pack(Json::array({1})) + Pack("block_hashes") + Pack(Json::array({2}));
  const auto batch = DecodeKvBatch("\x93" + Pack(1.5) + "\x91" + event + Pack(0));
  ASSERT_TRUE(batch.has_value()) << batch.error().message;
  ASSERT_EQ(batch->problems.size(), 1U);
  EXPECT_EQ(batch->problems[0].text, "block_hashes: given twice");
}

TEST(KvBatch, TakesTheFormsOfEveryGenerationAroundTheEvents) {
  EXPECT_FALSE(Decoded(Json::array({1, Json::array()})).dp_rank.has_value());
  EXPECT_FALSE(Decoded(Json::array({1.5, Json::array(), nullptr})).dp_rank.has_value());
  EXPECT_EQ(Decoded(Json::array({1.5, Json::array(), 3})).dp_rank, 3U);
  EXPECT_FALSE(Decoded({{"events", Json::array()}}).dp_rank.has_value());
}

TEST(KvBatch, RefusesWhatIsNoBatch) {
  EXPECT_EQ(RefusalOf(Json::array({1.5, Json::array(), 0, "x"})),
            "kv batch: batch: 4 elements (allowed: 2 or 3)");
  EXPECT_EQ(RefusalOf(Json::array({1.5})), "kv batch: batch: 1 elements (allowed: 2 or 3)");
  EXPECT_EQ(RefusalOf({{"ts", 1}}), "kv batch: events: missing");
  EXPECT_EQ(RefusalOf("text"), "kv batch: batch: neither an array nor a map");
  EXPECT_EQ(RefusalOf(Json::array({"x", Json::array(), 0})), "kv batch: ts: not a number");
  EXPECT_EQ(RefusalOf(Json::array({1.5, 1, 0})), "kv batch: events: not a list");
  EXPECT_EQ(RefusalOf(Json::array({1.5, Json::array(), -1})),
            "kv batch: data_parallel_rank: outside 0..2147483647");
  EXPECT_EQ(DecodeKvBatch("\xc1").error().message, "kv batch: batch: neither an array nor a map");
  EXPECT_EQ(DecodeKvBatch("").error().message, "kv batch: not msgpack: ends inside a value");
}

TEST(KvBatch, CountsBytesBehindTheBatch) {
  const auto batch = DecodeKvBatch(Pack(Batch(Json::array({Stored()}))) + "\xc1\xc1");
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->events.size(), 1U);
  EXPECT_EQ(batch->trailing_bytes, 2U);
}

TEST(KvBatch, ACutPayloadIsRefusedWhereverItIsCut) {
  const std::string bytes = Pack(Batch({Stored({1, "GPU"}), {"BlockRemoved", {1}}}));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeKvBatch(std::string_view(bytes).substr(0, size)).has_value()) << size;
  }
}

TEST(KvBatch, LimitsOfABatchRefuseItAndLimitsOfAnEventRefuseThat) {
  KvBatchLimits limits;
  limits.events_max = 2;
  limits.hashes_max = 3;
  limits.tokens_max = 8;
  limits.text_bytes_max = 5;
  const auto decode = [&](const Json& batch) { return DecodeKvBatch(Pack(batch), limits); };
  EXPECT_EQ(decode(Batch({Stored(), Stored(), Stored()})).error().message,
            "kv batch: events: 3 items, at most 2 are allowed");
  EXPECT_EQ(decode(Batch({Stored(), Stored(), Stored()})).error().code, Errc::kUnsupported);
  const auto problem = [&](const Json& event) {
    const auto batch = decode(Batch({event, Stored()}));
    EXPECT_EQ(batch->events.size(), 1U);
    return batch->problems.at(0).text;
  };
  EXPECT_EQ(problem({"BlockRemoved", {1, 2, 3, 4}}),
            "block_hashes: 4 items, at most 3 are allowed");
  EXPECT_EQ(problem({"BlockStored", {1}, nullptr, std::vector<int>(9, 1), 4}),
            "token_ids: 9 items, at most 8 are allowed");
  EXPECT_EQ(problem(Stored({nullptr, "SIXTEEN"})), "medium: 7 bytes, at most 5 are allowed");
  limits.mm_items_max = 4;
  EXPECT_EQ(problem(Stored({nullptr, nullptr, nullptr, Json::array({{"a", "b", "c", "d", "e"}})})),
            "extra_keys: 5 items, at most 4 are allowed");
  limits.payload_bytes_max = 10;
  EXPECT_EQ(decode(Batch(Json::array({Stored()}))).error().code, Errc::kUnsupported);
}

TEST(KvBatch, ACountWithoutItemsAllocatesNothing) {
  for (const char* count : {"\xdd\xff\xff\xff\xff", "\xdf\xff\xff\xff\xff"}) {
    EXPECT_FALSE(DecodeKvBatch(std::string("\x93\x01", 2) + std::string(count, 5)).has_value());
    EXPECT_FALSE(DecodeKvBatch("\x93\x01\x91\x92" + Pack("BlockRemoved") + std::string(count, 5))
                     .has_value());
  }
  std::string deep("\x93\x01\x91\x92", 4);
  deep += Pack("Ignored") + std::string(1000, '\x91') + "\x01";
  EXPECT_FALSE(DecodeKvBatch(deep).has_value());
}

// ---- our own emission ----

class KvBatchRoundTrip : public ::testing::TestWithParam<std::uint32_t> {};

EngineKvEvent RandomEvent(std::mt19937& random) {
  const auto any = [&] { return static_cast<std::uint32_t>(random()); };
  const auto below = [&](std::uint32_t n) { return any() % n; };
  const auto maybe_text = [&](const char* text) {
    return below(2) == 0 ? std::nullopt : std::optional<std::string>(text);
  };
  KvScope scope;
  scope.medium = maybe_text("CPU_PINNED");
  scope.spec_kind = maybe_text("mamba");
  scope.locality = maybe_text("LOCAL");
  scope.ownership = maybe_text("kvcr");
  if (below(2) == 0) {
    scope.group_idx = any();
    scope.sliding_window = below(5000);
  }
  std::vector<BlockHash> hashes(below(20));
  for (BlockHash& hash : hashes) {
    hash = BlockHash{std::uint64_t{random()} << below(33)};
  }
  switch (below(4)) {
    case 0:
      return EngineKvRemoved{scope, hashes};
    case 1:
      return EngineKvCleared{scope.ownership};
    case 2:
      return EngineKvIgnored{};
    default:
      break;
  }
  EngineKvStored stored;
  stored.scope = scope;
  stored.hashes = hashes;
  stored.block_size = below(64) + 1;
  stored.tokens.resize(below(200));
  for (std::uint32_t& token : stored.tokens) {
    token = any() >> below(32);
  }
  stored.is_eagle = stored.tokens.size() > 1 && below(3) == 0;
  if (below(2) == 0) {
    stored.parent = BlockHash{random()};
  }
  stored.lora_name = maybe_text("adapter");
  stored.cache_salt = maybe_text("tenant");
  stored.session_id = maybe_text("s");
  stored.has_mm_infos = below(2) == 0;
  for (std::uint32_t block = 0; block < hashes.size(); ++block) {
    for (std::uint32_t n = below(3); n > 0; --n) {
      stored.extra_keys.push_back({block, std::string(below(70), 'a')});
    }
    if (stored.has_mm_infos && below(2) == 0) {
      stored.mm_infos.push_back({block, {{random(), {{1, 2}, {3, below(100)}}}, {7, {}}}});
    }
  }
  return stored;
}

TEST_P(KvBatchRoundTrip, WhatIsWrittenIsRead) {
  std::mt19937 random(GetParam());
  std::vector<EngineKvEvent> events(random() % 5);
  for (EngineKvEvent& event : events) {
    event = RandomEvent(random);
  }
  const auto batch = DecodeKvBatch(EncodeKvBatch(1.25, events, 7));
  ASSERT_TRUE(batch.has_value()) << batch.error().message;
  EXPECT_EQ(batch->problems_total, 0U);
  EXPECT_EQ(batch->events, events);
  EXPECT_EQ(batch->dp_rank, 7U);
  EXPECT_EQ(batch->timestamp_s, 1.25);
}

INSTANTIATE_TEST_SUITE_P(Seeds, KvBatchRoundTrip, ::testing::Range(0U, 200U));

}  // namespace
}  // namespace understudy::transport
