// Records the real 1.3.0 mocker wrote into etcd: vectors/wire/etcd_1.3.0_*.json; and mdc_sum.json.
#include "tests/unit/transport/codec/golden.h"
#include "understudy/transport/event_records.h"
#include "understudy/transport/records.h"

#include <string>

#include <gtest/gtest.h>

namespace understudy::transport::golden {
namespace {

std::optional<CardFile> FileOf(const Json& card, const char* key, const char* kind) {
  if (!card.contains(key)) {
    return std::nullopt;
  }
  const Json& file = card[key][kind];
  CardFile out{file["path"], file["checksum"], std::nullopt};
  if (file.contains("size")) {
    out.size = file["size"].get<std::uint64_t>();
  }
  return out;
}

/// Fills the struct from captured JSON, so that only the encoder is under test.
ModelCard CardOf(const Json& json) {
  ModelCard card;
  card.display_name = json["display_name"];
  card.slug = json["slug"];
  card.config = FileOf(json, "model_info", "hf_config_json");
  card.tokenizer = FileOf(json, "tokenizer", "hf_tokenizer_json");
  card.tokenizer_config = FileOf(json, "prompt_formatter", "hf_tokenizer_config_json");
  card.generation_config = FileOf(json, "gen_config", "hf_generation_config_json");
  if (json.contains("architectural_max_context_length")) {
    card.architectural_max_context_length =
        json["architectural_max_context_length"].get<std::uint32_t>();
  }
  card.kv_cache_block_size = json["kv_cache_block_size"];
  card.migration_limit = json["migration_limit"];
  card.model_type = json["model_type"];
  card.worker_type = json["worker_type"];
  if (!json.contains("runtime_config")) {  // the smallest card a frontend takes
    return card;
  }
  const Json& runtime = json["runtime_config"];
  card.needs = json["needs"].get<std::vector<std::vector<std::string>>>();
  card.total_kv_blocks = runtime["total_kv_blocks"];
  card.max_num_seqs = runtime["max_num_seqs"];
  card.max_num_batched_tokens = runtime["max_num_batched_tokens"];
  card.data_parallel_size = runtime["data_parallel_size"];
  card.enable_local_indexer = runtime["enable_local_indexer"];
  card.context_length = runtime["context_length"];
  if (runtime.contains("disaggregated_endpoint")) {
    const Json& peer = runtime["disaggregated_endpoint"];
    card.disaggregated_endpoint = {peer["bootstrap_host"], peer["bootstrap_port"]};
  }
  return card;
}

class GoldenRecords : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { vector_ = Load(GetParam()); }
  Json vector_;
};

INSTANTIATE_TEST_SUITE_P(Files, GoldenRecords, ::testing::ValuesIn(WireFiles("etcd_1.3.0_")));

TEST(GoldenRecordFiles, AreAllThere) {
  EXPECT_EQ(WireFiles("etcd_1.3.0_").size(), 6U);
}

TEST_P(GoldenRecords, InstancesDecodeAndReencodeToTheSameBytes) {
  std::size_t instances = 0;
  for (const Json& record : vector_["records"]) {
    const std::string value = record["value_text"];
    if (Json::parse(value)["type"] != "Endpoint") {
      continue;
    }
    const auto instance = DecodeInstance(value);
    ASSERT_TRUE(instance.has_value()) << instance.error().message;
    const Record again = EncodeInstance(*instance);
    EXPECT_EQ(again.key, record["key"]);
    EXPECT_EQ(again.value, value);
    ++instances;
  }
  EXPECT_GE(instances, 2U);
}

// Cards of workers that serve their own files have a field that this encoder does not write.
TEST_P(GoldenRecords, ModelsAreWrittenToTheSameBytes) {
  std::size_t models = 0;
  for (const Json& record : vector_["records"]) {
    const Json json = Json::parse(record["value_text"].get<std::string>());
    if (json["type"] != "Model") {
      continue;
    }
    const Json& card = json["card_json"];
    const bool other = card.contains("extra_files");
    const EndpointName name{json["namespace"], json["component"], json["endpoint"]};
    const Record again = EncodeModel(name, json["instance_id"], CardOf(card));
    EXPECT_EQ(again.key, record["key"]);
    EXPECT_EQ(again.value == record["value_text"], !other) << again.value;
    ++models;
  }
  EXPECT_GE(models, 1U);
}

/// A prefill worker with a bootstrap port, a decode worker and a frontend, as etcd had them.
TEST(GoldenDisaggRecords, M206_M207_AreWrittenToTheSameBytes) {
  std::size_t models = 0;
  const Json vector = Load("disagg/discovery_records.json");
  for (const auto& [key, json] : vector.at("records").items()) {
    const std::string value = json.dump();
    Record again;
    if (json.at("type") == "Endpoint") {
      const auto instance = DecodeInstance(value);
      ASSERT_TRUE(instance) << instance.error().message;
      again = EncodeInstance(*instance);
    } else if (json.at("type") == "EventChannel") {
      const auto channel = DecodeEventChannel(value);
      ASSERT_TRUE(channel) << channel.error().message;
      again = EncodeEventChannel(channel->channel, channel->transport);
    } else {
      const EndpointName name{json.at("namespace"), json.at("component"), json.at("endpoint")};
      const ModelCard card = CardOf(json.at("card_json"));
      EXPECT_EQ(card.disaggregated_endpoint.has_value(), name.component == "prefill");
      again = EncodeModel(name, json.at("instance_id"), card);
      ++models;
    }
    EXPECT_EQ(again.key, key);
    EXPECT_EQ(again.value, value);
  }
  EXPECT_EQ(vector.at("records").size(), 18U);
  EXPECT_EQ(models, 2U);
}

// The cards of 1.6 differ in fields that are not hashed, except for extra_files.
TEST(GoldenMdcSum, InputAndDigestAreThoseOfTheFrontend) {
  std::size_t sums = 0;
  const Json vector = Load("wire/mdc_sum.json");
  for (const Json& sum : vector["vectors"]) {
    if (sum["card"].contains("extra_files")) {
      continue;
    }
    const ModelCard card = CardOf(sum["card"]);
    EXPECT_EQ(MdcSumInput(card), FromHex(sum["hash_input_hex"])) << sum["source"];
    EXPECT_EQ(MdcSum(card), sum["mdc_sum"]) << sum["source"];
    ++sums;
  }
  EXPECT_EQ(sums, 5U);
}

// The frontend took the same value into its requests.
TEST(GoldenMdcSum, IsWhatRequestsCarry) {
  const Json vector = Load("wire/mdc_sum.json");
  const Json request = Load("wire/request_nats_1.3.0_json.json")["requests"][0];
  EXPECT_EQ(MdcSum(CardOf(vector["vectors"][0]["card"])), request["decoded"]["body"]["mdc_sum"]);
}

}  // namespace
}  // namespace understudy::transport::golden
