#include "worker/request_path/admission.h"

#include <variant>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using transport::PayloadCodec;

std::variant<Admitted, Refusal> AdmitJson(const std::string& body,
                                          std::uint32_t dp_size = 2,
                                          transport::DecodeLimits limits = {}) {
  transport::RequestControl control;
  control.id = "r";
  return Admit(control, body, {.dp_size = dp_size, .limits = limits});
}

std::string TextOf(const std::variant<Admitted, Refusal>& outcome) {
  const auto* refusal = std::get_if<Refusal>(&outcome);
  return refusal == nullptr ? "admitted" : refusal->text;
}

TEST(Admission, TakesAnOrdinaryRequest) {
  const auto outcome = AdmitJson(
      R"({"model":"m","token_ids":[1,2,3],"stop_conditions":{"max_tokens":7},"routing":{"dp_rank":1}})");
  ASSERT_EQ(TextOf(outcome), "admitted");
  const auto& admitted = std::get<Admitted>(outcome);
  EXPECT_EQ(admitted.output_tokens_max, 7U);
  EXPECT_EQ(admitted.dp_rank, 1U);
  EXPECT_EQ(admitted.request.token_ids, (std::vector<std::uint32_t>{1, 2, 3}));
}

TEST(Admission, TakesAnEmptyPrompt) {
  EXPECT_EQ(TextOf(AdmitJson(R"({"token_ids":[],"stop_conditions":{"max_tokens":1}})")),
            "admitted");
}

// M-062: the exact text.
TEST(Admission, RefusesARankOutOfRange) {
  EXPECT_EQ(TextOf(AdmitJson(
                R"({"token_ids":[1],"stop_conditions":{"max_tokens":1},"routing":{"dp_rank":2}})")),
            "dp_rank 2 is out of bounds for dp_size 2");
}

// M-065, U38.
TEST(Admission, RefusesAMissingBudget) {
  EXPECT_EQ(TextOf(AdmitJson(R"({"token_ids":[1],"stop_conditions":{}})")),
            "max_output_tokens must be specified for mocker");
  EXPECT_EQ(TextOf(AdmitJson(R"({"token_ids":[1],"stop_conditions":{"max_tokens":null}})")),
            "max_output_tokens must be specified for mocker");
}

// M-081, U38.
TEST(Admission, RefusesAZeroBudget) {
  EXPECT_EQ(TextOf(AdmitJson(R"({"token_ids":[1],"stop_conditions":{"max_tokens":0}})")),
            "live requests must generate at least one output token");
}

// M-078: of two faults the first one in the reference's order is named.
TEST(Admission, NamesTheRankBeforeTheBudget) {
  EXPECT_EQ(TextOf(AdmitJson(R"({"token_ids":[1],"stop_conditions":{},"routing":{"dp_rank":9}})")),
            "dp_rank 9 is out of bounds for dp_size 2");
}

TEST(Admission, RefusesAHandoffOnAnAggregatedWorker) {
  const auto body =
      R"({"token_ids":[1],"stop_conditions":{"max_tokens":1},"bootstrap_info":{"bootstrap_host":"h","bootstrap_port":1,)"
      R"("bootstrap_room":5,"handoff_id":"6f0c1d2e-0000-4000-8000-000000000000"}})";
  EXPECT_EQ(TextOf(AdmitJson(body)), "aggregated mocker request cannot carry handoff metadata");
}

constexpr std::string_view kHandoff =
    R"({"token_ids":[1],"stop_conditions":{"max_tokens":4},"bootstrap_info":{"bootstrap_host":"h","bootstrap_port":1,)"
    R"("bootstrap_room":5,"handoff_id":"6f0c1d2e-0000-4000-8000-000000000000"}})";
constexpr std::string_view kNoHandoffId =
    R"({"token_ids":[1],"stop_conditions":{"max_tokens":4},"bootstrap_info":{"bootstrap_host":"h","bootstrap_port":1,)"
    R"("bootstrap_room":5,"handoff_id":null}})";

