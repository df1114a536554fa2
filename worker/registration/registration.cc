#include "worker/registration/registration.h"

#include "worker/registration/subjects.h"
#include "worker/request_path/service_info.h"

#include <random>
#include <set>
#include <utility>

namespace understudy::worker {
namespace {

constexpr std::uint64_t kId63Bits = 0x7FFF'FFFF'FFFF'FFFF;
/// Each is a subscription, and each of those costs a look at every wake-up of the connection.
constexpr std::size_t kPlainQuerySubjectsMax = 8;

std::uint64_t RandomId() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) & kId63Bits;
}

void DeclareRole(transport::ModelCard& card, mocker::WorkerType role) {
  switch (role) {
    case mocker::WorkerType::kAggregated:
      return;
    case mocker::WorkerType::kPrefill:
      card.model_type = "";
      card.worker_type = "prefill";
      card.needs = {{"decode"}};
      return;
    case mocker::WorkerType::kDecode:
      card.worker_type = "decode";
      card.needs = {{"prefill"}};
      return;
  }
}

}  // namespace

std::vector<WorkerIdentity> MakeIdentities(const WorkerConfig& config, std::uint64_t lease_id) {
  const auto& name = config.endpoint;
  const auto service = ServiceName(name.ns, name.component);
  if (config.workers == 1) {
    return {{lease_id, service + "." + name.endpoint + "-" + transport::HexId(lease_id), {}}};
  }
  const auto token = "p" + transport::HexId(RandomId());
  std::set<std::uint64_t> ids;
  while (ids.size() < config.workers) {
    if (const auto id = RandomId(); id != 0) {
      ids.insert(id);
    }
  }
  std::vector<WorkerIdentity> workers;
  for (const auto id : ids) {
    workers.push_back(
        {id, service + "." + token + "." + name.endpoint + "-" + transport::HexId(id), {}});
  }
  return workers;
}

std::string RequestSubject(const std::vector<WorkerIdentity>& workers) {
  const auto& first = workers.front().subject;
  return workers.size() == 1 ? first : Wildcard(first);
}

Result<transport::ModelCard> MakeCard(const WorkerConfig& config) {
  transport::ModelCard card;
  const auto& options = config.options;
  if (options.model_path) {
    UNDERSTUDY_TRY(card, transport::LoadModelFolder(*options.model_path, options.model_name));
  } else {
    card.display_name =
        options.model_name.value_or("dynamo");  // as the reference names a worker without a model
    card.slug = transport::Slugify(card.display_name);
  }
  // What the card of 1.3 says of an engine without these limits; that of 1.6 says nothing.
  constexpr std::uint64_t kUnlimitedSeqs = 256;
  constexpr std::uint64_t kUnlimitedTokens = 8192;
  const auto& engine = config.args.engine;
  card.kv_cache_block_size = engine.block_size;
  card.total_kv_blocks = engine.num_gpu_blocks;
  card.context_length = static_cast<std::uint32_t>(engine.max_model_len.value_or(0));
  DeclareRole(card, engine.worker_type);
  const bool tells_defaults = engine.semantics == mocker::SemanticsRelease::k13;
  card.max_num_seqs = engine.max_num_seqs.value_or(tells_defaults ? kUnlimitedSeqs : 0);
  card.max_num_batched_tokens =
      engine.max_num_batched_tokens.value_or(tells_defaults ? kUnlimitedTokens : 0);
  card.data_parallel_size = config.dp_size;
  card.stable_routing_id = config.stable_routing_id;
  return card;
}

void DeclareKvEvents(transport::ModelCard& card,
                     const ReleaseProfile& profile,
                     bool published,
                     bool indexed) {
  card.enable_local_indexer = published && indexed;
  if (profile.card_says_publishing) {
    card.kv_event_publishing_enabled = published;
  }
}

std::vector<QueryEndpoint> MakeQueryEndpoints(const WorkerConfig& config,
                                              const ReleaseProfile& profile,
                                              const std::vector<KvSource>& sources) {
  auto prefix = ServiceName(config.endpoint.ns, config.endpoint.component) + ".";
  if (sources.size() > kPlainQuerySubjectsMax) {
    prefix += "q" + transport::HexId(RandomId()) + ".";
  }
  QueryPlace place;
  place.endpoint = config.endpoint;
  place.device_type = config.device_type;
  place.subject_prefix = std::move(prefix);
  return MakeQueryEndpoints(place, profile, sources);
}

std::vector<std::string> QuerySubjects(const std::vector<QueryEndpoint>& endpoints) {
  return SubjectsOf(endpoints, endpoints.size() > kPlainQuerySubjectsMax);
}

Registration MakeRegistration(const WorkerConfig& config,
                              const ReleaseProfile& profile,
                              const transport::ModelCard& card,
                              const std::vector<WorkerIdentity>& workers,
                              std::vector<transport::Record> channels,
                              const std::vector<QueryEndpoint>& queries) {
  Registration registration;
  registration.records = std::move(channels);
  transport::ModelCard own = card;
  for (const auto& worker : workers) {
    own.disaggregated_endpoint = worker.bootstrap;
    registration.records.push_back(
        transport::EncodeModel(config.endpoint, worker.instance_id, own));
  }
  for (const auto& query : queries) {
    registration.records.push_back(transport::EncodeInstance(query.instance));
  }
  for (const auto& query : queries) {
    if (query.source) {
      registration.records.push_back(transport::EncodeEventSource(*query.source));
    }
  }
  for (const auto& worker : workers) {
    transport::InstanceRecord instance;
    instance.name = config.endpoint;
    instance.instance_id = worker.instance_id;
    instance.transport_value = worker.subject;
    instance.device_type = config.device_type;
    instance.request_plane_codec = profile.request_plane_codec;
    registration.records.push_back(transport::EncodeInstance(instance));
    registration.instance_keys.push_back(registration.records.back().key);
  }
  return registration;
}

}  // namespace understudy::worker
