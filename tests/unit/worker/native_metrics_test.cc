// M-043 to M-058.
#include "worker/metrics/native_metrics.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using mocker::EngineType;

/// Names of families -> help and type as shown.
std::map<std::string, std::string> Families(const std::string& text) {
  std::map<std::string, std::string> families;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# ")) {
      const auto name = line.substr(7, line.find(' ', 7) - 7);
      const auto rest = line.substr(8 + name.size());
      families[name] += line.starts_with("# HELP") ? rest + "|" : rest;
    }
  }
  return families;
}

class NativeMetricsTest : public ::testing::Test {
 protected:
  void Make(EngineType engine, std::uint32_t dp_size = 2, std::uint32_t workers = 1) {
    metrics_ = NativeMetrics::New({engine, dp_size, dp_size * workers, false});
  }
  engine::Load Load(std::uint32_t rank) {
    engine::Load load;
    load.rank = RankIndex{rank};
    return load;
  }
  bool Shows(const std::string& line) {
    const auto text = metrics_->Scrape();
    return text.find(line + "\n") != std::string::npos;
  }

  std::unique_ptr<NativeMetrics> metrics_;
};

TEST_F(NativeMetricsTest, ShowNothingBeforeTheFirstRequestThenAllRanks) {
  Make(EngineType::kVllm);
  auto load = Load(1);
  load.requests_running = 3;
  metrics_->OnLoad(load);
  EXPECT_EQ(metrics_->Scrape(), "");
  EXPECT_TRUE(metrics_->Bind("m"));
  EXPECT_TRUE(Shows(R"(vllm:num_requests_running{engine="0",model_name="m"} 0)"));
  EXPECT_TRUE(Shows(R"(vllm:num_requests_running{engine="1",model_name="m"} 3)"));
}

TEST_F(NativeMetricsTest, HaveTheNamesAndHelpTextsOfVllm) {
  Make(EngineType::kVllm);
  metrics_->Bind("m");
  const std::map<std::string, std::string> expected = {
      {"vllm:num_requests_running", "Number of requests currently running on GPU.|gauge"},
      {"vllm:num_requests_waiting", "Number of requests waiting to be processed.|gauge"},
      {"vllm:kv_cache_usage_perc", "KV-cache usage as a fraction of available cache blocks.|gauge"},
      {"vllm:gpu_cache_usage_perc",
       "Compatibility alias for KV-cache usage as a fraction of available cache blocks.|gauge"},
      {"vllm:num_preemptions_total", "Cumulative number of request preemptions.|counter"},
      {"vllm:time_to_first_token_seconds",
       "Histogram of time to first token in seconds.|histogram"},
      {"vllm:inter_token_latency_seconds",
       "Histogram of inter-token latency in seconds.|histogram"},
      {"vllm:e2e_request_latency_seconds",
       "Histogram of e2e request latency in seconds.|histogram"},
  };
  EXPECT_EQ(Families(metrics_->Scrape()), expected);
}

TEST_F(NativeMetricsTest, AreCalledTrtllmForThatEngine) {
  Make(EngineType::kTrtllm);
  metrics_->Bind("m");
  const auto families = Families(metrics_->Scrape());
  EXPECT_EQ(families.size(), 8U);
  EXPECT_EQ(families.at("trtllm:num_preemptions_total"),
            "Cumulative number of request preemptions (always 0 under "
            "GUARANTEED_NO_EVICT).|counter");
}

TEST_F(NativeMetricsTest, OfSglangAreSumsWithTwoSetsOfLabels) {
  Make(EngineType::kSglang);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    auto load = Load(rank);
    load.requests_running = 2 + rank;
    load.requests_waiting = 1;
    load.cache_hit_tokens = 10;
    load.cache_total_tokens = 20 + 20 * rank;
    metrics_->OnLoad(load);
  }
  metrics_->Bind("m");
  const std::string scheduler =
      R"({engine_type="sglang",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} )";
  EXPECT_TRUE(Shows("sglang:num_running_reqs" + scheduler + "5"));
  EXPECT_TRUE(Shows("sglang:num_queue_reqs" + scheduler + "2"));
  EXPECT_EQ(Families(metrics_->Scrape()).size(), 7U);
  metrics_->Completed(RankIndex{1}, 0.3);
  EXPECT_TRUE(Shows(R"(sglang:num_requests_total{engine_type="sglang",model_name="m"} 1)"));
  EXPECT_NE(metrics_->Scrape().find("sglang:cache_hit_rate" + scheduler + "0.333"),
            std::string::npos);
  metrics_->OnLoad(Load(0));  // a pass without prompt tokens: the other rank's counts
  EXPECT_TRUE(Shows("sglang:cache_hit_rate" + scheduler + "0.25"));
  metrics_->OnLoad(Load(1));  // no rank has any: the last value stays
  EXPECT_TRUE(Shows("sglang:cache_hit_rate" + scheduler + "0.25"));
}

