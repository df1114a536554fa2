// Discovery records and the model card. Pure, any thread (LoadModelFolder reads files).
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/discovery.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::transport {

/// Lower-case hexadecimal without leading zeros, as in keys and subjects.
[[nodiscard]] std::string HexId(std::uint64_t id);

/// namespace.component.endpoint. Source: wire.md 1.
struct EndpointName {
  std::string ns;
  std::string component;
  std::string endpoint;
  [[nodiscard]] std::string Dotted() const { return ns + "." + component + "." + endpoint; }
};
/// `dyn://ns.component.endpoint`, the prefix optional. kInvalidConfig: `Invalid in= option
/// '<text>'` for a wrong form, or the name that breaks ^[a-z0-9-_]+$ .
[[nodiscard]] Result<EndpointName> ParseEndpointName(std::string_view text);

struct InstanceRecord {
  EndpointName name;
  std::uint64_t instance_id = 0;
  std::string transport_kind = "nats_tcp";         ///< or "tcp"
  std::string transport_value;                     ///< subject, or host:port/path
  std::optional<std::string> device_type;          ///< "cuda", "cpu"
  std::optional<std::string> request_plane_codec;  ///< 1.6: "json", "msgpack"
};
[[nodiscard]] Record EncodeInstance(const InstanceRecord& instance);
[[nodiscard]] Result<InstanceRecord> DecodeInstance(std::string_view json);

/// A file of the model folder: `blake3:<64 hex>` over its bytes.
struct CardFile {
  std::string path;
  std::string checksum;
  std::optional<std::uint64_t> size;
};

/// Where decode workers reach a prefill worker.
struct DisaggregatedEndpoint {
  std::string bootstrap_host;
  std::uint16_t bootstrap_port = 0;
};

/// The model deployment card. Source: wire.md 3; dynamo-llm model_card.rs,
/// vectors/wire/mdc_sum.json.
struct ModelCard {
  std::string display_name;
  std::string slug;
  std::optional<std::string> source_path;
  std::optional<CardFile> config, tokenizer, tokenizer_config, generation_config;
  std::optional<std::uint32_t> architectural_max_context_length;
  std::uint32_t kv_cache_block_size = 0;
  std::uint32_t migration_limit = 0;
  std::string model_type = "Chat | Completions";
  std::string worker_type = "aggregated";
  std::vector<std::vector<std::string>> needs;
  // runtime_config
  std::uint64_t total_kv_blocks = 0;
  std::uint64_t max_num_seqs = 0;
  std::uint64_t max_num_batched_tokens = 0;
  std::uint32_t data_parallel_size = 1;
  bool enable_local_indexer = false;
  std::optional<bool> kv_event_publishing_enabled;  ///< 1.6
  std::uint32_t context_length = 0;
  std::optional<DisaggregatedEndpoint> disaggregated_endpoint;
  std::optional<std::string> stable_routing_id;
};
/// Lower case; every character outside a-z 0-9 - _ becomes `_`; leading `_` removed.
[[nodiscard]] std::string Slugify(std::string_view name);
/// Fills the files, checksums and context length from a local model folder (config.json,
/// tokenizer.json, ...). kInvalidConfig names the folder or file.
[[nodiscard]] Result<ModelCard> LoadModelFolder(const std::string& folder,
                                                const std::optional<std::string>& name);
[[nodiscard]] std::string EncodeCard(
    const ModelCard& card);  ///< card_json, the key order of the real mocker
[[nodiscard]] Record EncodeModel(const EndpointName& name,
                                 std::uint64_t instance_id,
                                 const ModelCard& card);
/// The bytes that are hashed, and the hash in hex, as the frontend computes it.
[[nodiscard]] std::string MdcSumInput(const ModelCard& card);
[[nodiscard]] std::string MdcSum(const ModelCard& card);

}  // namespace understudy::transport
