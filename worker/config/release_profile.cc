#include "worker/config/release_profile.h"

#include <random>

namespace understudy::worker {
namespace {

using transport::EventScope;

constexpr std::uint64_t kAnyId = ~std::uint64_t{0};
constexpr std::uint64_t kExactInDouble = (std::uint64_t{1} << 53U) - 1;

ReleaseWire Wire13() {
  ReleaseWire wire;
  wire.name = "1.3";
  wire.kv_scope = EventScope::kComponent;
  wire.load_scope = EventScope::kNamespace;
  wire.answers = transport::kKvAnswerForm13;
  wire.publisher_id_mask = kAnyId;
  return wire;
}

ReleaseWire Wire16() {
  ReleaseWire wire;
  wire.name = "1.6";
  wire.kv_scope = EventScope::kEndpoint;
  wire.load_scope = EventScope::kEndpoint;
  wire.answers = transport::kKvAnswerForm16;
  wire.publisher_id_mask = kExactInDouble;
  wire.has_sources = true;
  wire.has_sequence_events = true;
  return wire;
}

std::uint64_t RandomId(std::uint64_t mask) {
  std::random_device device;
  std::uint64_t id = 0;
  while (id == 0) {
    id = (std::uint64_t{device()} << 32U | device()) & mask;
  }
  return id;
}

}  // namespace

Result<ReleaseProfile> MakeReleaseProfile(const std::string& release,
                                          const transport::EndpointName& endpoint) {
  ReleaseProfile profile;
  profile.name = release;
  const bool both = release == "both";
  if (both || release == "1.3") {
    profile.wires.push_back(Wire13());
    profile.service_version = "1.3.0+post1";
  }
  if (both || release == "1.6") {
    profile.wires.push_back(Wire16());
    profile.service_version = both ? profile.service_version : "1.6.1";
    profile.request_plane_codec = "msgpack";
    profile.card_says_publishing = true;
    profile.merges_units = !both;
    profile.kv_conversion = kKvConversion16;
  }
  if (profile.wires.empty()) {
    return Fail(Errc::kInvalidConfig,
                "--dynamo-release '" + release + "' is not known (allowed: 1.3, 1.6, both)");
  }
  if (both && endpoint.ns == "namespace") {
    return Fail(
        Errc::kInvalidConfig,
        "namespace 'namespace' needs --dynamo-release 1.3 or 1.6: the records of both would "
        "share keys");
  }
  return profile;
}

transport::EventChannel NewChannel(const ReleaseWire& wire,
                                   const std::string& topic,
                                   const transport::EndpointName& endpoint) {
  transport::EventChannel channel;
  channel.scope = topic == kLoadTopic ? wire.load_scope : wire.kv_scope;
  channel.place = endpoint;
  channel.topic = topic;
  channel.publisher_id = RandomId(wire.publisher_id_mask);
  return channel;
}

std::string QueryEndpointName(const ReleaseWire& wire,
                              std::uint32_t dp_rank,
                              std::uint64_t publisher_id) {
  return wire.has_sources ? "worker_kv_query_source_" + transport::HexId(publisher_id)
                          : "worker_kv_indexer_query_dp" + std::to_string(dp_rank);
}

}  // namespace understudy::worker
