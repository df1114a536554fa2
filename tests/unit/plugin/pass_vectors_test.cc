// Pass by pass against runs of the original scheduler: tests/vectors/engine/pass_vllm_*.json,
// recorded with dynamo-mocker 1.3.0 linked into a small program. Each holds for our defaults and
// for the strict reference.
#include "tests/unit/plugin/golden_case.h"
#include "tests/unit/plugin/pass_case.h"

#include <tuple>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using Json = nlohmann::json;

constexpr double kDurationTolerance = 1e-6;  // relative

class PassVectors : public ::testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  PassVectors()
      : case_(LoadGoldenCase("pass_" + std::string(std::get<0>(GetParam())))),
        rank_(case_["engine_args"], std::get<1>(GetParam())) {}

  /// Passes without work were not recorded: what would come later comes when there is nothing else
  /// to do.
  void SubmitVisibleFrom(std::size_t pass) {
    for (; submitted_ < case_["requests"].size(); ++submitted_) {
      const Json& row = case_["requests"][submitted_];
      if (row.value("visible_from_pass", std::size_t{0}) > pass && rank_.scheduler().HasWork()) {
        return;
      }
      rank_.scheduler().Submit(GoldenRequest(case_, submitted_));
    }
  }

  /// The recorded engine drew the output tokens itself.
  bool TokensAreRandom() const { return case_["name"] == "pass_trtllm_clamp"; }

  std::string NameOf(RequestId id) const { return case_["requests"][Value(id) - 1]["id"]; }

  void ExpectEvents(const Json& expected, const PassOutput& output) {
    const std::vector<std::string> want = TextOf(expected["kv_events"]);
    const std::vector<std::string> got = TextOf(output.events);
    if (TokensAreRandom()) {  // and with them the hashes of generated blocks
      EXPECT_EQ(got.size(), want.size());
      return;
    }
    EXPECT_EQ(got, want);
  }

  void ExpectOutputs(const Json& expected, const PassOutput& output) {
    ASSERT_EQ(output.outputs.size(), expected["outputs"].size());
    for (std::size_t i = 0; i < output.outputs.size(); ++i) {
      const Json& want = expected["outputs"][i];
      const engine::Output& got = output.outputs[i];
      EXPECT_EQ(NameOf(got.id), want["id"]);
      EXPECT_EQ(got.kind != engine::OutputKind::kToken, want["completed"].get<bool>());
      EXPECT_EQ(got.kind == engine::OutputKind::kRejected, want.value("rejected", false));
      if (!want["token_id"].is_null() && !TokensAreRandom()) {
        EXPECT_EQ(got.token, want["token_id"]);
      }
    }
  }

  void ExpectLoad(const Json& want) {
    const engine::Load load = rank_.scheduler().load();
    EXPECT_EQ(load.blocks_active, want["active_decode_blocks"]);
    EXPECT_EQ(load.blocks_total, want["total_blocks"]);
    EXPECT_EQ(load.requests_running, want["running_requests"]);
    EXPECT_EQ(load.requests_waiting, want["waiting_requests"]);
    EXPECT_EQ(load.preemptions_total, want["vllm_preemptions_total"]);
    EXPECT_EQ(load.cache_hit_tokens, want["sglang_cache_hit_tokens"]);
    EXPECT_EQ(load.cache_total_tokens, want["sglang_cache_total_tokens"]);
  }

  const Json case_;
  GoldenRank rank_;
  std::size_t submitted_ = 0;
};

TEST_P(PassVectors, EveryPassIsTheOriginals) {
  PassOutput output;
  const Json& passes = case_["passes"];
  ASSERT_FALSE(passes.empty());
  for (std::size_t i = 0; i < passes.size(); ++i) {
    SCOPED_TRACE("pass " + std::to_string(i));
    SubmitVisibleFrom(i);
    rank_.scheduler().RunPass(output);
    const double want_ms = passes[i]["modelled_duration_ms"];
    EXPECT_NEAR(static_cast<double>(output.duration().count()) / 1e6,
                want_ms,
                want_ms * kDurationTolerance);
    ExpectEvents(passes[i], output);
    ExpectOutputs(passes[i], output);
    ExpectLoad(passes[i]["metrics"]);
    ExpectStats(passes[i]["fpm"], output.stats);
    EXPECT_EQ(rank_.scheduler().CheckConsistency(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded,
                         PassVectors,
                         ::testing::Combine(::testing::Values("vllm_single_partial",
                                                              "vllm_single_aligned",
                                                              "vllm_prefix_reuse",
                                                              "vllm_prefix_active_share",
                                                              "vllm_chunked",
                                                              "vllm_no_chunk",
                                                              "vllm_max_num_seqs",
                                                              "vllm_preempt_lifo",
                                                              "vllm_preempt_fifo",
                                                              "vllm_reject",
                                                              "vllm_wait_gate",
                                                              "vllm_evict_order",
                                                              "vllm_no_prefix_cache",
                                                              "vllm_token_ids",
                                                              "vllm_prefill_worker",
                                                              "vllm_decode_worker",
                                                              "vllm_speedup10",
                                                              "vllm_mtp_rate1",
                                                              "trtllm_no_evict",
                                                              "trtllm_clamp",
                                                              "trtllm_reject",
                                                              "sglang_single",
                                                              "sglang_page1",
                                                              "sglang_prefix_reuse",
                                                              "sglang_chunked",
                                                              "sglang_retract",
                                                              "sglang_evict"),
                                            ::testing::Bool()),
                         [](const auto& p) {
                           return std::string(std::get<0>(p.param)) +
                                  (std::get<1>(p.param) ? "_strict" : "_ours");
                         });

}  // namespace
}  // namespace understudy::mocker
