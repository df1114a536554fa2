#include "worker/config/environment.h"

#include "worker/log/log.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace understudy::worker {
namespace {

constexpr std::string_view kTarget = "worker.config";
constexpr std::int64_t kLeaseTtlDefaultS = 10;  // 1.3.0; 30 in 1.6

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return text;
}

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const auto end = std::min(text.find(',', begin), text.size());
    auto part = text.substr(begin, end - begin);
    part.erase(0, part.find_first_not_of(" \t"));
    part.erase(part.find_last_not_of(" \t") + 1);
    if (!part.empty()) {
      parts.push_back(std::move(part));
    }
    begin = end + 1;
  }
  return parts;
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value =
        std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing sets variables after start
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::string Text(const Environment& env, const char* name, std::string fallback) {
  auto value = env(name);
  return value && !value->empty() ? *value : std::move(fallback);
}

bool Flag(const Environment& env, const char* name, bool fallback) {
  const auto value = Lower(Text(env, name, fallback ? "true" : "false"));
  return value == "true" || value == "1" || value == "on" || value == "yes";
}

std::int64_t Number(const Environment& env,
                    const char* name,
                    std::int64_t fallback,
                    std::int64_t least) {
  const auto value = Text(env, name, "");
  if (value.empty()) {
    return fallback;
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least) {
    Log(LogLevel::kWarn,
        kTarget,
        "bad value of a variable, the default is used",
        {{"variable", name},
         {"value", value},
         {"least", std::to_string(least)},
         {"default", std::to_string(fallback)}});
    return fallback;
  }
  return number;
}

std::string WorkerNamespace(const Environment& env) {
  auto name = Text(env, "DYN_NAMESPACE", "dynamo");
  if (const auto suffix = Text(env, "DYN_NAMESPACE_WORKER_SUFFIX", ""); !suffix.empty()) {
    name += "-" + suffix;
  }
  return name;
}

std::string DeviceType(const Environment& env) {
  if (const auto cuda = env("CUDA_VISIBLE_DEVICES")) {
    const auto value = Lower(*cuda);
    if (value.empty() || value == "-1" || value == "none" || value == "void") {
      return "cpu";
    }
  }
  if (const auto nvidia = env("NVIDIA_VISIBLE_DEVICES")) {
    const auto value = Lower(*nvidia);
    if (value == "none" || value == "void") {
      return "cpu";
    }
  }
  return "cuda";
}

transport::NatsOptions NatsFromEnvironment(const Environment& env) {
  transport::NatsOptions options;
  options.url = Text(env, "NATS_SERVER", options.url);
  options.user = env("NATS_AUTH_USERNAME");
  options.password = env("NATS_AUTH_PASSWORD");
  options.token = env("NATS_AUTH_TOKEN");
  return options;
}

Result<transport::EtcdOptions> EtcdFromEnvironment(const Environment& env) {
  transport::EtcdOptions options;
  if (auto endpoints = SplitList(Text(env, "ETCD_ENDPOINTS", "")); !endpoints.empty()) {
    options.endpoints = std::move(endpoints);
  }
  options.lease_ttl_s = Number(env, "ETCD_LEASE_TTL", kLeaseTtlDefaultS, 1);
  const auto user = Text(env, "ETCD_AUTH_USERNAME", "");
  const auto password = Text(env, "ETCD_AUTH_PASSWORD", "");
  if (!user.empty() && !password.empty()) {
    options.user = user;
    options.password = password;
  } else if (env("ETCD_AUTH_CA") || env("ETCD_AUTH_CLIENT_CERT") || env("ETCD_AUTH_CLIENT_KEY")) {
    return Fail(
        Errc::kInvalidConfig,
        "ETCD_AUTH_CA/CLIENT_CERT/CLIENT_KEY: TLS to etcd is not supported by this version; "
        "use http:// endpoints, with ETCD_AUTH_USERNAME and ETCD_AUTH_PASSWORD if needed");
  }
  return options;
}

transport::FileDiscoveryOptions FileDiscoveryFromEnvironment(const Environment& env) {
  transport::FileDiscoveryOptions options;
  std::error_code error;
  auto temporary = std::filesystem::temp_directory_path(error);
  options.root = Text(
      env, "DYN_FILE_KV", (error ? std::filesystem::path("/tmp") : temporary) / "dynamo_store_kv");
  return options;
}

Result<std::unique_ptr<transport::Discovery>> OpenDiscovery(transport::Loop& loop,
                                                            const std::string& backend,
                                                            const Environment& env) {
  if (backend == "etcd") {
    UNDERSTUDY_TRY(auto options, EtcdFromEnvironment(env));
    return transport::NewEtcdDiscovery(loop, std::move(options));
  }
  if (backend == "file") {
    return transport::NewFileDiscovery(loop, FileDiscoveryFromEnvironment(env));
  }
  return Fail(Errc::kInvalidConfig,
              "--discovery-backend '" + backend +
                  "' is not supported by this version (allowed: etcd, file)");
}

}  // namespace understudy::worker
