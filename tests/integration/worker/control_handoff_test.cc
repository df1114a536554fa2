// Hand-offs between two real workers, driven by `understudy ctl` in place of their rendezvous.
#include "tests/integration/worker/ctl_process.h"
#include "tests/integration/worker/worker_test.h"

#include <csignal>

namespace understudy::worker {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHandoff = "6f0c1a9e-3b52-4d0e-9a71-0123456789ab";
const Arguments kSmall = kFree + Arguments{"--num-gpu-blocks-override", "64", "--block-size", "4"};

class ControlHandoff : public WorkerTest {
 protected:
  Ctl Handoff(const WorkerProcess& worker, const std::string& op, const Arguments& more = {}) {
    return {Arguments{"handoff", op, "--json", "--handoff-id", kHandoff, "--instance"} +
                Arguments{worker.Ready("instance")} + more,
            environment};
  }
  Ctl Register(const WorkerProcess& worker, int generation) {
    auto events = Handoff(worker, "register");
    EXPECT_TRUE(events.WaitLines(1)) << events.err();
    EXPECT_EQ(events.Line(0)["generation"], generation);
    return events;
  }
  /// Of a command that succeeds.
  std::string Outcome(const WorkerProcess& worker, const std::string& op, int generation) {
    auto ctl = Handoff(worker, op, {"--generation", std::to_string(generation)});
    EXPECT_EQ(ctl.Exit(), 0) << ctl.err();
    return ctl.Line(0)["outcome"];
  }
  std::string Refusal(const WorkerProcess& worker, const std::string& op, const Arguments& more) {
    auto ctl = Handoff(worker, op, more);
    EXPECT_EQ(ctl.Exit(), 1) << ctl.out();
    return ctl.err();
  }
  Json Rank(const WorkerProcess& worker) {
    Ctl stats({"stats", "--json", "--instance", worker.Ready("instance")}, environment);
    EXPECT_EQ(stats.Exit(), 0) << stats.err();
    return stats.Line(0)["ranks"][0];
  }
  bool WaitFree(const WorkerProcess& worker) {
    return Eventually([&] {
      const Json rank = Rank(worker);
      return rank["blocks_used"] == 0 && rank["handoffs"] == 0 && rank["sessions"] == 0;
    });
  }
};

const Arguments kPrompt = {"--generation", "1", "--prompt-tokens", "40"};

class ControlHandoffOf : public ControlHandoff,
                         public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Engines,
                         ControlHandoffOf,
                         ::testing::Values("vllm", "sglang", "trtllm"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(ControlHandoffOf, APromptIsComputedHereAndGoesOnThere) {
  const auto source = Start(kSmall + Arguments{"--engine-type", GetParam()});
  const auto destination = Start(kSmall + Arguments{"--engine-type", GetParam()});
  auto here = Register(*source, 1);
  auto there = Register(*destination, 1);
  auto prefill = Handoff(*source, "submit-prefill", kPrompt);
  EXPECT_EQ(prefill.Exit(), 0) << prefill.err();
  ASSERT_EQ(prefill.Lines().size(), 3U) << prefill.out();
  EXPECT_EQ(prefill.Line(0)["outcome"], "submitted");
  EXPECT_EQ(prefill.Line(1)["type"], "token");
  EXPECT_EQ(prefill.Line(2)["reason"], "length");
  ASSERT_TRUE(here.WaitLines(2));
  EXPECT_EQ(here.Line(1)["type"], "source_held");
  EXPECT_EQ(here.Line(1)["transfer_timing"]["full_prompt_tokens"], 40);
  EXPECT_GE(Rank(*source)["blocks_used"], 10);
  EXPECT_EQ(Rank(*source)["sessions"], 1);

  auto reserve =
      Handoff(*destination, "reserve-destination", kPrompt + Arguments{"--max-tokens", "5"});
  ASSERT_TRUE(there.WaitLines(2));
  EXPECT_EQ(there.Line(1)["transferable_prompt_tokens"], 40);
  EXPECT_EQ(Outcome(*destination, "activate-destination", 1), "applied");
  EXPECT_EQ(reserve.Exit(), 0) << reserve.err();
  EXPECT_EQ(reserve.Lines().size(), 7U) << reserve.out();
  EXPECT_EQ(Outcome(*source, "release-source", 1), "applied");
  EXPECT_EQ(Outcome(*source, "release-source", 1), "noop");
  for (Ctl* events : {&here, &there}) {
    events->Signal(SIGINT);
    EXPECT_EQ(events->Exit(), 0) << events->err();
  }
  EXPECT_TRUE(WaitFree(*source));
  EXPECT_TRUE(WaitFree(*destination));
  EXPECT_EQ(WhyNotServing(*source), "");
}

TEST_F(ControlHandoff, TwoControllersShareAnIdAndTheLaterGenerationCounts) {
  const auto worker = Start(kSmall);
  auto first = Register(*worker, 1);
  EXPECT_NE(Refusal(*worker, "register", {}).find("already has a lifecycle route"),
            std::string::npos);
  first.Signal(SIGINT);
  EXPECT_EQ(first.Exit(), 0);
  auto second = Register(*worker, 2);
  const auto text = Refusal(*worker, "release-source", {"--generation", "1"});
  EXPECT_NE(text.find(std::string("handoff HandoffId(") + kHandoff +
                      ") control belongs to an earlier registration"),
            std::string::npos)
      << text;
  EXPECT_EQ(Outcome(*worker, "cancel-source", 2), "noop");
  EXPECT_EQ(worker->Metric("understudy_control_refusals_total"), 2);
}

TEST_F(ControlHandoff, AControllerThatDiesLeavesNothingBehind) {
  const auto worker = Start(kSmall);
  auto events = Register(*worker, 1);
  auto reserve = Handoff(*worker, "reserve-destination", kPrompt + Arguments{"--max-tokens", "5"});
  ASSERT_TRUE(events.WaitLines(2));
  EXPECT_EQ(Rank(*worker)["blocks_used"], 10);
  for (Ctl* controller : {&events, &reserve}) {
    controller->Signal(SIGKILL);
    EXPECT_EQ(controller->Exit(), 128 + SIGKILL);
  }
  EXPECT_TRUE(WaitFree(*worker));
  EXPECT_NE(Refusal(*worker, "submit-prefill", kPrompt).find("no longer registered"),
            std::string::npos);
  auto again = Register(*worker, 2);
  EXPECT_EQ(WhyNotServing(*worker), "");
}

TEST_F(ControlHandoff, AHeldSourceOutlivesItsControllerUntilAnotherReleasesIt) {
  const auto worker = Start(kSmall);
  auto events = Register(*worker, 1);
  auto prefill = Handoff(*worker, "submit-prefill", kPrompt);
  EXPECT_EQ(prefill.Exit(), 0) << prefill.err();
  ASSERT_TRUE(events.WaitLines(2));
  events.Signal(SIGKILL);
  EXPECT_EQ(events.Exit(), 128 + SIGKILL);
  ASSERT_TRUE(Eventually([&] { return Rank(*worker)["sessions"] == 0; }));
  EXPECT_GE(Rank(*worker)["blocks_used"], 10);
  EXPECT_EQ(Outcome(*worker, "release-source", 1), "applied");
  EXPECT_TRUE(WaitFree(*worker));
}

TEST_F(ControlHandoff, TensorRtLlmOf13HasNone) {
  const auto worker =
      Start(kFree + Arguments{"--engine-type", "trtllm", "--engine-semantics", "1.3"});
  auto events = Register(*worker, 1);
  const auto text = Refusal(*worker, "reserve-destination", kPrompt);
  EXPECT_NE(text.find("TRT-LLM"), std::string::npos) << text;
}

TEST_F(ControlHandoff, AtTheEndOfTheWorkerTheEventsEnd) {
  const auto worker = Start(kFree);
  auto events = Register(*worker, 1);
  worker->Signal(SIGTERM);
  EXPECT_EQ(worker->WaitExit(), 0);
  EXPECT_EQ(events.Exit(), 1);
  EXPECT_NE(events.err().find("the worker closed the connection"), std::string::npos)
      << events.err();
}

}  // namespace
}  // namespace understudy::worker
