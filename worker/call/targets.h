// Instances in discovery: whom to call.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/discovery.h"
#include "understudy/transport/records.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace understudy::worker {

struct CallTarget {
  transport::InstanceRecord instance;
  std::string model;  ///< display name in its card; empty = no card
};

/// What discovery holds below a prefix, sorted by endpoint and id.
struct FoundTargets {
  std::vector<CallTarget> targets;
  std::vector<std::string> unreadable;  ///< `key: why` of records that were skipped
};

/// Joins the records of `v1/instances/...` and `v1/mdc/...`.
[[nodiscard]] FoundTargets JoinTargets(const std::vector<transport::Record>& instances,
                                       const std::vector<transport::Record>& models);

/// Those of `found` that serve `name`; with `instance` only that one. kUnavailable when there is
/// none: the text says what is there.
[[nodiscard]] Result<std::vector<CallTarget>> PickTargets(const FoundTargets& found,
                                                          const transport::EndpointName& name,
                                                          std::optional<std::uint64_t> instance);

/// kUnsupported: one of them serves another request plane than NATS.
[[nodiscard]] Status CheckRequestPlane(const std::vector<CallTarget>& targets);

}  // namespace understudy::worker
