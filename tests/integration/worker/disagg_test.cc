// A prompt computed by one worker, its output by another. Source: mission.md A.8, A.9, C;
// vectors/disagg; M-206 to M-214, C-070 to C-079.
#include "tests/integration/worker/disagg_case.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using nlohmann::json;

class Handoff : public HandoffTest {
 protected:
  /// The card that the only worker of a component has written.
  [[nodiscard]] json CardOf(const std::string& component) const {
    for (const auto& name : Records("mdc")) {
      if (name.find("%2F" + component + "%2F") != std::string::npos) {
        std::ifstream file(folder().path() + "/v1/mdc/" + name);
        std::stringstream text;
        text << file.rdbuf();
        return json::parse(text.str())["card_json"];
      }
    }
    ADD_FAILURE() << "no card of component " << component;
    return json::object();
  }
};

class HandoffOf : public Handoff, public ::testing::WithParamInterface<std::string> {
 protected:
  const Arguments engine_{"--engine-type", GetParam(), "--block-size", "16"};
};
INSTANTIATE_TEST_SUITE_P(Engines,
                         HandoffOf,
                         ::testing::Values("vllm", "sglang"),
                         [](const auto& e) { return e.param; });

TEST_P(HandoffOf, M176_M177_APairServesRequestAfterRequest) {
  const auto prefill = StartSource(engine_);
  const auto decode = StartDecode(engine_);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(WhyNotHandedOver(*prefill, *decode, 7), "");
  }
  ExpectIdle(*prefill);
  ExpectIdle(*decode);
  EXPECT_EQ(prefill->Metric("understudy_handoffs_total", "completed"), 5);
  EXPECT_EQ(decode->Metric("understudy_handoffs_total", "completed"), 5);
  EXPECT_EQ(prefill->Metric("understudy_bootstrap_connections_total", "registered"), 5);
}

TEST_P(HandoffOf, OnlyTheTokenOfThePrefillWorkerCarriesDisaggregatedParams) {
  const auto prefill = StartSource(engine_);
  const auto decode = StartDecode(engine_);
  const auto attempt = NewAttempt(BootstrapPort(*prefill));
  const auto source = SendTo(*prefill, attempt, 50);  // a prefill worker says one token anyway
  const auto destination = SendTo(*decode, attempt, 4);
  ASSERT_TRUE(source->WaitClosed() && destination->WaitClosed());
  EXPECT_EQ(source->WhyNotWhole(1), "");
  EXPECT_EQ(destination->WhyNotWhole(4), "");
  EXPECT_EQ(source->disaggregated(), 1U);
  EXPECT_EQ(destination->disaggregated(), 0U);
}

TEST_P(HandoffOf, M166_TheDecodeRequestMayComeFirst) {
  const auto prefill = StartSource(engine_);
  const auto decode = StartDecode(engine_);
  const auto attempt = NewAttempt(BootstrapPort(*prefill));
  const auto destination = SendTo(*decode, attempt, 4);
  ASSERT_TRUE(prefill->WaitMetric("understudy_handoffs_pending", 1));
  EXPECT_TRUE(destination->tokens().empty());
  const auto source = SendTo(*prefill, attempt);
  ASSERT_TRUE(source->WaitClosed() && destination->WaitClosed());
  EXPECT_EQ(source->WhyNotWhole(1), "");
  EXPECT_EQ(destination->WhyNotWhole(4), "");
}