TEST_F(NativeMetricsTest, KeepTheFirstName) {
  Make(EngineType::kVllm, 1);
  EXPECT_FALSE(metrics_->Bind("  "));
  EXPECT_EQ(metrics_->Scrape(), "");
  EXPECT_TRUE(metrics_->Bind(" first "));
  EXPECT_TRUE(metrics_->Bind("second"));
  EXPECT_NE(metrics_->Scrape().find(R"(model_name="first")"), std::string::npos);
  EXPECT_EQ(metrics_->Scrape().find(R"(model_name="second")"), std::string::npos);
}

TEST_F(NativeMetricsTest, PreemptionsOnlyGrow) {
  Make(EngineType::kVllm, 1);
  metrics_->Bind("m");
  for (const std::uint64_t seen : {3U, 3U, 2U, 5U}) {
    auto load = Load(0);
    load.preemptions_total = seen;
    metrics_->OnLoad(load);
    static_cast<void>(metrics_->Scrape());
  }
  EXPECT_TRUE(Shows(R"(vllm:num_preemptions_total{engine="0",model_name="m"} 5)"));
}

TEST_F(NativeMetricsTest, UsageIsActiveOverAllBlocks) {
  Make(EngineType::kVllm, 1);
  metrics_->Bind("m");
  EXPECT_TRUE(Shows(R"(vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0)"));
  auto load = Load(0);
  load.blocks_active = 16;
  load.blocks_total = 64;
  metrics_->OnLoad(load);
  EXPECT_TRUE(Shows(R"(vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25)"));
  EXPECT_TRUE(Shows(R"(vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.25)"));
}

TEST_F(NativeMetricsTest, TimesGoIntoTheBucketsOfTheEngine) {
  Make(EngineType::kVllm, 1);
  metrics_->Bind("m");
  metrics_->FirstToken(RankIndex{0}, 0.03);
  metrics_->NextTokens(RankIndex{0}, 3, 0.02);
  metrics_->Completed(RankIndex{0}, 0.4);
  const auto line = [](const char* name, const char* le) {
    return std::string("vllm:") + name + R"(_bucket{engine="0",model_name="m",le=")" + le + "\"} ";
  };
  EXPECT_TRUE(Shows(line("time_to_first_token_seconds", "0.02") + "0"));
  EXPECT_TRUE(Shows(line("time_to_first_token_seconds", "0.04") + "1"));
  EXPECT_TRUE(Shows(line("time_to_first_token_seconds", "2560") + "1"));
  EXPECT_TRUE(Shows(line("inter_token_latency_seconds", "0.025") + "3"));
  EXPECT_TRUE(Shows(line("e2e_request_latency_seconds", "0.5") + "1"));
  EXPECT_TRUE(Shows(line("e2e_request_latency_seconds", "7680") + "1"));
}

TEST_F(NativeMetricsTest, WorkersOfAProcessAreShownTogether) {
  Make(EngineType::kVllm, 2, 3);
  metrics_->Bind("m");
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    auto load = Load(rank);
    load.requests_running = 1 + rank % 2;
    metrics_->OnLoad(load);
  }
  EXPECT_TRUE(Shows(R"(vllm:num_requests_running{engine="0",model_name="m"} 3)"));
  EXPECT_TRUE(Shows(R"(vllm:num_requests_running{engine="1",model_name="m"} 6)"));
}

TEST(NativeMetricsOfPrefill, AreNeverShown) {
  const auto metrics = NativeMetrics::New({EngineType::kVllm, 1, 1, true});
  EXPECT_FALSE(metrics->Bind("m"));
  EXPECT_EQ(metrics->Scrape(), "");
}

}  // namespace
}  // namespace understudy::worker
