// Which records a worker process writes, in which order. Source: wire.md 2.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/records.h"
#include "worker/config/release_profile.h"
#include "worker/config/worker_options.h"
#include "worker/registration/query_endpoints.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace understudy::worker {

struct WorkerIdentity {
  std::uint64_t instance_id = 0;
  std::string subject;  ///< NATS subject of `generate`, written into the instance record
  std::optional<transport::DisaggregatedEndpoint> bootstrap{};  ///< of a prefill worker
};

/// One worker: the lease id and `<ns>_<component>.<endpoint>-<hex>`. Several: random 63-bit ids,
/// and a token of the process in the subject so that one wildcard subscription serves all.
[[nodiscard]] std::vector<WorkerIdentity> MakeIdentities(const WorkerConfig& config,
                                                         std::uint64_t lease_id);
/// What to subscribe to: the subject itself, or `<ns>_<component>.<token>.*`.
[[nodiscard]] std::string RequestSubject(const std::vector<WorkerIdentity>& workers);

/// The card of the workers, but for what differs between them; reads the model folder.
/// kInvalidConfig names what is missing.
[[nodiscard]] Result<transport::ModelCard> MakeCard(const WorkerConfig& config);

/// Says in the card what routers may expect: KV events, and that they can be asked for again.
void DeclareKvEvents(transport::ModelCard& card,
                     const ReleaseProfile& profile,
                     bool published,
                     bool indexed);

/// One for each of `sources`, in their order. Few of them have subjects like other endpoints, each
/// with a subscription of its own; many share a token of the process.
[[nodiscard]] std::vector<QueryEndpoint> MakeQueryEndpoints(const WorkerConfig& config,
                                                            const ReleaseProfile& profile,
                                                            const std::vector<KvSource>& sources);
/// What to subscribe to for all of them.
[[nodiscard]] std::vector<std::string> QuerySubjects(const std::vector<QueryEndpoint>& endpoints);

struct Registration {
  std::vector<transport::Record>
      records;  ///< in the order of writing: channels, cards, query endpoints, sources, instances
  std::vector<std::string> instance_keys;  ///< what a drain deletes first
};
[[nodiscard]] Registration MakeRegistration(const WorkerConfig& config,
                                            const ReleaseProfile& profile,
                                            const transport::ModelCard& card,
                                            const std::vector<WorkerIdentity>& workers,
                                            std::vector<transport::Record> channels,
                                            const std::vector<QueryEndpoint>& queries);

}  // namespace understudy::worker