TEST_P(HandoffOf, ManyAtOnceInBothCodecs) {
  const auto prefill = StartSource(engine_ + kFree);
  const auto decode = StartDecode(engine_ + kFree);
  std::vector<CallPtr> sources;
  std::vector<CallPtr> destinations;
  for (std::size_t i = 0; i < 100; ++i) {
    const auto attempt = NewAttempt(BootstrapPort(*prefill), 20 + 7 * (i % 30));
    auto spec = SpecOf(*prefill, attempt, 1);
    spec.codec = i % 2 == 0 ? PayloadCodec::kJson : PayloadCodec::kMsgpack;
    sources.push_back(frontend().Send(spec));
    spec = SpecOf(*decode, attempt, 8);
    spec.codec = i % 3 == 0 ? PayloadCodec::kMsgpack : PayloadCodec::kJson;
    destinations.push_back(frontend().Send(spec));
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    ASSERT_TRUE(sources[i]->WaitClosed() && destinations[i]->WaitClosed());
    EXPECT_EQ(sources[i]->WhyNotWhole(1) + sources[i]->error(), "");
    EXPECT_EQ(destinations[i]->WhyNotWhole(8) + destinations[i]->error(), "");
  }
  ExpectIdle(*prefill);
  ExpectIdle(*decode);
}

TEST_P(HandoffOf, M211_C070_WithoutBootstrapThePromptIsComputedByBoth) {
  const auto prefill = StartPrefill(engine_);
  const auto decode = StartDecode(engine_);
  EXPECT_FALSE(CardOf("prefill")["runtime_config"].contains("disaggregated_endpoint"));
  const auto source = Send(*prefill, 60, 9);
  ASSERT_TRUE(source->WaitClosed());
  EXPECT_EQ(source->WhyNotWhole(1), "");
  EXPECT_EQ(source->disaggregated(), 1U);
  const auto destination = Send(*decode, 60, 9);
  ASSERT_TRUE(destination->WaitClosed());
  EXPECT_EQ(destination->WhyNotWhole(9), "");
  ExpectIdle(*prefill);
  ExpectIdle(*decode);
}

TEST_F(Handoff, M206_M207_CardsSayWhoDoesWhatAndWhereTheyMeet) {
  environment["DYN_HTTP_RPC_HOST"] = "prefill-0.example";
  const auto prefill = StartSource();
  const auto decode = StartDecode();
  const auto card = CardOf("prefill");
  EXPECT_EQ(card["model_type"], "");
  EXPECT_EQ(card["worker_type"], "prefill");
  EXPECT_EQ(card["needs"], json::parse(R"([["decode"]])"));
  EXPECT_EQ(card["runtime_config"]["enable_local_indexer"], true);
  EXPECT_EQ(
      card["runtime_config"]["disaggregated_endpoint"],
      (json{{"bootstrap_host", "prefill-0.example"}, {"bootstrap_port", BootstrapPort(*prefill)}}));
  const auto other = CardOf("backend");
  EXPECT_EQ(other["model_type"], "Chat | Completions");
  EXPECT_EQ(other["worker_type"], "decode");
  EXPECT_EQ(other["needs"], json::parse(R"([["prefill"]])"));
  EXPECT_EQ(other["runtime_config"]["enable_local_indexer"], false);
  EXPECT_EQ(other["runtime_config"]["kv_event_publishing_enabled"], false);
  EXPECT_FALSE(other["runtime_config"].contains("disaggregated_endpoint"));
}

TEST_F(Handoff, TheOldFlagsMeanTheSame) {
  const auto prefill = Start({"--is-prefill-worker"});
  EXPECT_EQ(prefill->Ready("endpoint"), ns() + ".prefill.generate");
  EXPECT_EQ(prefill->CountErr("--is-prefill-worker is deprecated"), 1U);
  const auto decode = Start({"--is-decode-worker"});
  EXPECT_EQ(decode->Ready("endpoint"), ns() + ".backend.generate");
}

TEST_F(Handoff, SeveralWorkersOfAProcessHaveAPortEach) {
  const auto prefill = StartPrefill({"--num-workers", "3", "--bootstrap-ports", "0,0,0"});
  std::vector<int> ports;
  for (const auto& name : Records("mdc")) {
    std::ifstream file(folder().path() + "/v1/mdc/" + name);
    const auto card = json::parse(file)["card_json"];
    ports.push_back(card["runtime_config"]["disaggregated_endpoint"]["bootstrap_port"]);
  }
  ASSERT_EQ(ports.size(), 3U);
  std::sort(ports.begin(), ports.end());
  EXPECT_EQ(std::unique(ports.begin(), ports.end()), ports.end());
}

