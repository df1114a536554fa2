#include "worker/event_side/zmq_brokers.h"

#include "understudy/transport/event_records.h"
#include "worker/config/text_list.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace understudy::worker {
namespace {

constexpr const char* kUrl = "DYN_ZMQ_BROKER_URL";
constexpr const char* kEnabled = "DYN_ZMQ_BROKER_ENABLED";

/// The parts that say something, without blanks around them.
std::vector<std::string_view> Parts(std::string_view text, char separator) {
  std::vector<std::string_view> parts = SplitList(text, separator);
  std::transform(
      parts.begin(), parts.end(), parts.begin(), [](auto part) { return Trimmed(part); });
  std::erase_if(parts, [](auto part) { return part.empty(); });
  return parts;
}

Result<ZmqBrokers> ParseUrl(const std::string& url) {
  constexpr std::string_view kXsub = "xsub=";
  constexpr std::string_view kXpub = "xpub=";
  ZmqBrokers brokers;
  bool good = true;
  for (const std::string_view list : Parts(url, ',')) {
    const bool in = list.starts_with(kXsub);
    if (!in && !list.starts_with(kXpub)) {
      good = false;
      break;
    }
    for (const std::string_view endpoint : Parts(list.substr(kXsub.size()), ';')) {
      good = good && endpoint.find("://") != std::string_view::npos;
      (in ? brokers.xsub : brokers.xpub).emplace_back(endpoint);
    }
  }
  if (!good || brokers.xsub.empty() || brokers.xpub.empty()) {
    return Fail(Errc::kInvalidConfig,
                std::string(kUrl) + " '" + url +
                    "' is not understood (expected: xsub=<endpoint>[;<endpoint>...], "
                    "xpub=<endpoint>[;<endpoint>...], each like tcp://host:port)");
  }
  return brokers;
}

}  // namespace

Result<ZmqBrokers> ZmqBrokersFromEnvironment(const Environment& env) {
  if (const std::string url = Text(env, kUrl, ""); !url.empty()) {
    return ParseUrl(url);
  }
  ZmqBrokers brokers;
  brokers.in_discovery = Flag(env, kEnabled, false);
  return brokers;
}

bool AddBrokersOf(const std::vector<transport::Record>& records,
                  const std::string& ns,
                  ZmqBrokers& brokers) {
  bool any = false;
  for (const auto& record : records) {
    const auto found = transport::DecodeEventChannel(record.value);
    if (found && found->transport.kind == transport::EventTransport::Kind::kZmqBroker &&
        found->channel.place.ns == ns &&
        found->channel.place.component == transport::kZmqBrokerComponent) {
      const auto& [kind, address, xsub, xpub] = found->transport;
      brokers.xsub.insert(brokers.xsub.end(), xsub.begin(), xsub.end());
      brokers.xpub.insert(brokers.xpub.end(), xpub.begin(), xpub.end());
      any = true;
    }
  }
  return any;
}

void StartWithBrokers(transport::Discovery& discovery,
                      const std::string& ns,
                      ZmqBrokers& brokers,
                      std::function<void(const Result<std::uint64_t>&)> done) {
  discovery.Start(
      [&discovery, ns, &brokers, done = std::move(done)](const Result<std::uint64_t>& lease) {
        if (!lease || !brokers.in_discovery) {
          done(lease);
          return;
        }
        discovery.List(
            "v1/event_channels/",
            [ns, &brokers, done, lease](const Result<std::vector<transport::Record>>& all) {
              if (!all) {
                done(FailWith("the brokers of the event plane cannot be looked up", all.error()));
              } else if (!AddBrokersOf(*all, ns, brokers)) {
                done(Fail(Errc::kUnavailable,
                          std::string(kEnabled) +
                              " is set, and discovery knows no broker of namespace '" + ns + "' (" +
                              kUrl + " names them directly)"));
              } else {
                done(lease);
              }
            });
      });
}

}  // namespace understudy::worker
