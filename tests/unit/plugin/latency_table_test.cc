#include "plugin/mocker/perf_model/latency_table.h"

#include "plugin/mocker/config/engine_setup.h"
#include "tests/unit/plugin/allocation_count.h"
#include "tests/unit/plugin/npz_writer.h"

#include <fstream>
#include <functional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::mocker {
namespace {

using Json = nlohmann::json;

const std::string kData = std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/data/";
/// Of the cache that tests/data/make_latency_table.py samples the polynomial for.
constexpr std::uint64_t kTotalTokens = 1048576;

Json SampledTable() {
  std::ifstream file(kData + "latency_table.json");
  return Json::parse(file);
}

class SampledLatencyTable : public ::testing::TestWithParam<const char*> {};

TEST_P(SampledLatencyTable, GivesThePolynomialAtEveryPoint) {
  const auto table = LatencyTable::Load(kData + GetParam());
  ASSERT_TRUE(table) << table.error().message;
  const Json axes = SampledTable();
  const PolynomialModel polynomial;
  for (const std::uint64_t requests : axes["prefill"]["batch"]) {
    for (const std::uint64_t tokens : axes["prefill"]["new_tokens"]) {
      for (const std::uint64_t prefix : axes["prefill"]["prefix"]) {
        const PrefillBatch batch{requests, requests * (tokens + prefix), requests * prefix};
        EXPECT_DOUBLE_EQ((*table)->PrefillMs(batch), polynomial.PrefillMs(batch));
      }
    }
    for (const std::uint64_t context : axes["decode"]["context"]) {
      const DecodeBatch batch{requests, requests * context, context, kTotalTokens};
      EXPECT_DOUBLE_EQ((*table)->DecodeMs(batch), polynomial.DecodeMs(batch));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files,
                         SampledLatencyTable,
                         ::testing::Values("latency_table.json", "latency_table.npz"),
                         [](const auto& p) {
                           return std::string(p.param).substr(std::string(p.param).find('.') + 1);
                         });

Json SmallTable() {
  return {
      {"format", "understudy-latency-table"},
      {"version", 1},
      {"prefill",
       {{"batch", {1, 3}},
        {"new_tokens", {100, 200}},
        {"prefix", {0}},
        {"ms", {{{10.0}, {20.0}}, {{30.0}, {60.0}}}}}},
      {"decode", {{"batch", {1, 3}}, {"context", {100, 300}}, {"ms", {{4.0, 6.0}, {8.0, 12.0}}}}}};
}

std::unique_ptr<PerfModel> Load(const Json& table) {
  const ScratchFolder scratch;
  auto model = LatencyTable::Load(scratch.Write("table.json", table.dump()));
  EXPECT_TRUE(model) << model.error().message;
  return model ? std::move(*model) : nullptr;
}

TEST(LatencyTable, InterpolatesAlongEveryAxis) {
  const auto table = Load(SmallTable());
  EXPECT_EQ(table->PrefillMs({1, 150, 0}), 15.0);
  EXPECT_EQ(table->PrefillMs({2, 300, 0}), 30.0);
  EXPECT_EQ(table->DecodeMs({2, 0, 200, 0}), 7.5);
}

TEST(LatencyTable, GoesOnBeyondItsEndsDownToTheFloors) {
  const auto table = Load(SmallTable());
  EXPECT_DOUBLE_EQ(table->PrefillMs({1, 300, 0}), 30.0);
  EXPECT_DOUBLE_EQ(table->DecodeMs({5, 0, 100, 0}), 12.0);
  Json steep = SmallTable();
  steep["prefill"]["ms"][0] = {{10.0}, {90.0}};
  steep["decode"]["ms"] = {{0.5, 0.5}, {0.5, 0.5}};
  const auto floored = Load(steep);
  EXPECT_EQ(floored->PrefillMs({1, 50, 0}), 0.0);
  EXPECT_EQ(floored->DecodeMs({1, 0, 100, 0}), kDecodeMsMin);
  EXPECT_EQ(floored->DecodeMs({0, 0, 100, 0}), 0.0);
}

TEST(LatencyTable, LookingUpAllocatesNothing) {
  const auto table = Load(SmallTable());
  const std::uint64_t before = AllocationCount();
  const double sum = table->PrefillMs({2, 300, 20}) + table->DecodeMs({2, 0, 200, 0});
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_GT(sum, 0.0);
}

TEST(LatencyTable, AnAxisOfOnePointPlaysNoPart) {
  const auto table = Load(SmallTable());
  EXPECT_EQ(table->PrefillMs({1, 5100, 5000}), table->PrefillMs({1, 100, 0}));
}

std::string Refusal(const std::function<void(Json&)>& spoil) {
  Json table = SmallTable();
  spoil(table);
  const ScratchFolder scratch;
  const std::string path = scratch.Write("table.json", table.dump());
  const auto model = LatencyTable::Load(path);
  if (model) {
    return "";
  }
  EXPECT_EQ(model.error().message.substr(0, path.size()), path);
  return model.error().message.substr(std::min(model.error().message.size(), path.size()));
}

TEST(LatencyTable, TellsWhatIsWrongWithATable) {
  EXPECT_EQ(Refusal([](Json& t) { t["prefill"].erase("ms"); }), ": prefill.ms is missing");
  EXPECT_EQ(Refusal([](Json& t) { t.erase("decode"); }), ": decode is missing");
  EXPECT_EQ(Refusal([](Json& t) { t["decode"] = 1; }), ": decode is no object");
  EXPECT_EQ(Refusal([](Json& t) { t["prefil"] = 1; }),
            ": unknown member 'prefil', known are format, version, description, prefill, decode");
  EXPECT_EQ(Refusal([](Json& t) { t["decode"]["isl"] = 1; }),
            ": unknown member 'decode.isl', known are batch, context, ms");
  EXPECT_EQ(Refusal([](Json& t) { t["version"] = 2; }),
            ": expected format \"understudy-latency-table\" and version 1");
  EXPECT_EQ(Refusal([](Json& t) { t["decode"]["ms"][1] = {1.0}; }),
            ": decode.ms[1] has 1 elements, expected 2");
  EXPECT_EQ(Refusal([](Json& t) { t["decode"]["ms"][1][0] = "fast"; }),
            ": decode.ms[1][0] is no number");
  EXPECT_EQ(Refusal([](Json& t) { t["decode"]["ms"][1][0] = -3; }),
            ": decode.ms[1][0] is -3, allowed is 0 to 1e+08 ms");
  EXPECT_EQ(Refusal([](Json& t) {
              t["prefill"]["batch"] = {3, 1};
            }),
            ": prefill.batch[1] is 1 after 3, it must increase");
  EXPECT_EQ(Refusal([](Json& t) {
              t["decode"]["batch"] = Json::array();
              t["decode"]["ms"] = Json::array();
            }),
            ": decode.batch has no point");
}

TEST(LatencyTable, TellsWhatIsWrongWithAnNpzTable) {
  const ScratchFolder scratch;
  const std::string path =
      scratch.Write("table.npz",
                    Zip({{.name = "prefill_batch.npy", .bytes = Npy("(1,)", {1.0})},
                         {.name = "prefill_new_tokens.npy", .bytes = Npy("(1,)", {1.0})},
                         {.name = "prefill_prefix.npy", .bytes = Npy("(1,)", {0.0})},
                         {.name = "prefill_ms.npy", .bytes = Npy("(1, 1)", {1.0})}}));
  EXPECT_EQ(LatencyTable::Load(path).error().message,
            path + ": array 'prefill_ms': shape (1, 1), its axes need (1, 1, 1)");
}

TEST(LatencyModelOption, TakesPrecedenceOverAProfileAndSaysSo) {
  MockerOptions options;
  options.latency_model = kData + "latency_table.json";
  options.planner_profile_data = "ignored.npz";
  const auto setup = EngineSetup::New(options);
  ASSERT_TRUE(setup) << setup.error().message;
  EXPECT_EQ(
      (*setup)->warnings(),
      std::vector<std::string>{"planner_profile_data is ignored: latency_model takes precedence"});
}

// engine-1.6.md 5.1: no floor, and nothing for a pass that computes nothing.
TEST(LatencyModelOption, MayBeTwoNumbers) {
  MockerOptions options;
  options.latency_model = "fixed:1.5,0";
  const auto setup = EngineSetup::New(options);
  ASSERT_TRUE(setup) << setup.error().message;
  const PerfModel& model = *(*setup)->config().perf_model;
  EXPECT_EQ(model.PrefillMs({2, 100, 0}), 1.5);
  EXPECT_EQ(model.PrefillMs({2, 100, 100}), 0.0);
  EXPECT_EQ(model.DecodeMs({1, 5, 5, 100}), 0.0);
  for (const char* bad :
       {"fixed:", "fixed:1", "fixed:1,", "fixed:1,-2", "fixed:nan,1", "fixed:1,2x"}) {
    options.latency_model = bad;
    EXPECT_EQ(EngineSetup::New(options).error().message,
              std::string("latency_model: ") + bad +
                  ": expected fixed:PREFILL_MS,DECODE_MS, two numbers of 0 or more");
  }
}

TEST(LatencyModelOption, RefusesWhatIsNoModel) {
  MockerOptions options;
  options.latency_model = "model.txt";
  EXPECT_EQ(
      EngineSetup::New(options).error().message,
      "latency_model: model.txt: expected a table (.json, .npz), a plugin (.so, .so:CONFIG) or "
      "fixed:PREFILL_MS,DECODE_MS");
  options.latency_model = "none.json";
  EXPECT_EQ(EngineSetup::New(options).error().message, "latency_model: none.json: no such file");
}

}  // namespace
}  // namespace understudy::mocker
