#include "worker/event_side/zmq_brokers.h"

#include "understudy/transport/event_records.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace understudy::worker {
namespace {

constexpr const char* kUrl = "DYN_ZMQ_BROKER_URL";
constexpr const char* kEnabled = "DYN_ZMQ_BROKER_ENABLED";

std::string_view Trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

/// Calls f with each trimmed part that is not empty.
template <class F>
void Split(std::string_view text, char separator, F&& f) {
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    if (const auto part = Trimmed(text.substr(0, end)); !part.empty()) {
      f(part);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

Result<ZmqBrokers> ParseUrl(const std::string& url) {
  ZmqBrokers brokers;
  bool good = true;
  Split(url, ',', [&](std::string_view list) {
    const bool in = list.starts_with("xsub=");
    good = good && (in || list.starts_with("xpub="));
    Split(list.substr(std::min<std::size_t>(5, list.size())), ';', [&](std::string_view endpoint) {
      good = good && endpoint.find("://") != std::string_view::npos;
      (in ? brokers.xsub : brokers.xpub).emplace_back(endpoint);
    });
  });
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

void FindZmqBrokers(transport::Discovery& discovery,
                    const std::string& ns,
                    ZmqBrokers& brokers,
                    std::function<void(const Status&)> done) {
  if (!brokers.in_discovery) {
    done({});
    return;
  }
  discovery.List(
      "v1/event_channels/",
      [ns, &brokers, done = std::move(done)](const Result<std::vector<transport::Record>>& all) {
        if (!all) {
          done(FailWith("the brokers of the event plane cannot be looked up", all.error()));
        } else if (!AddBrokersOf(*all, ns, brokers)) {
          done(Fail(Errc::kUnavailable,
                    std::string(kEnabled) +
                        " is set, and discovery knows no broker of namespace '" + ns + "' (" +
                        kUrl + " names them directly)"));
        } else {
          done({});
        }
      });
}

}  // namespace understudy::worker
