// Pass by pass against runs of release 1.6's engine: tests/vectors/engine-1.6/pass_*.json, recorded
// with aisimulate-core 0.13.0 linked into a small program. Commands between passes and inside them
// are part of the scenarios.
#include "tests/unit/plugin/golden16.h"
#include "tests/unit/plugin/golden_case.h"
#include "tests/unit/plugin/pass_case.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using Json = nlohmann::json;

constexpr double kDurationTolerance = 1e-6;  // relative

class Pass16Vectors : public ::testing::TestWithParam<const char*> {
 protected:
  Pass16Vectors()
      : case_(LoadGoldenCase("pass_" + std::string(GetParam()), "engine-1.6")),
        worker_(case_["engine_args"]) {}

  std::size_t IndexOf(const Json& id) const {
    for (std::size_t i = 0; i < case_["requests"].size(); ++i) {
      if (case_["requests"][i]["id"] == id) {
        return i;
      }
    }
    ADD_FAILURE() << "no request " << id;
    return 0;
  }

  std::string NameOf(RequestId id) const { return case_["requests"][Value(id) - 1]["id"]; }

  RankScheduler& RankOf(const Json& row) {
    return worker_.rank(row.value("dp_rank", std::size_t{0}));
  }

  void SubmitVisibleFrom(std::size_t pass) {
    for (std::size_t i = 0; i < case_["requests"].size(); ++i) {
      const Json& row = case_["requests"][i];
      if (!row.contains("submitted_by_command") &&
          row.value("visible_from_pass", std::size_t{0}) == pass) {
        RankOf(row).Submit(GoldenRequest(case_, i));
      }
    }
  }

  void Command(const Json& want, CommandOutput& output) {
    const std::string name = want["command"];
    const std::size_t index = IndexOf(want["id"]);
    const RequestId id{index + 1};
    RankScheduler& rank = worker_.rank(0);
    bool applied = true;
    if (name == "reserve_destination") {
      const Status status = rank.ReserveDestination(GoldenRequest(case_, index), false, output);
      ASSERT_EQ(status.has_value(), !want.contains("error"));
      if (!status) {
        const std::string text = want["error"];
        EXPECT_NE(text.find(status.error().message), std::string::npos) << status.error().message;
        return;
      }
    } else if (name == "submit_handoff_prefill") {
      rank.SubmitSource(GoldenRequest(case_, index));
    } else if (name == "activate_destination") {
      applied = rank.ActivateDestination(id, output);
    } else if (name == "cancel_destination") {
      applied = rank.CancelDestination(id, output);
    } else if (name == "release_source") {
      applied = rank.ReleaseSource(id, output);
    } else {
      applied = rank.Cancel(id, output);
    }
    EXPECT_EQ(applied, want["result"] != "noop");
  }

  void RunCommands(const Json& step, const char* when) {
    if (!step.contains(when)) {
      return;
    }
    for (const Json& want : step[when]) {
      if (want.contains("internal_work_at_ms")) {
        CommandOutput output;
        worker_.rank(0).CompleteTransfers(TimeOf(want["internal_work_at_ms"]), output);
        EXPECT_EQ(TextOf(output.events), TextOf(want["kv_events"]));
        continue;
      }
      SCOPED_TRACE(want["command"].get<std::string>() + " " + want["id"].get<std::string>());
      CommandOutput output;
      Command(want, output);
      if (want.contains("kv_events")) {
        EXPECT_EQ(TextOf(output.events), TextOf(want["kv_events"]));
        ExpectLoad(want["metrics"], worker_.rank(0));
        ExpectNotices(want["lifecycle"], output.notices);
      }
      EXPECT_EQ(worker_.rank(0).CheckConsistency(), "");
    }
  }

