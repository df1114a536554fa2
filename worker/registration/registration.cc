#include "worker/registration/registration.h"

#include "worker/request_path/service_info.h"

#include <random>
#include <set>

namespace understudy::worker {
namespace {

constexpr std::uint64_t kId63Bits = 0x7FFF'FFFF'FFFF'FFFF;

std::uint64_t RandomId() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) & kId63Bits;
}

}  // namespace

std::vector<WorkerIdentity> MakeIdentities(const WorkerConfig& config, std::uint64_t lease_id) {
  const auto& name = config.endpoint;
  const auto service = ServiceName(name.ns, name.component);
  if (config.workers == 1) {
    return {{lease_id, service + "." + name.endpoint + "-" + transport::HexId(lease_id)}};
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
        {id, service + "." + token + "." + name.endpoint + "-" + transport::HexId(id)});
  }
  return workers;
}

std::string RequestSubject(const std::vector<WorkerIdentity>& workers) {
  const auto& first = workers.front().subject;
  return workers.size() == 1 ? first : first.substr(0, first.rfind('.')) + ".*";
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
  card.kv_cache_block_size = config.block_size;
  card.total_kv_blocks = static_cast<std::uint64_t>(options.num_gpu_blocks);
  card.max_num_seqs = static_cast<std::uint64_t>(options.max_num_seqs);
  card.max_num_batched_tokens = static_cast<std::uint64_t>(options.max_num_batched_tokens);
  card.data_parallel_size = config.dp_size;
  card.enable_local_indexer = false;  // no KV events and no query endpoint in this version: the
                                      // router must not wait for them
  card.stable_routing_id = config.stable_routing_id;
  return card;
}

Registration MakeRegistration(const WorkerConfig& config,
                              const ReleaseProfile& profile,
                              const transport::ModelCard& card,
                              const std::vector<WorkerIdentity>& workers) {
  Registration registration;
  for (const auto& route : profile.load_routes) {
    registration.records.push_back(route.channel);
  }
  for (const auto& worker : workers) {
    registration.records.push_back(
        transport::EncodeModel(config.endpoint, worker.instance_id, card));
  }
  for (const auto& worker : workers) {
    transport::InstanceRecord instance;
    instance.name = config.endpoint;
    instance.instance_id = worker.instance_id;
    instance.transport_value = worker.subject;
    instance.device_type = config.device_type;
    registration.records.push_back(transport::EncodeInstance(instance));
    registration.instance_keys.push_back(registration.records.back().key);
  }
  return registration;
}

}  // namespace understudy::worker
