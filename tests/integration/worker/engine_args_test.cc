// The engine as flags and as --extra-engine-args describe it, and planned answers. Source:
// engine.md 1, mission.md A.6; M-082 to M-097.
#include "tests/integration/worker/worker_test.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using Ids = std::vector<std::uint32_t>;

class EngineArgs : public WorkerTest {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const auto path = folder().path() + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  /// The runtime configuration on the card, and the block size.
  nlohmann::json Card() {
    for (const auto& file : Records("mdc")) {
      std::ifstream in(folder().path() + "/v1/mdc/" + file);
      const auto record = nlohmann::json::parse(in, nullptr, false);
      auto card = record.value("card_json", nlohmann::json::object());
      auto runtime = card.value("runtime_config", nlohmann::json::object());
      runtime["kv_cache_block_size"] = card.value("kv_cache_block_size", 0);
      return runtime;
    }
    return {};
  }
  void ExpectExit(const Arguments& arguments, int code, const std::string& text) {
    const auto worker = Launch(arguments);
    EXPECT_EQ(worker->WaitExit(), code) << worker->err();
    EXPECT_NE(worker->err().find(text), std::string::npos) << worker->err();
    EXPECT_EQ(worker->out(), "");
  }
};

TEST_F(EngineArgs, EveryEngineServesAndItsCardTellsItsSizes) {
  const std::vector<std::pair<std::string, int>> engines = {
      {"vllm", 64}, {"sglang", 1}, {"trtllm", 32}};
  for (const auto& [engine, block_size] : engines) {
    const auto worker =
        Start(kFree + Arguments{"--engine-type", engine, "--num-gpu-blocks-override", "4000"});
    EXPECT_EQ(WhyNotServing(*worker), "") << engine;
    const auto card = Card();
    EXPECT_EQ(card["kv_cache_block_size"], block_size) << engine;
    EXPECT_EQ(card["total_kv_blocks"], 4000) << engine;
    EXPECT_EQ(card["max_num_seqs"], 256) << engine;
    EXPECT_EQ(card["runtime_data"]["output_replay_consumer"], true) << engine;
    worker->Signal(SIGTERM);
    EXPECT_EQ(worker->WaitExit(), 0) << engine;
  }
}

// Nested for the engine of 1.6, which is the default, flat for that of 1.3.
TEST_F(EngineArgs, AFileReplacesTheFlags) {
  const Arguments replaced = {"--engine-type",
                              "sglang",
                              "--num-gpu-blocks-override",
                              "9",
                              "--speedup-ratio",
                              "0.00001",
                              "--extra-engine-args"};
  const auto nested = Write("nested.json",
                            R"({"engine":{"backend":"trtllm","num_gpu_blocks":300,)"
                            R"("speedup_ratio":0},"dp_size":2})");
  const auto flat = Write("flat.json",
                          R"({"engine_type":"trtllm","max_num_seqs":null,"num_gpu_blocks":300,)"
                          R"("speedup_ratio":0,"dp_size":2,"num_g2_blocks":5})");
  {
    const auto worker = Start(replaced + Arguments{nested});
    EXPECT_EQ(WhyNotServing(*worker), "");
    const auto card = Card();
    EXPECT_EQ(card["kv_cache_block_size"], 32);
    EXPECT_EQ(card["total_kv_blocks"], 300);
    EXPECT_EQ(card["data_parallel_size"], 2);
    worker->Signal(SIGTERM);
    EXPECT_EQ(worker->WaitExit(), 0);
  }
  ExpectExit(replaced + Arguments{flat}, 1, "these are flat arguments, of release 1.3");
  ExpectExit(replaced + Arguments{nested, "--dynamo-release", "1.3"},
             1,
             "these are nested arguments, of release 1.6");
  const auto worker = Start(replaced + Arguments{flat, "--engine-semantics", "1.3"});
  EXPECT_EQ(WhyNotServing(*worker), "");
  const auto card = Card();
  EXPECT_EQ(card["kv_cache_block_size"], 32);
  EXPECT_EQ(card["total_kv_blocks"], 300);
  EXPECT_EQ(card["max_num_seqs"], 256);
  EXPECT_EQ(card["data_parallel_size"], 2);
  EXPECT_TRUE(worker->WaitErr("num_g2_blocks has no effect"));
}

TEST_F(EngineArgs, TheEngineOfTheNewReleaseServesAndEndsAtTheModelsLength) {
  const auto worker = Start(kFree + Arguments{"--max-model-len", "45"});
  const auto whole = Send(*worker, 30, 10);
  ASSERT_TRUE(whole->WaitClosed());
  EXPECT_EQ(whole->tokens().size(), 10U);
  const auto cut = Send(*worker, 40, 10);
  ASSERT_TRUE(cut->WaitClosed());
  EXPECT_EQ(cut->tokens().size(), 5U);
  EXPECT_EQ(WhyNotServing(*worker), "");
  ExpectExit({"--max-model-len", "0"}, 1, "max_model_len must be positive (--max-model-len)");
}

