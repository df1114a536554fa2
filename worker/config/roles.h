// Which part of a request a worker takes on, and where its counterpart finds it.
#pragma once

#include "understudy/base/result.h"
#include "understudy/mocker/mocker_options.h"
#include "worker/config/environment.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace understudy::worker {

/// As flags say it. Names of `python -m dynamo.mocker` 1.3.0.
struct RoleFlags {
  std::optional<std::string> disaggregation_mode{};          ///< agg, prefill, decode
  bool is_prefill_worker = false, is_decode_worker = false;  ///< what it was called before
  std::optional<std::string> bootstrap_ports{};              ///< one per worker, commas
};

/// What the flags ask for; none: nothing. kInvalidConfig in the reference's words. Flags that were
/// renamed add to `warnings`.
[[nodiscard]] Result<std::optional<mocker::WorkerType>> AskedRole(
    const RoleFlags& flags, std::vector<std::string>& warnings);

/// The role of an engine whose arguments say `in_file`, which is aggregated also when they say
/// nothing. kInvalidConfig: flags and file name two different ones.
[[nodiscard]] Result<mocker::WorkerType> RoleOf(std::optional<mocker::WorkerType> asked,
                                                mocker::WorkerType in_file);

/// Where prefill workers listen, one port each, or nothing at all: what the flag says, else
/// `in_file`. Other roles never listen. kInvalidConfig: no list of ports, or not one per worker.
[[nodiscard]] Result<std::vector<std::uint16_t>> BootstrapPorts(
    const RoleFlags& flags,
    std::optional<std::uint16_t> in_file,
    std::uint32_t workers,
    mocker::WorkerType role);

/// What decode workers dial: DYN_HTTP_RPC_HOST, else the IPv4 address of our own host name. Asks
/// the resolver. kUnavailable: it has none.
[[nodiscard]] Result<std::string> BootstrapHost(const Environment& env);

}  // namespace understudy::worker