  void ExpectNotices(const Json& want, const std::vector<HandoffNotice>& got) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(NameOf(got[i].id), want[i]["id"]);
      const bool reserved = want[i]["type"] == "destination_reserved";
      EXPECT_EQ(got[i].kind == HandoffNotice::Kind::kDestinationReserved, reserved);
      if (reserved) {
        EXPECT_EQ(got[i].tokens, want[i]["transferable_prompt_tokens"]);
      }
    }
  }

  void ExpectOutputs(const Json& want, const std::vector<engine::Output>& got) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      using engine::OutputKind;
      EXPECT_EQ(NameOf(got[i].id), want[i]["id"]);
      EXPECT_EQ(got[i].kind != OutputKind::kToken, want[i]["completed"].get<bool>());
      EXPECT_EQ(got[i].kind == OutputKind::kRejected, want[i].value("rejected", false));
      const bool has_token =
          got[i].kind == OutputKind::kToken || got[i].kind == OutputKind::kLastToken;
      EXPECT_EQ(has_token, !want[i]["token_id"].is_null());
      if (want[i].contains("cached_tokens")) {  // those of its first admission
        EXPECT_EQ(cached_.at(want[i]["id"]), want[i]["cached_tokens"]);
      }
      const Json& row = case_["requests"][IndexOf(want[i]["id"])];
      if (has_token && row.contains("output_token_ids")) {
        EXPECT_EQ(got[i].token, want[i]["token_id"]);
      }
    }
  }

  void ExpectLoad(const Json& want, const RankScheduler& rank) {
    const engine::Load load = rank.load();
    EXPECT_EQ(load.blocks_active, want["active_decode_blocks"]);
    if (!sglang_) {  // there the original counts what is cached as active
      EXPECT_EQ(rank.blocks().cached, want["inactive_blocks"]);
    }
    EXPECT_EQ(load.cache_hit_tokens, want["sglang_cache_hit_tokens"]);
    EXPECT_EQ(load.cache_total_tokens, want["sglang_cache_total_tokens"]);
    EXPECT_EQ(load.blocks_total, want["total_blocks"]);
    EXPECT_EQ(load.requests_running, want["running_requests"]);
    EXPECT_EQ(load.requests_waiting, want["waiting_requests"]);
    EXPECT_EQ(load.preemptions_total, want["vllm_preemptions_total"]);
  }

  /// What a cancel inside a pass takes back: the outputs of the request.
  void DropCancelled(const Json& step, std::vector<engine::Output>& outputs) {
    if (!step.contains("during_pass")) {
      return;
    }
    for (const Json& command : step["during_pass"]) {
      const RequestId id{IndexOf(command["id"]) + 1};
      std::erase_if(outputs, [&](const engine::Output& output) { return output.id == id; });
    }
  }

  void RunPass(const Json& step) {
    std::vector<PassOutput> outputs(worker_.group().ranks().size());
    std::vector<PassOutput*> places;
    for (PassOutput& output : outputs) {
      places.push_back(&output);
    }
    worker_.group().RunPass(TimeOf(step["start_ms"]), places);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      SCOPED_TRACE("rank " + std::to_string(i));
      CheckRank(step.contains("by_rank") ? step["by_rank"][i] : step,
                TimeOf(step["end_ms"]),
                worker_.rank(i),
                outputs[i]);
    }
  }

  static Nanoseconds TimeOf(const Json& ms) {
    return Nanoseconds(std::llround(ms.get<double>() * 1e6));
  }

  void CheckRank(const Json& step, Nanoseconds end, RankScheduler& rank, PassOutput& output) {
    const double want_ms = step["modelled_duration_ms"];
    EXPECT_NEAR(static_cast<double>(output.duration().count()) / 1e6,
                want_ms,
                want_ms * kDurationTolerance);
    if (step.value("participated", true)) {
      EXPECT_TRUE(output.events_at_end);
    }
    ExpectStats(step["fpm"], output.stats);
    RunCommands(step, "during_pass");
    DropCancelled(step, output.outputs);
    ExpectAdmissions(step["admissions"], output.admissions);
    ExpectOutputs(step["outputs"], output.outputs);
    EXPECT_EQ(rank.CheckConsistency(), "");
    CommandOutput retried;
    rank.EndPass(end, retried);
    rank.RetryDestination(retried);
    output.events.insert(output.events.end(), retried.events.begin(), retried.events.end());
    output.notices.insert(output.notices.end(), retried.notices.begin(), retried.notices.end());
    EXPECT_EQ(TextOf(output.events), TextOf(step["kv_events"]));
    ExpectNotices(step.value("lifecycle", Json::array()), output.notices);
    ExpectLoad(step["metrics"], rank);
  }

  void ExpectAdmissions(const Json& want, const std::vector<engine::Admission>& got) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(NameOf(got[i].id), want[i]["id"]);
      EXPECT_EQ(got[i].cached_tokens, want[i]["reused_input_tokens"]);
      cached_.try_emplace(want[i]["id"], got[i].cached_tokens);
    }
  }

  const Json case_;
  const bool sglang_ = case_["engine_args"]["engine"].value("backend", "vllm") == "sglang";
  Golden16Worker worker_;
  std::map<std::string, std::uint32_t> cached_;  ///< of first admissions
};

