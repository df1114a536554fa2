#include "plugin/mocker/perf_model/latency_plugin.h"

#include "plugin/mocker/config/engine_setup.h"
#include "tests/unit/plugin/npz_writer.h"

#include <filesystem>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

const std::string kExample = UNDERSTUDY_EXAMPLE_LATENCY_MODEL;

/// A plugin of bad_latency_model.c.
std::string Bad(const std::string& fault) {
  return std::string(UNDERSTUDY_BAD_LATENCY_MODELS) + "/bad_latency_model_" + fault + ".so";
}

/// What loading says, without the path that it must begin with.
std::string Refusal(const std::string& path, std::string_view config = "") {
  const auto model = LoadLatencyPlugin(path, config);
  if (model) {
    return "";
  }
  EXPECT_EQ(model.error().code, Errc::kInvalidConfig);
  EXPECT_EQ(model.error().message.substr(0, path.size()), path);
  return model.error().message.substr(std::min(path.size(), model.error().message.size()));
}

TEST(LatencyPlugin, ExampleAnswersWithItsDefaults) {
  const auto model = LoadLatencyPlugin(kExample, "");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_DOUBLE_EQ((*model)->PrefillMs({2, 2000, 1000}), 10.0);
  EXPECT_DOUBLE_EQ((*model)->DecodeMs({2, 4096, 1000, 65536}), 6.002);
  EXPECT_EQ((*model)->PrefillMs({1, 128, 128}), 0.0);
  EXPECT_EQ((*model)->DecodeMs({0, 0, 0, 65536}), 0.0);
  EXPECT_EQ((*model)->bad_results(), 0U);
}

TEST(LatencyPlugin, OptionPassesTheTextAfterTheFile) {
  MockerOptions options;
  options.latency_model = kExample + ":20 0.5";
  const auto setup = EngineSetup::New(options);
  ASSERT_TRUE(setup) << setup.error().message;
  EXPECT_DOUBLE_EQ((*setup)->config().perf_model->PrefillMs({1, 1000, 0}), 20.0);
  EXPECT_EQ((*setup)->config().perf_model->DecodeMs({1, 10, 10, 100}), kDecodeMsMin);
  options.latency_model = kExample;
  EXPECT_TRUE(EngineSetup::New(options));
}

TEST(LatencyPlugin, ShowsTheTextWithWhichAPluginRefuses) {
  EXPECT_EQ(
      Refusal(kExample, "fast"),
      ": refused by the plugin (code 1): config 'fast', expected two numbers: us per token and "
      "ms");
  EXPECT_EQ(Refusal(Bad("create_fails"), "x"),
            ": refused by the plugin (code 7): no table for 'x'");
}

TEST(LatencyPlugin, RefusesWhatCannotBeLoaded) {
  const ScratchFolder scratch;
  EXPECT_EQ(Refusal(scratch.path() + "/none.so"), ": no such file");
  EXPECT_EQ(Refusal(scratch.Write("text.so", "no shared object")).find(": cannot be loaded: "), 0U);
  EXPECT_EQ(Refusal("none.so"), ": no such file") << "system folders are not searched";
}

TEST(LatencyPlugin, RefusesATableThatIsNotOurs) {
  EXPECT_EQ(Refusal(Bad("no_entry")), ": exports no function understudy_latency_model_entry_v1");
  EXPECT_EQ(Refusal(Bad("null_table")), ": understudy_latency_model_entry_v1 returned null");
  EXPECT_EQ(Refusal(Bad("other_major")),
            ": built for version 2 of latency_model_abi.h, this is version 1");
  EXPECT_EQ(Refusal(Bad("later_minor")),
            ": built for version 1.9 of latency_model_abi.h, this is version 1.0");
  EXPECT_EQ(Refusal(Bad("small_table")), ": table of 24 bytes, at least 48 are needed");
  EXPECT_EQ(Refusal(Bad("null_function")), ": its function decode_ms is null");
  EXPECT_EQ(Refusal(Bad("no_model")), ": create returned 0 but no model");
}

TEST(LatencyPlugin, RefusesAModelWhoseFirstAnswerIsNoTime) {
  EXPECT_EQ(Refusal(Bad("nan_at_once")),
            ": prefill_ms answered nan to a request of 128 tokens, allowed is 0 to 1e+08 ms");
}

TEST(LatencyPlugin, ReplacesAndCountsLaterAnswersThatAreNoTime) {
  const auto model = LoadLatencyPlugin(Bad("negative_later"), "");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->PrefillMs({1, 10, 0}), 2.0);
  EXPECT_EQ((*model)->PrefillMs({2, 20, 0}), 0.0);
  EXPECT_EQ((*model)->DecodeMs({2, 20, 10, 100}), kDecodeMsMin);
  EXPECT_EQ((*model)->DecodeMs({3, 30, 10, 100}), kDecodeMsMin);
  EXPECT_EQ((*model)->bad_results(), 3U);
}

TEST(LatencyPlugin, AnswersSeveralThreadsAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 1000;
  const auto model = LoadLatencyPlugin(Bad("negative_later"), "");
  ASSERT_TRUE(model) << model.error().message;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&model] {
      for (int call = 0; call < kCalls; ++call) {
        EXPECT_EQ((*model)->PrefillMs({2, 20, 0}), 0.0);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ((*model)->bad_results(), std::uint64_t{kThreads} * kCalls);
}

}  // namespace
}  // namespace understudy::mocker