TEST_F(EngineArgs, RanksOfTheNewReleaseServeTogether) {
  for (const char* type : {"vllm", "sglang"}) {
    const auto worker =
        Start(kFree + Arguments{"--engine-type", type, "--data-parallel-size", "2"});
    const auto first = Send(*worker, 30, 10);
    const auto second = Send(*worker, 40, 5);
    ASSERT_TRUE(first->WaitClosed());
    ASSERT_TRUE(second->WaitClosed());
    EXPECT_EQ(first->tokens().size(), 10U);
    EXPECT_EQ(second->tokens().size(), 5U);
    EXPECT_EQ(WhyNotServing(*worker), "");
  }
}

// The second prompt is pushed out by the growth of the first answer while a part of it is computed,
// which is in the cache when its turn comes again.
TEST_F(EngineArgs, UsageTellsOfTheCacheAtTheFirstAdmission) {
  const auto worker = Start({"--num-gpu-blocks-override",
                             "100",
                             "--block-size",
                             "4",
                             "--max-num-batched-tokens",
                             "2",
                             "--max-num-seqs",
                             "2",
                             "--speedup-ratio",
                             "2"});
  const auto growing = Send(*worker, 8, 380);
  ASSERT_TRUE(growing->WaitTokens(1));
  auto spec = Spec(*worker, 0, 2);
  spec.request.token_ids = Prompt(200, 7);
  const auto late = frontend().Send(spec);
  ASSERT_TRUE(growing->WaitClosed());
  ASSERT_TRUE(late->WaitClosed());
  EXPECT_EQ(growing->tokens().size(), 380U);
  EXPECT_EQ(late->tokens().size(), 2U);
  EXPECT_GE(worker->Metric("vllm:num_preemptions_total"), 1);
  ASSERT_TRUE(late->usage());
  EXPECT_EQ(late->usage()->cached_tokens, 0U);
}

TEST_F(EngineArgs, AThinkingSpanSurroundsTheFirstTokens) {
  const auto worker = Start(
      kFree +
      Arguments{
          "--reasoning",
          R"({"start_thinking_token_id":11,"end_thinking_token_id":12,"thinking_ratio":0.6})"});
  const auto call = Send(*worker, 40, 10);
  ASSERT_TRUE(call->WaitClosed());
  const auto tokens = call->tokens();
  ASSERT_EQ(tokens.size(), 10U);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i == 0 || i == 5) {
      EXPECT_EQ(tokens[i], i == 0 ? 11U : 12U);
    } else {
      EXPECT_GE(tokens[i], 1000U) << i;
    }
  }
}

TEST_F(EngineArgs, DraftTokensComeInBursts) {
  const auto worker = Start({"--aic-nextn", "3", "--aic-nextn-accept-rates", "1,1,1"});
  const auto call = Send(*worker, 40, 41);
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->WhyNotWhole(41), "");
  const auto passes = worker->Metric("understudy_engine_passes");
  ASSERT_TRUE(passes);
  EXPECT_LE(*passes, 12) << "four tokens a pass";
}

class PlannedAnswers : public EngineArgs {
 protected:
  Ids Ask(const WorkerProcess& worker,
          const std::string& key,
          std::uint32_t max_tokens,
          PayloadCodec codec = PayloadCodec::kJson) {
    auto spec = Spec(worker, 40, max_tokens, codec);
    spec.request.annotations = {"output_replay_id:" + key};
    const auto call = frontend().Send(spec);
    EXPECT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->error(), "");
    EXPECT_EQ(call->WhyNotWhole(static_cast<std::uint32_t>(call->tokens().size())), "");
    return call->tokens();
  }
};

// The recorded run of a 1.3.0 worker with the same file and the same thinking span.
TEST_F(PlannedAnswers, AreSaidAsTheyAre) {
  const auto trace = Write(
      "trace.jsonl",
      R"({"request_id": "explicit", "session_id": "s", "output_length": 2, "output_token_ids": [7, 8]})"
      "\n\n"
      R"({"session_id": "s", "output_length": 1, "output_token_ids": [9]})"
      "\n"
      R"({"output_tokens": 1, "output_token_ids": [10]})"
      "\n"
      R"({"request_id": "noids", "output_length": 5})"
      "\n");
  const auto worker = Start(
      kFree +
      Arguments{
          "--response-replay-trace-path",
          trace,
          "--reasoning",
          R"({"start_thinking_token_id":11,"end_thinking_token_id":12,"thinking_ratio":0.6})"});
  EXPECT_TRUE(worker->WaitErr("loaded response replay token table rows=3"));
  EXPECT_EQ(Ask(*worker, "explicit", 9), (Ids{7, 8}));
  EXPECT_EQ(Ask(*worker, "explicit", 1), (Ids{7, 8}));
  EXPECT_EQ(Ask(*worker, "s:1", 2, PayloadCodec::kMsgpack), (Ids{9}));
  EXPECT_EQ(Ask(*worker, "line:3", 2), (Ids{10}));
  EXPECT_EQ(Ask(*worker, "line:2", 2), (Ids{11, 12})) << "not there: as if not asked";
  EXPECT_EQ(Ask(*worker, "noids", 2), (Ids{11, 12}));
  EXPECT_TRUE(worker->WaitMetric("understudy_replay_misses_total", 2, "unknown_key"));
  EXPECT_EQ(worker->CountErr("key was not found"), 1U) << "said once";
}

