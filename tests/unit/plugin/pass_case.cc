#include "tests/unit/plugin/pass_case.h"

#include <gtest/gtest.h>

namespace understudy::mocker {

namespace {

using Json = nlohmann::json;

constexpr double kVarianceTolerance = 1e-9;

}  // namespace

std::vector<std::string> TextOf(const std::vector<engine::KvEvent>& events) {
  std::vector<std::string> texts;
  for (const engine::KvEvent& event : events) {
    const bool stored = event.kind == engine::KvEvent::Kind::kStored;
    std::string text = std::to_string(event.event_id);
    text += stored ? " stored after " +
                         (event.parent ? std::to_string(Value(*event.parent)) : std::string("none"))
                   : std::string(" removed");
    text += event.tier == StorageTier::kDevice ? "" : " on the host";
    text += event.start_position ? " from " + std::to_string(*event.start_position) : "";
    for (const engine::KvBlock& block : event.blocks) {
      text += " " + std::to_string(Value(block.block_hash));
      text += stored ? "/" + std::to_string(Value(block.tokens_hash)) : std::string();
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<std::string> TextOf(const Json& events) {
  std::vector<std::string> texts;
  for (const Json& event : events) {
    const bool stored = event["type"] == "stored";
    std::string text = std::to_string(event["event_id"].get<std::uint64_t>());
    text += stored ? " stored after " +
                         (event["parent"].is_null() ? "none" : event["parent"].get<std::string>())
                   : std::string(" removed");
    text += event.value("storage_tier", "device") == "device" ? "" : " on the host";
    if (stored && event.contains("start_position") && !event["start_position"].is_null()) {
      text += " from " + std::to_string(event["start_position"].get<std::uint64_t>());
    }
    for (const Json& block : event[stored ? "blocks" : "block_hashes"]) {
      text += " " + (stored ? block["block_hash"].get<std::string>() + "/" +
                                  block["tokens_hash"].get<std::string>()
                            : block.get<std::string>());
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

void ExpectStats(const Json& want, const PassStats& got) {
  EXPECT_EQ(got.prefill.count, want["num_prefill_requests"]);
  EXPECT_EQ(got.prefill_tokens, want["sum_prefill_tokens"]);
  EXPECT_EQ(got.prefill_kv_tokens, want["sum_prefill_kv_tokens"]);
  EXPECT_NEAR(got.prefill.variance, want["var_prefill_length"], kVarianceTolerance);
  EXPECT_EQ(got.decode.count, want["num_decode_requests"]);
  EXPECT_EQ(got.decode.sum, want["sum_decode_kv_tokens"]);
  EXPECT_NEAR(got.decode.variance, want["var_decode_kv_tokens"], kVarianceTolerance);
  EXPECT_EQ(got.queued_prefill.count, want["num_queued_prefill"]);
  EXPECT_EQ(got.queued_prefill.sum, want["sum_queued_prefill_tokens"]);
  EXPECT_NEAR(got.queued_prefill.variance, want["var_queued_prefill_length"], kVarianceTolerance);
  EXPECT_EQ(got.queued_decode.count, want["num_queued_decode"]);
  EXPECT_EQ(got.queued_decode.sum, want["sum_queued_decode_kv_tokens"]);
  EXPECT_NEAR(got.queued_decode.variance, want["var_queued_decode_kv_tokens"], kVarianceTolerance);
}

}  // namespace understudy::mocker