TEST_F(Handoff, ADecodeWorkerTakesHostNames) {
  const auto prefill = StartSource();
  const auto decode = StartDecode();
  auto attempt = NewAttempt(BootstrapPort(*prefill));
  attempt.info.host = "localhost";
  const auto source = SendTo(*prefill, attempt);
  const auto destination = SendTo(*decode, attempt, 3);
  ASSERT_TRUE(source->WaitClosed() && destination->WaitClosed());
  EXPECT_EQ(destination->WhyNotWhole(3) + destination->error(), "");
}

TEST_F(Handoff, M213_EveryRankHandsOver) {
  const Arguments ranks{"--data-parallel-size", "3"};
  const auto prefill = StartSource(ranks);
  const auto decode = StartDecode(ranks);
  std::vector<CallPtr> calls;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto attempt = NewAttempt(BootstrapPort(*prefill));
    auto spec = SpecOf(*prefill, attempt, 1);
    spec.request.dp_rank = rank;
    calls.push_back(frontend().Send(spec));
    spec = SpecOf(*decode, attempt, 1);
    spec.request.dp_rank = 2 - rank;
    calls.push_back(frontend().Send(spec));
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->WhyNotWhole(1) + call->error(), "");
  }
}

TEST_F(Handoff, M199_TheModelledTransferLiesBetweenPrefillAndDecode) {
  // 60 tokens x 1,000,000 bytes at 0.2 GB/s: 0.3 s. Wall time is only compared from below.
  const Arguments slow{"--kv-bytes-per-token", "1000000", "--kv-transfer-bandwidth", "0.2"};
  const auto prefill = StartSource(slow + kFree);
  const auto decode = StartDecode(kFree);
  const auto attempt = NewAttempt(BootstrapPort(*prefill));
  const auto source = SendTo(*prefill, attempt);
  const auto destination = SendTo(*decode, attempt, 1);
  ASSERT_TRUE(source->WaitTokens(1));
  const auto held = std::chrono::steady_clock::now();
  ASSERT_TRUE(destination->WaitTokens(1));
  EXPECT_GE(std::chrono::steady_clock::now() - held, std::chrono::milliseconds(290));
  ASSERT_TRUE(source->WaitClosed());
  EXPECT_EQ(source->WhyNotWhole(1), "");
}

TEST_F(Handoff, WithoutBootstrapTheTransferDelaysTheEndOfThePrefillStream) {
  const auto prefill = StartPrefill(
      Arguments{"--kv-bytes-per-token", "1000000", "--kv-transfer-bandwidth", "0.2"} + kFree);
  const auto call = Send(*prefill, 60, 1);
  ASSERT_TRUE(call->WaitTokens(1));
  const auto token = std::chrono::steady_clock::now();
  EXPECT_EQ(call->finish_reason(), "");
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_GE(std::chrono::steady_clock::now() - token, std::chrono::milliseconds(290));
  EXPECT_EQ(call->WhyNotWhole(1), "");
}

TEST_F(Handoff, M200_ABandwidthOfZeroMeansNoDelay) {
  const auto prefill =
      StartSource({"--kv-bytes-per-token", "1000000", "--kv-transfer-bandwidth", "0"});
  const auto decode = StartDecode();
  EXPECT_EQ(WhyNotHandedOver(*prefill, *decode), "");
}

