// Environment variables of Dynamo that the worker obeys. Source: wire.md 1.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/base/result.h"
#include "understudy/transport/discovery.h"
#include "understudy/transport/nats.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace understudy::worker {

/// Looks a variable up; nullopt = unset. Tests pass a map.
using Environment = std::function<std::optional<std::string>(const char* name)>;
[[nodiscard]] Environment ProcessEnvironment();

/// Unset or empty gives `fallback`.
[[nodiscard]] std::string Text(const Environment& env, const char* name, std::string fallback);
/// true, 1, on, yes (any case) / everything else false; unset or empty gives `fallback`.
[[nodiscard]] bool Flag(const Environment& env, const char* name, bool fallback);
/// Whole number >= `least`; garbage or less gives `fallback` and a warning line that names the
/// variable and the value.
[[nodiscard]] std::int64_t Number(const Environment& env,
                                  const char* name,
                                  std::int64_t fallback,
                                  std::int64_t least);

/// DYN_NAMESPACE (default `dynamo`), with `-<DYN_NAMESPACE_WORKER_SUFFIX>` behind it if that is
/// set.
[[nodiscard]] std::string WorkerNamespace(const Environment& env);
/// "cuda", or "cpu" when CUDA_VISIBLE_DEVICES or NVIDIA_VISIBLE_DEVICES hides every device.
[[nodiscard]] std::string DeviceType(const Environment& env);

[[nodiscard]] transport::NatsOptions NatsFromEnvironment(const Environment& env);
[[nodiscard]] Result<transport::EtcdOptions> EtcdFromEnvironment(const Environment& env);
[[nodiscard]] transport::FileDiscoveryOptions FileDiscoveryFromEnvironment(const Environment& env);

/// `backend` is etcd or file. kInvalidConfig names the option, the value and what is allowed.
[[nodiscard]] Result<std::unique_ptr<transport::Discovery>> OpenDiscovery(
    transport::Loop& loop, const std::string& backend, const Environment& env);

}  // namespace understudy::worker
