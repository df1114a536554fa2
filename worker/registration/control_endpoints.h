// Where controllers reach the workers of a process.
#pragma once

#include "understudy/transport/records.h"
#include "worker/config/release_profile.h"
#include "worker/config/worker_options.h"
#include "worker/registration/registration.h"

#include <cstdint>
#include <string>
#include <vector>

namespace understudy::worker {

inline constexpr const char* kControlEndpoint = "control";
/// As Dynamo's vLLM and SGLang workers name it.
inline constexpr const char* kClearKvBlocksEndpoint = "clear_kv_blocks";

struct ControlEndpoint {
  std::uint32_t worker = 0;
  bool clears_only = false;  ///< clear_kv_blocks
  transport::InstanceRecord instance;
};

/// Two for each worker, under its instance id, but not one that is named like the endpoint that
/// serves requests. Subjects as in MakeIdentities, with a token of their own.
[[nodiscard]] std::vector<ControlEndpoint> MakeControlEndpoints(
    const WorkerConfig& config,
    const ReleaseProfile& profile,
    const std::vector<WorkerIdentity>& workers);

/// What to subscribe to for all of them.
[[nodiscard]] std::vector<std::string> ControlSubjects(
    const std::vector<ControlEndpoint>& endpoints, std::size_t workers);

}  // namespace understudy::worker