// C-078: the texts of the reference, inside the stream, so that the workers stay routable.
TEST_F(Handoff, C078WhatCannotBeHandedOverIsRefusedInTheStream) {
  const auto refused = [this](const WorkerProcess& worker, const Attempt& attempt) {
    const auto call = SendTo(worker, attempt);
    EXPECT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->WhyNotRefusedInBand(), "");
    return call->error();
  };
  auto no_id = NewAttempt(1);
  no_id.info.handoff_id.reset();
  const auto prefill = StartPrefill();
  const auto decode = StartDecode();
  EXPECT_EQ(refused(*prefill, no_id), "disaggregated mocker requires a handoff ID");
  EXPECT_EQ(refused(*decode, no_id), "disaggregated mocker requires a handoff ID");
  EXPECT_EQ(refused(*prefill, NewAttempt(1)), "source handoff manager is not initialized");
  const auto aggregated = Start();
  EXPECT_EQ(refused(*aggregated, NewAttempt(1)),
            "aggregated mocker request cannot carry handoff metadata");
  const auto trtllm = StartDecode({"--engine-type", "trtllm"});
  EXPECT_EQ(refused(*trtllm, NewAttempt(1)), "mocker handoff does not support TRT-LLM");
  EXPECT_EQ(WhyNotServing(*decode), "");
  EXPECT_EQ(WhyNotServing(*trtllm), "");
}

TEST_F(Handoff, BeyondTheSessionsOfARankTheAckRefuses) {
  const auto prefill = StartSource({"--max-num-seqs", "2", "--data-parallel-size", "2"});
  std::vector<CallPtr> calls;
  const auto send = [&](std::uint32_t rank, PayloadCodec codec) {
    auto spec = SpecOf(*prefill, NewAttempt(1), 1);
    spec.request.dp_rank = rank;
    spec.codec = codec;
    calls.push_back(frontend().Send(spec));
    return calls.back()->WaitAck();
  };
  EXPECT_EQ(send(0, PayloadCodec::kJson), "");
  EXPECT_EQ(send(0, PayloadCodec::kJson), "");
  EXPECT_EQ(send(0, PayloadCodec::kJson),
            "Server unavailable: mocker handoff session limit reached for DP rank 0");
  EXPECT_EQ(send(0, PayloadCodec::kMsgpack),
            "Server overloaded: mocker handoff session limit reached for DP rank 0");
  EXPECT_EQ(send(1, PayloadCodec::kJson), "") << "the other rank has permits of its own";
  EXPECT_EQ(prefill->Metric("understudy_handoffs_refused_total"), 2);
  for (const auto i : {0U, 1U, 4U}) {
    ASSERT_TRUE(calls[i]->WaitFrame(Kind::kPrologue));
    frontend().Control(*calls[i], StreamControl::kKill);
  }
  ExpectIdle(*prefill);
  EXPECT_EQ(send(0, PayloadCodec::kJson), "");
}

TEST_F(Handoff, M186_M217_OneHandoffIdIsLiveOnceAtAWorker) {
  const auto prefill = StartSource();
  const auto attempt = NewAttempt(1);
  auto twin = NewAttempt(1);
  twin.info.handoff_id = attempt.info.handoff_id;
  const auto first = SendTo(*prefill, attempt);
  ASSERT_TRUE(first->WaitFrame(Kind::kPrologue));
  const auto second = SendTo(*prefill, twin);
  ASSERT_TRUE(second->WaitClosed());
  EXPECT_EQ(second->WhyNotRefusedInBand(), "");
  EXPECT_EQ(
      second->error(),
      "handoff HandoffId(" + ToText(*attempt.info.handoff_id) + ") already has a lifecycle route");
}

TEST_F(Handoff, M196_APromptBeyondTheDecodeWorkersPoolEndsBothStreams) {
  const Arguments blocks{"--block-size", "16"};
  const auto prefill = StartSource(blocks);
  const auto decode = StartDecode(blocks + Arguments{"--num-gpu-blocks-override", "8"});
  const auto attempt = NewAttempt(BootstrapPort(*prefill), 200);
  const auto source = SendTo(*prefill, attempt);
  const auto destination = SendTo(*decode, attempt, 4);
  ASSERT_TRUE(source->WaitClosed() && destination->WaitClosed());
  EXPECT_EQ(source->error(), "handoff canceled");
  EXPECT_EQ(destination->error(), "destination handoff ended before completion");
  ExpectIdle(*prefill);
  ExpectIdle(*decode);
  EXPECT_EQ(WhyNotHandedOver(*prefill, *decode), "");
}

