#include "worker/request_path/service_info.h"

#include "understudy/transport/records.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <random>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using Json = nlohmann::ordered_json;

std::string NowRfc3339() {
  const auto now = std::chrono::system_clock::now();
  const auto nanos =
      std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count() %
      1'000'000'000;
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[48];
  const auto n = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text + n, sizeof(text) - n, ".%09ldZ", static_cast<long>(nanos));
  return text;
}

std::string RandomId() {
  constexpr std::string_view kAlphabet =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::random_device device;
  std::uniform_int_distribution<std::size_t> pick(0, kAlphabet.size() - 1);
  std::string id;
  for (int i = 0; i < 22; ++i) {
    id += kAlphabet[pick(device)];
  }
  return id;
}

Json EndpointInfo(const EndpointCounts& endpoint) {
  auto name = endpoint.subject;
  std::replace(name.begin(), name.end(), '.', '-');
  return {{"name", name}, {"subject", endpoint.subject}};
}

}  // namespace

ServiceIdentity NewServiceIdentity(const std::string& ns,
                                   const std::string& component,
                                   const std::string& version) {
  return {ns, component, version, RandomId(), NowRfc3339()};
}

std::string ServiceName(const std::string& ns, const std::string& component) {
  return transport::Slugify(ns + "_" + component);
}

std::string ServiceReply(const std::string& verb,
                         const ServiceIdentity& identity,
                         const std::vector<EndpointCounts>& endpoints) {
  auto lower = verb;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  Json reply = {{"type", "io.nats.micro.v1." + lower + "_response"},
                {"name", ServiceName(identity.ns, identity.component)},
                {"id", identity.id}};
  if (verb == "INFO") {
    reply["description"] =
        "Dynamo component " + identity.component + " in namespace " + identity.ns;
  }
  reply["version"] = identity.version;
  if (verb == "STATS") {
    reply["started"] = identity.started;
  } else {
    reply["metadata"] = Json::object();
  }
  if (verb == "PING") {
    return reply.dump();
  }
  reply["endpoints"] = Json::array();
  for (const auto& endpoint : endpoints) {
    auto entry = EndpointInfo(endpoint);
    if (verb == "STATS") {
      entry["num_requests"] = endpoint.requests;
      entry["num_errors"] = endpoint.errors;
      entry["processing_time"] = endpoint.processing_ns;
      entry["average_processing_time"] =
          endpoint.requests == 0 ? 0 : endpoint.processing_ns / endpoint.requests;
      entry["last_error"] = "";
      entry["queue_group"] = "q";
    } else {
      entry["queue_group"] = "q";
      entry["metadata"] = Json::object();
    }
    reply["endpoints"].push_back(std::move(entry));
  }
  return reply.dump();
}

void ServeServiceInfo(transport::NatsClient& nats,
                      ServiceIdentity identity,
                      std::function<std::vector<EndpointCounts>()> endpoints) {
  const auto name = ServiceName(identity.ns, identity.component);
  for (const std::string verb : {"PING", "INFO", "STATS"}) {
    for (const auto& subject : {"$SRV." + verb,
                                "$SRV." + verb + "." + name,
                                "$SRV." + verb + "." + name + "." + identity.id}) {
      nats.Subscribe(
          subject, "", [&nats, verb, identity, endpoints](const transport::NatsMessage& message) {
            if (!message.reply.empty()) {
              const auto text = ServiceReply(verb, identity, endpoints());
              // A caller that cannot be answered asks again; nothing of ours depends on it.
              static_cast<void>(
                  nats.Publish(std::string(message.reply), std::as_bytes(std::span(text))));
            }
          });
    }
  }
}

}  // namespace understudy::worker
