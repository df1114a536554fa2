// Every row of engine_args_validation.json: what dynamo-mocker 1.3.0 answered to 62 sets of engine
// arguments.
#include "tests/unit/plugin/golden_case.h"
#include "tests/unit/plugin/validation_text.h"
#include "understudy/mocker/engine_args.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

/// Where ours differs on purpose.
struct Difference {
  std::string reference;  ///< "ok", or its error
  std::string ours;
  const char* reason;
};

const std::map<std::string, Difference>& Differences() {
  static const std::map<std::string, Difference> kDifferences = {
      {R"({"block_size":1})",
       {"ok",
        "vLLM/TRT-LLM block_size must be at least two, got 1",
        "accepted there, and the first request ends the scheduler"}},
      {"[]",
       {"ok",
        "invalid type: sequence, expected struct MockEngineArgsSerde at line 1 column 0",
        "read there as a list of values in the order of the fields; its command line takes objects "
        "only, too"}},
  };
  return kDifferences;
}

std::string TextOf(const nlohmann::json& row) {
  return row.contains("raw") ? row["raw"].get<std::string>() : row["input"].dump();
}

/// The recorded text was made of JSON with a space behind each colon and comma.
std::string SpacedText(const nlohmann::json& row) {
  if (row.contains("raw")) {
    return row["raw"];
  }
  std::string out;
  bool quoted = false;
  for (const char c : row["input"].dump()) {
    quoted = quoted != (c == '"');
    out += c;
    out += !quoted && (c == ':' || c == ',') ? " " : "";
  }
  return out;
}

std::string WithoutBindingPrefix(const std::string& error) {
  const std::string prefix = "Failed to parse MockEngineArgs JSON: ";
  return error.starts_with(prefix) ? error.substr(prefix.size()) : error;
}

void ExpectEqual(const EngineArgs& args, const nlohmann::json& row) {
  const MockerOptions& engine = args.engine;
  const std::map<std::string, EngineType> types = {{"vllm", EngineType::kVllm},
                                                   {"sglang", EngineType::kSglang},
                                                   {"trtllm", EngineType::kTrtllm}};
  EXPECT_EQ(engine.block_size, row["block_size"].get<std::uint32_t>());
  EXPECT_EQ(engine.num_gpu_blocks, row["num_gpu_blocks"].get<std::uint64_t>());
  EXPECT_EQ(engine.max_num_seqs.has_value(), !row["max_num_seqs"].is_null());
  if (engine.max_num_seqs && !row["max_num_seqs"].is_null()) {
    EXPECT_EQ(*engine.max_num_seqs, row["max_num_seqs"].get<std::uint32_t>());
  }
  EXPECT_EQ(engine.engine_type, types.at(row["engine_type"]));
  EXPECT_EQ(engine.worker_type == WorkerType::kPrefill, row["is_prefill"].get<bool>());
  EXPECT_EQ(engine.worker_type == WorkerType::kDecode, row["is_decode"].get<bool>());
}

TEST(EngineArgsVectors, AnswerLikeTheReferenceOrDifferOnPurpose) {
  const nlohmann::json rows = LoadGoldenCase("engine_args_validation");
  ASSERT_EQ(rows.size(), 62U);
  std::size_t differing = 0;
  for (const nlohmann::json& row : rows) {
    SCOPED_TRACE(row["case"].get<std::string>() + " " + TextOf(row));
    const auto args = ParseEngineArgs(SpacedText(row));
    const std::string reference =
        row["ok"] ? "ok" : WithSortedRange(WithoutBindingPrefix(row["error"]));
    const auto difference = Differences().find(TextOf(row));
    if (difference != Differences().end()) {
      ++differing;
      EXPECT_EQ(reference, difference->second.reference) << difference->second.reason;
      ASSERT_FALSE(args) << difference->second.reason;
      EXPECT_EQ(args.error().message, difference->second.ours) << difference->second.reason;
      continue;
    }
    EXPECT_EQ(args ? "ok" : WithSortedRange(args.error().message), reference);
    if (args && row["ok"]) {
      ExpectEqual(*args, row);
    } else if (!args) {
      EXPECT_EQ(args.error().code, Errc::kInvalidConfig);
    }
  }
  EXPECT_EQ(differing, Differences().size());
}

}  // namespace
}  // namespace understudy::mocker
