// Source: wire.md 3; dynamo-llm 1.3.0 model_card.rs; vectors/wire/etcd_1.3.0_*.json, mdc_sum.json.
#include "transport/codec/big_endian.h"
#include "transport/codec/blake3.h"
#include "transport/codec/json_writer.h"
#include "understudy/transport/records.h"

namespace understudy::transport {
namespace {

void WriteFile(JsonWriter& json,
               std::string_view key,
               std::string_view kind,
               const std::optional<CardFile>& file) {
  if (!file) {
    return;
  }
  json.Key(key).BeginObject().Key(kind).BeginObject();
  json.Key("path").Text(file->path).Key("checksum").Text(file->checksum);
  if (file->size) {
    json.Key("size").Number(*file->size);
  }
  json.EndObject().EndObject();
}

void WriteRuntimeConfig(JsonWriter& json, const ModelCard& card) {
  json.BeginObject();
  json.Key("context_length").Number(card.context_length);
  json.Key("total_kv_blocks").Number(card.total_kv_blocks);
  if (card.max_num_seqs != 0) {
    json.Key("max_num_seqs").Number(card.max_num_seqs);
  }
  if (card.max_num_batched_tokens != 0) {
    json.Key("max_num_batched_tokens").Number(card.max_num_batched_tokens);
  }
  json.Key("tool_call_parser").Null().Key("reasoning_parser").Null();
  json.Key("structural_tag_mode").Text("off").Key("structural_tag_scope").Text("auto");
  json.Key("structural_tag_schema").Text("auto");
  json.Key("exclude_tools_when_tool_choice_none").Bool(true);
  json.Key("data_parallel_start_rank").Number(0);
  json.Key("data_parallel_size").Number(card.data_parallel_size);
  json.Key("enable_local_indexer").Bool(card.enable_local_indexer);
  if (card.kv_event_publishing_enabled) {
    json.Key("kv_event_publishing_enabled").Bool(*card.kv_event_publishing_enabled);
  }
  json.Key("runtime_data").BeginObject().Key("output_replay_consumer").Bool(true).EndObject();
  if (const auto& peer = card.disaggregated_endpoint) {
    json.Key("disaggregated_endpoint").BeginObject();
    json.Key("bootstrap_host").Text(peer->bootstrap_host);
    json.Key("bootstrap_port").Number(peer->bootstrap_port).EndObject();
  }
  json.Key("enable_eagle").Bool(false);
  if (card.stable_routing_id) {
    json.Key("stable_routing_id").Text(*card.stable_routing_id);
  }
  json.EndObject();
}

void AppendU32(std::string& out, std::uint64_t number) {
  char bytes[4];
  StoreBytes(bytes, number, sizeof(bytes));
  out.append(bytes, sizeof(bytes));
}

char WorkerTypeByte(std::string_view type) {
  constexpr std::string_view kTypes[] = {"", "prefill", "decode", "encode", "aggregated"};
  char index = 0;
  for (const std::string_view known : kTypes) {
    if (known == type) {
      return index;
    }
    ++index;
  }
  return 0;
}

}  // namespace

std::string EncodeCard(const ModelCard& card) {
  JsonWriter json;
  json.BeginObject().Key("display_name").Text(card.display_name).Key("slug").Text(card.slug);
  if (card.source_path) {
    json.Key("source_path").Text(*card.source_path);
  }
  WriteFile(json, "model_info", "hf_config_json", card.config);
  WriteFile(json, "tokenizer", "hf_tokenizer_json", card.tokenizer);
  WriteFile(json, "prompt_formatter", "hf_tokenizer_config_json", card.tokenizer_config);
  WriteFile(json, "gen_config", "hf_generation_config_json", card.generation_config);
  if (card.architectural_max_context_length) {
    json.Key("architectural_max_context_length").Number(*card.architectural_max_context_length);
  }
  json.Key("kv_cache_block_size").Number(card.kv_cache_block_size);
  json.Key("migration_limit").Number(card.migration_limit);
  json.Key("model_type").Text(card.model_type).Key("model_input").Text("Tokens");
  json.Key("worker_type").Text(card.worker_type).Key("needs").BeginArray();
  for (const std::vector<std::string>& alternative : card.needs) {
    json.BeginArray();
    for (const std::string& peer : alternative) {
      json.Text(peer);
    }
    json.EndArray();
  }
  json.EndArray().Key("runtime_config");
  WriteRuntimeConfig(json, card);
  json.Key("media_decoder").Null().Key("media_fetcher").Null().EndObject();
  return json.Take();
}

std::string MdcSumInput(const ModelCard& card) {
  std::string input = card.display_name;
  input += card.source_path.value_or("");
  for (const auto* file :
       {&card.config, &card.tokenizer, &card.tokenizer_config, &card.generation_config}) {
    if (*file) {
      input += (*file)->checksum;
    }
  }
  // The effective context is that of runtime_config whenever it is set, and EncodeCard always sets
  // it.
  AppendU32(input, card.context_length);
  AppendU32(input, card.kv_cache_block_size);
  input += WorkerTypeByte(card.worker_type);
  AppendU32(input, card.needs.size());
  for (const std::vector<std::string>& alternative : card.needs) {
    AppendU32(input, alternative.size());
    for (const std::string& peer : alternative) {
      input += WorkerTypeByte(peer);
    }
  }
  return input;
}

std::string MdcSum(const ModelCard& card) {
  return Blake3Hex(MdcSumInput(card));
}

}  // namespace understudy::transport