/// A pass without effects; SGLang's may count something down first.
void ExpectStuck(RankScheduler& rank) {
  PassOutput output;
  for (int i = 0; i < 1024; ++i) {
    rank.RunPass(output);
    EXPECT_EQ(output.duration().count(), 0);
    EXPECT_TRUE(output.outputs.empty());
    if (!output.progressed) {
      break;
    }
  }
  EXPECT_FALSE(output.progressed);
  EXPECT_TRUE(rank.HasWork());
}

TEST_P(Pass16Vectors, EveryPassIsTheOriginals) {
  std::size_t next = 0;  // passes without a record were idle
  for (const Json& step : case_["passes"]) {
    if (step.contains("stuck_from_pass")) {
      ExpectStuck(worker_.rank(0));
      break;
    }
    const auto pass = step["pass"].get<std::size_t>();
    SCOPED_TRACE("pass " + std::to_string(pass));
    for (; next <= pass; ++next) {
      SubmitVisibleFrom(next);
    }
    RunCommands(step, "before_pass");
    if (!step.contains("idle")) {
      RunPass(step);
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<const char*>& scenario) {
  return scenario.param;
}

INSTANTIATE_TEST_SUITE_P(Vllm,
                         Pass16Vectors,
                         ::testing::Values("vllm_single_partial",
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
                                           "vllm_speedup0",
                                           "vllm_speedup10",
                                           "vllm_mtp_rate1",
                                           "vllm_mtp_prefix",
                                           "vllm_duplicate_copies",
                                           "vllm_fully_cached",
                                           "vllm_fixed_timing",
                                           "vllm_decode_clamp",
                                           "vllm_max_model_len",
                                           "vllm_outgrown",
                                           "vllm_outgrown_exact",
                                           "vllm_queue_order",
                                           "vllm_recompute_chunk",
                                           "vllm_zero_output",
                                           "vllm_cancel_last_output",
                                           "vllm_cancel_mid_pass",
                                           "vllm_cancel_running",
                                           "vllm_cancel_waiting",
                                           "vllm_handoff_cancel",
                                           "vllm_handoff_destination",
                                           "vllm_handoff_destination_deadlock",
                                           "vllm_handoff_destination_prefix",
                                           "vllm_handoff_source",
                                           "vllm_host_offload",
                                           "vllm_host_offload_cancel_load",
                                           "vllm_host_offload_fence",
                                           "vllm_host_offload_latency",
                                           "vllm_host_offload_small",
                                           "vllm_host_offload_unlimited",
                                           "vllm_dp2_barrier",
                                           "vllm_dp2_prefill_interval"),
                         NameOf);

INSTANTIATE_TEST_SUITE_P(Sglang,
                         Pass16Vectors,
                         ::testing::Values("sglang_cancel",
                                           "sglang_chunked",
                                           "sglang_decode_interval",
                                           "sglang_evict",
                                           "sglang_handoff_destination",
                                           "sglang_lpm",
                                           "sglang_max_model_len",
                                           "sglang_mtp_rate1",
                                           "sglang_never_fits",
                                           "sglang_no_prefix_cache",
                                           "sglang_page1",
                                           "sglang_prefill_first",
                                           "sglang_prefill_worker",
                                           "sglang_prefix_reuse",
                                           "sglang_retract",
                                           "sglang_single",
                                           "sglang_zero_output"),
                         NameOf);

INSTANTIATE_TEST_SUITE_P(Trtllm,
                         Pass16Vectors,
                         ::testing::Values("trtllm_cancel",
                                           "trtllm_clamp",
                                           "trtllm_fully_cached",
                                           "trtllm_handoff_destination",
                                           "trtllm_max_model_len",
                                           "trtllm_no_evict",
                                           "trtllm_reject"),
                         NameOf);

}  // namespace
}  // namespace understudy::mocker
