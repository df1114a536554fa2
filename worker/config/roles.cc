#include "worker/config/roles.h"

#include "worker/config/port_list.h"

#include <arpa/inet.h>
#include <array>
#include <memory>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace understudy::worker {
namespace {

using mocker::WorkerType;

constexpr std::size_t kHostNameBytesMax = 256;

const char* NameOf(WorkerType role) {
  switch (role) {
    case WorkerType::kPrefill:
      return "prefill";
    case WorkerType::kDecode:
      return "decode";
    case WorkerType::kAggregated:
      break;
  }
  return "aggregated";
}

}  // namespace

Result<std::optional<WorkerType>> AskedRole(const RoleFlags& flags,
                                            std::vector<std::string>& warnings) {
  if (flags.disaggregation_mode && (flags.is_prefill_worker || flags.is_decode_worker)) {
    return Fail(Errc::kInvalidConfig,
                "Cannot combine --is-prefill-worker/--is-decode-worker with "
                "--disaggregation-mode. Use only --disaggregation-mode.");
  }
  if (flags.is_prefill_worker && flags.is_decode_worker) {
    return Fail(Errc::kInvalidConfig,
                "Cannot specify both --is-prefill-worker and --is-decode-worker. A worker must be "
                "either prefill, decode, or aggregated (neither flag set).");
  }
  if (flags.is_prefill_worker || flags.is_decode_worker) {
    const std::string name = flags.is_prefill_worker ? "prefill" : "decode";
    warnings.push_back("--is-" + name + "-worker is deprecated, use --disaggregation-mode " + name);
    return flags.is_prefill_worker ? WorkerType::kPrefill : WorkerType::kDecode;
  }
  if (!flags.disaggregation_mode) {
    return std::nullopt;
  }
  if (*flags.disaggregation_mode == "agg") {
    return WorkerType::kAggregated;
  }
  return *flags.disaggregation_mode == "prefill" ? WorkerType::kPrefill : WorkerType::kDecode;
}

Result<WorkerType> RoleOf(std::optional<WorkerType> asked, WorkerType in_file) {
  if (asked && in_file != WorkerType::kAggregated && *asked != in_file) {
    return Fail(Errc::kInvalidConfig,
                std::string("--disaggregation-mode says ") + NameOf(*asked) +
                    ", --extra-engine-args says worker_type " + NameOf(in_file));
  }
  return asked.value_or(in_file);
}

Result<std::vector<std::uint16_t>> BootstrapPorts(const RoleFlags& flags,
                                                  std::optional<std::uint16_t> in_file,
                                                  std::uint32_t workers,
                                                  WorkerType role) {
  std::vector<std::uint16_t> ports;
  if (flags.bootstrap_ports && !flags.bootstrap_ports->empty()) {
    UNDERSTUDY_TRY(
        ports, ParsePortList("--bootstrap-ports", *flags.bootstrap_ports, workers, /*lowest=*/0));
  } else if (in_file) {
    ports.assign(workers, *in_file);
    if (workers > 1 && *in_file != 0 && role == WorkerType::kPrefill) {
      return Fail(Errc::kInvalidConfig,
                  "bootstrap_port " + std::to_string(*in_file) + " cannot be that of " +
                      std::to_string(workers) + " workers: give --bootstrap-ports");
    }
  }
  return role == WorkerType::kPrefill ? ports : std::vector<std::uint16_t>();
}

Result<std::string> BootstrapHost(const Environment& env) {
  if (auto host = Text(env, "DYN_HTTP_RPC_HOST", ""); !host.empty()) {
    return host;
  }
  std::array<char, kHostNameBytesMax> name{};
  gethostname(name.data(), name.size() - 1);
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(name.data(), nullptr, &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  std::array<char, INET_ADDRSTRLEN> text{};
  if (failed != 0 || found == nullptr ||
      getnameinfo(found->ai_addr,
                  found->ai_addrlen,
                  text.data(),
                  text.size(),
                  nullptr,
                  0,
                  NI_NUMERICHOST) != 0) {
    return Fail(Errc::kUnavailable,
                std::string("host name '") + name.data() +
                    "' has no IPv4 address for decode workers (DYN_HTTP_RPC_HOST sets one): " +
                    (failed != 0 ? gai_strerror(failed) : "none found"));
  }
  return std::string(text.data());
}

}  // namespace understudy::worker
