#include "transport/codec/blake3.h"
#include "understudy/transport/records.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::transport {
namespace {

using Json = nlohmann::ordered_json;
using namespace std::string_literals;

ModelCard Card() {
  ModelCard card;
  card.display_name = "tiny";
  card.slug = "tiny";
  card.config = CardFile{"/m/config.json", "blake3:00", 5};
  card.kv_cache_block_size = 16;
  return card;
}

TEST(ModelCardJson, LeavesOutFilesThatAreMissing) {
  const Json json = Json::parse(EncodeCard(Card()));
  EXPECT_TRUE(json.contains("model_info"));
  EXPECT_FALSE(json.contains("tokenizer"));
  EXPECT_FALSE(json.contains("gen_config"));
  EXPECT_FALSE(json.contains("source_path"));
  EXPECT_FALSE(json.contains("architectural_max_context_length"));
}

TEST(ModelCardJson, CarriesOptionalFields) {
  ModelCard card = Card();
  card.source_path = "org/tiny";
  card.stable_routing_id = "r\"1";
  const Json json = Json::parse(EncodeCard(card));
  EXPECT_EQ(json["source_path"], "org/tiny");
  EXPECT_EQ(json["runtime_config"]["stable_routing_id"], "r\"1");
}

TEST(MdcSum, HashesTheInput) {
  EXPECT_EQ(MdcSum(Card()), Blake3Hex(MdcSumInput(Card())));
}

TEST(MdcSum, InputNamesWhatReplicasMustShare) {
  ModelCard card = Card();
  card.source_path = "src";
  card.worker_type = "prefill";
  card.needs = {{"decode"}, {"encode", "aggregated"}};
  card.context_length = 0x01020304;
  EXPECT_EQ(MdcSumInput(card),
            "tinysrcblake3:00\x01\x02\x03\x04"s
            "\0\0\0\x10"s
            "\x01"s
            "\0\0\0\x02"s
            "\0\0\0\x01\x02"s
            "\0\0\0\x02\x03\x04"s);
}

TEST(MdcSum, DoesNotDependOnPathsOrLimits) {
  ModelCard card = Card();
  card.config->path = "/elsewhere/config.json";
  card.max_num_seqs = 7;
  card.total_kv_blocks = 8;
  card.migration_limit = 9;
  EXPECT_EQ(MdcSum(card), MdcSum(Card()));
}

}  // namespace
}  // namespace understudy::transport
