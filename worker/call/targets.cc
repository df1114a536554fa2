#include "worker/call/targets.h"

#include <algorithm>
#include <tuple>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

constexpr std::size_t kNamedMax = 10;  // in an error text

/// `<ns>/<component>/<endpoint>/<hex id>` behind the first two parts of a key.
std::string PlaceOf(const std::string& key) {
  const auto second = key.find('/', key.find('/') + 1);
  return second == std::string::npos ? std::string() : key.substr(second + 1);
}

std::string DisplayNameOf(const std::string& value) {
  const auto model = nlohmann::json::parse(value, nullptr, false);
  if (!model.is_object() || !model.contains("card_json") || !model["card_json"].is_object()) {
    return {};
  }
  const auto& card = model["card_json"];
  return card.contains("display_name") && card["display_name"].is_string()
             ? card["display_name"].get<std::string>()
             : std::string();
}

}  // namespace

FoundTargets JoinTargets(const std::vector<transport::Record>& instances,
                         const std::vector<transport::Record>& models) {
  std::map<std::string, std::string> names;
  for (const auto& record : models) {
    names[PlaceOf(record.key)] = DisplayNameOf(record.value);
  }
  FoundTargets found;
  for (const auto& record : instances) {
    auto instance = transport::DecodeInstance(record.value);
    if (!instance) {
      found.unreadable.push_back(record.key + ": " + instance.error().message);
      continue;
    }
    CallTarget target;
    if (const auto name = names.find(PlaceOf(record.key)); name != names.end()) {
      target.model = name->second;
    }
    target.instance = std::move(*instance);
    found.targets.push_back(std::move(target));
  }
  const auto order = [](const CallTarget& target) {
    const auto& i = target.instance;
    return std::tie(i.name.ns, i.name.component, i.name.endpoint, i.instance_id);
  };
  std::sort(found.targets.begin(),
            found.targets.end(),
            [&](const CallTarget& a, const CallTarget& b) { return order(a) < order(b); });
  return found;
}

Result<std::vector<CallTarget>> PickTargets(const FoundTargets& found,
                                            const transport::EndpointName& name,
                                            std::optional<std::uint64_t> instance) {
  std::vector<CallTarget> picked;
  for (const auto& target : found.targets) {
    if (target.instance.name.Dotted() == name.Dotted() &&
        (!instance || target.instance.instance_id == *instance)) {
      picked.push_back(target);
    }
  }
  if (!picked.empty()) {
    return picked;
  }
  std::string text = instance
                         ? "no instance " + transport::HexId(*instance) + " of " + name.Dotted()
                         : "no instance of " + name.Dotted();
  text += " in discovery";
  if (found.targets.empty()) {
    text += "; its namespace has no instance at all";
  } else {
    text += "; there are: ";
    for (std::size_t i = 0; i < std::min(found.targets.size(), kNamedMax); ++i) {
      const auto& other = found.targets[i].instance;
      text +=
          (i == 0 ? "" : ", ") + other.name.Dotted() + " " + transport::HexId(other.instance_id);
    }
    text += found.targets.size() > kNamedMax ? ", ..." : "";
  }
  for (const auto& why : found.unreadable) {
    text += "; unreadable: " + why;
  }
  return Fail(Errc::kUnavailable, std::move(text));
}

Status CheckRequestPlane(const std::vector<CallTarget>& targets) {
  for (const auto& target : targets) {
    if (target.instance.transport_kind != "nats_tcp") {
      return Fail(Errc::kUnsupported,
                  "instance " + transport::HexId(target.instance.instance_id) +
                      " serves the request plane '" + target.instance.transport_kind +
                      "' (allowed in this version: nats_tcp)");
    }
  }
  return {};
}

}  // namespace understudy::worker