TEST_F(PlannedAnswers, WithoutATraceAreOrdinaryOnes) {
  const auto worker = Start(kFree);
  EXPECT_EQ(Ask(*worker, "a", 3).size(), 3U);
  EXPECT_EQ(Ask(*worker, "a", 3).size(), 3U);
  EXPECT_TRUE(worker->WaitMetric("understudy_replay_misses_total", 2, "no_trace"));
  EXPECT_EQ(worker->CountErr("has no response replay trace"), 1U) << "said once";
}

TEST_F(PlannedAnswers, OfATraceThatCannotBeReadEndTheStart) {
  const auto bad = Write("bad.jsonl", "{\"output_length\":2,\"output_token_ids\":[1]}\n");
  ExpectExit({"--response-replay-trace-path", bad},
             1,
             "failed to load response replay trace " + bad +
                 ": response replay trace line 1 output_length 2 does not match output_token_ids "
                 "length 1");
  ExpectExit({"--response-replay-trace-path", "/none.jsonl"},
             1,
             "failed to open response replay trace /none.jsonl: No such file or directory");
}

TEST_F(EngineArgs, WhatIsWrongIsNamedInOneLine) {
  ExpectExit({"--engine-type", "other"}, 2, "--engine-type");
  ExpectExit({"--sglang-schedule-policy", "random"}, 2, "--sglang-schedule-policy");
  ExpectExit(
      {"--trtllm-capacity-scheduler-policy", "max"}, 2, "--trtllm-capacity-scheduler-policy");
  ExpectExit({"--kv-cache-dtype", "int3"}, 2, "--kv-cache-dtype");
  ExpectExit({"--num-g2-blocks", "-1"}, 2, "--num-g2-blocks: must be non-negative, got -1");
  ExpectExit({"--bandwidth-g1-to-g2-gbps", "-1.5"},
             2,
             "--bandwidth-g1-to-g2-gbps: must be non-negative, got -1.5");
  ExpectExit({"--aic-mtp-seed", "-1"}, 2, "--ais-mtp-seed: must be non-negative, got -1");
  ExpectExit({"--aic-mtp-seed", "18446744073709551616"},
             2,
             "--ais-mtp-seed: must be a whole number up to 18446744073709551615, got "
             "18446744073709551616");
  ExpectExit({"--num-g2-blocks", "many"}, 2, "--num-g2-blocks: must be a whole number");
  const Arguments of_13 = {"--engine-semantics", "1.3"};
  ExpectExit(of_13 + Arguments{"--bandwidth-g1-to-g2-gbps", "nan"},
             1,
             "bandwidth_g1_to_g2_gbps must be finite and non-negative, got NaN");
  ExpectExit({"--bandwidth-g1-to-g2-gbps", "1"},
             1,
             "--bandwidth-g1-to-g2-gbps is a flag of release 1.3; in 1.6 --num-host-blocks");
  ExpectExit({"--aic-nextn", "6"}, 1, "(--aic-nextn)");
  ExpectExit({"--reasoning", "{}"}, 1, "--reasoning: missing field `start_thinking_token_id`");
  const Arguments no_page = {"--engine-type", "sglang", "--sglang-page-size", "0"};
  ExpectExit(of_13 + no_page, 1, "block_size must be greater than 0");
  ExpectExit(no_page, 1, "block_size must be positive (--block-size)");
  ExpectExit({"--aic-perf-model"}, 1, "give --latency-model");
  ExpectExit({"--extra-engine-args", "/none.json"},
             1,
             "--extra-engine-args /none.json: cannot be read: No such file or directory");
  const auto file = Write("args.json", R"({"block_size": 16} true)");
  ExpectExit(of_13 + Arguments{"--extra-engine-args", file},
             1,
             "error: --extra-engine-args " + file +
                 ": Failed to parse MockEngineArgs JSON: trailing characters at line 1 column 20");
  const auto nested = Write("nested.json", R"({"engine":{"block_size": 16}} true)");
  ExpectExit({"--extra-engine-args", nested},
             1,
             "error: --extra-engine-args " + nested + ": trailing characters at line 1 column 31");
}

}  // namespace
}  // namespace understudy::worker