// C-078.
TEST(Admission, PrefillAndDecodeWorkersNeedTheIdOfAHandoff) {
  for (const auto role : {mocker::WorkerType::kPrefill, mocker::WorkerType::kDecode}) {
    EXPECT_EQ(TextOf(Admit({}, kNoHandoffId, {.role = role})),
              "disaggregated mocker requires a handoff ID");
    const auto outcome = Admit({}, kHandoff, {.role = role});
    const auto* admitted = std::get_if<Admitted>(&outcome);
    ASSERT_NE(admitted, nullptr);
    EXPECT_TRUE(admitted->hands_over);
    EXPECT_EQ(admitted->output_tokens_max, role == mocker::WorkerType::kPrefill ? 1U : 4U);
  }
}

TEST(Admission, TensorRtLlmHandsNothingOver) {
  for (const auto role : {mocker::WorkerType::kPrefill,
                          mocker::WorkerType::kDecode,
                          mocker::WorkerType::kAggregated}) {
    EXPECT_EQ(
        TextOf(Admit({}, kHandoff, {.role = role, .engine_type = mocker::EngineType::kTrtllm})),
        "mocker handoff does not support TRT-LLM");
  }
}

TEST(Admission, WithoutBootstrapInfoARequestIsOrdinaryInEveryRole) {
  for (const auto role : {mocker::WorkerType::kPrefill, mocker::WorkerType::kDecode}) {
    const auto outcome = Admit({},
                               R"({"token_ids":[1],"stop_conditions":{"max_tokens":4},)"
                               R"("prefill_result":{"disaggregated_params":"dummy"}})",
                               {.role = role});
    const auto* admitted = std::get_if<Admitted>(&outcome);
    ASSERT_NE(admitted, nullptr);
    EXPECT_FALSE(admitted->hands_over);
  }
}

// M-068: bootstrap information without a handoff id means nothing to an aggregated worker.
TEST(Admission, IgnoresBootstrapInfoWithoutAHandoff) {
  EXPECT_EQ(
      TextOf(AdmitJson(R"({"token_ids":[1],"stop_conditions":{"max_tokens":1},"bootstrap_info":)"
                       R"({"bootstrap_host":"h","bootstrap_port":1,"bootstrap_room":5}})")),
      "admitted");
}

// M-064.
TEST(Admission, APrefillWorkerAnswersWithOneTokenWhateverIsAsked) {
  for (const std::string stop : {R"({})", R"({"max_tokens":50})", R"({"max_tokens":0})"}) {
    const auto outcome = Admit({},
                               R"({"token_ids":[1],"stop_conditions":)" + stop + "}",
                               {.role = mocker::WorkerType::kPrefill});
    ASSERT_EQ(TextOf(outcome), "admitted") << stop;
    EXPECT_EQ(std::get<Admitted>(outcome).output_tokens_max, 1U) << stop;
  }
}

TEST(Admission, NamesAnUnknownCodec) {
  transport::RequestControl control;
  control.unknown_codec = "cbor";
  const auto outcome = Admit(control, "{}", {});
  EXPECT_EQ(TextOf(outcome), "unknown payload_codec 'cbor' (allowed: json, msgpack)");
  EXPECT_EQ(std::get<Refusal>(outcome).error, ErrorType::kDeserialization);
}

TEST(Admission, RefusesBodiesThatDoNotDecode) {
  for (const std::string body :
       {"", "{", "[]", "nope", R"({"token_ids":"x"})", R"({"token_ids":[1.5]})", "{}\xff"}) {
    const auto outcome = AdmitJson(body);
    const auto* refusal = std::get_if<Refusal>(&outcome);
    ASSERT_NE(refusal, nullptr) << body;
    EXPECT_EQ(refusal->error, ErrorType::kDeserialization) << body;
    EXPECT_FALSE(refusal->text.empty()) << body;
  }
}

TEST(Admission, CountsAPromptOverTheLimitAsTooLarge) {
  transport::DecodeLimits limits;
  limits.prompt_tokens_max = 2;
  const auto outcome =
      AdmitJson(R"({"token_ids":[1,2,3],"stop_conditions":{"max_tokens":1}})", 1, limits);
  ASSERT_TRUE(std::holds_alternative<Refusal>(outcome));
  EXPECT_EQ(std::get<Refusal>(outcome).reason, RefusalReason::kTooLarge);
}

}  // namespace
}  // namespace understudy::worker