TEST_F(Handoff, M214_OtherNamesOfARequestDoNotMeet) {
  const auto prefill = StartSource();
  const auto decode = StartDecode();
  const auto attempt = NewAttempt(BootstrapPort(*prefill));
  auto other = attempt;
  other.id = NewAttempt(1).id;
  const auto source = SendTo(*prefill, attempt);
  const auto destination = SendTo(*decode, other, 4);
  ASSERT_TRUE(source->WaitClosed() && destination->WaitClosed());
  EXPECT_EQ(source->error(), "handoff participant identity or backend mismatch");
  EXPECT_EQ(destination->error(), "destination handoff ended before completion");
  EXPECT_GE(prefill->CountErr(attempt.id), 1U) << "the log line names the request";
}

TEST_F(Handoff, M167_OtherEnginesDoNotMeet) {
  const auto prefill = StartSource({"--engine-type", "sglang"});
  const auto decode = StartDecode();
  const auto attempt = NewAttempt(BootstrapPort(*prefill));
  const auto source = SendTo(*prefill, attempt);
  const auto destination = SendTo(*decode, attempt, 4);
  ASSERT_TRUE(source->WaitClosed() && destination->WaitClosed());
  EXPECT_EQ(source->error(), "handoff participant identity or backend mismatch");
}

TEST_F(Handoff, AWorkerThatNobodyListensForIsNamed) {
  const auto decode = StartDecode();
  const PeerListener closed;
  std::uint16_t port = 0;
  {
    const PeerListener listener;
    port = listener.port();
  }
  auto attempt = NewAttempt(port);
  const auto refused = SendTo(*decode, attempt, 4);
  ASSERT_TRUE(refused->WaitClosed());
  EXPECT_EQ(refused->error(), "bootstrap connection failed: Connection refused (os error 111)");
  attempt = NewAttempt(port);
  attempt.info.host = "no-such-host.invalid";
  const auto unknown = SendTo(*decode, attempt, 4);
  ASSERT_TRUE(unknown->WaitClosed());
  EXPECT_TRUE(unknown->error().starts_with("bootstrap connection failed: failed to lookup address"))
      << unknown->error();
  ExpectIdle(*decode);
  EXPECT_EQ(WhyNotServing(*decode), "");
}

TEST_F(Handoff, ABusyBootstrapPortEndsTheStartAndLeavesNothing) {
  const PeerListener busy;
  const Arguments arguments{
      "--disaggregation-mode", "prefill", "--bootstrap-ports", std::to_string(busy.port())};
  const auto failed = Launch(arguments);
  EXPECT_EQ(failed->WaitExit(), 1);
  EXPECT_EQ(failed->CountErr("bootstrap port " + std::to_string(busy.port()) +
                             ": Address already in use (os error 98)"),
            1U);
  EXPECT_EQ(failed->out(), "");
  EXPECT_TRUE(Records("instances").empty());
  EXPECT_TRUE(Records("mdc").empty());
}

TEST_F(Handoff, TheStateNamesEveryHandoff) {
  const auto prefill = StartSource();
  const auto attempt = NewAttempt(1);
  const auto call = SendTo(*prefill, attempt);
  ASSERT_TRUE(call->WaitFrame(Kind::kPrologue));
  const auto dump = json::parse(prefill->DumpState());
  EXPECT_EQ(dump["handoffs"]["role"], "prefill");
  EXPECT_EQ(dump["handoffs"]["permits_taken"], json::array({1}));
  ASSERT_EQ(dump["handoffs"]["sessions"].size(), 1U);
  EXPECT_EQ(dump["handoffs"]["sessions"][0]["request_id"], attempt.id);
  EXPECT_EQ(dump["handoffs"]["sessions"][0]["handoff_id"], ToText(*attempt.info.handoff_id));
}

}  // namespace
}  // namespace understudy::worker
