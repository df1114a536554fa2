// --router-config: the members of the router's configuration that an offline run knows.
#include "worker/replay/options.h"

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using Json = nlohmann::json;
using Router = mocker::KvRouterOptions;

Error Refuse(const std::string& name, const Json& value, const std::string& allowed) {
  return {Errc::kInvalidConfig,
          "--router-config " + name + " '" +
              value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 80) +
              "' is not usable (allowed: " + allowed + ")"};
}

Status TakeNumber(const std::string& name, const Json& value, double most, double& target) {
  const double number = value.is_number() ? value.get<double>() : -1.0;
  if (!(number >= 0) || number > most) {
    return tl::make_unexpected(Refuse(
        name,
        value,
        std::isfinite(most) ? "a number from 0 to " + Json(most).dump() : "a number from 0 on"));
  }
  target = number;
  return {};
}

Status TakeSwitch(const std::string& name, const Json& value, bool& target) {
  if (!value.is_boolean()) {
    return tl::make_unexpected(Refuse(name, value, "true or false"));
  }
  target = value.get<bool>();
  return {};
}

Status TakeThreshold(const std::string& name, const Json& value, std::optional<double>& target) {
  if (value.is_null()) {
    target.reset();
    return {};
  }
  double number = 0;
  UNDERSTUDY_TRY_STATUS(TakeNumber(name, value, std::numeric_limits<double>::infinity(), number));
  target = number;
  return {};
}

Status TakePolicy(const std::string& name, const Json& value, mocker::RouterQueuePolicy& target) {
  const auto text = value.is_string() ? value.get<std::string>() : std::string();
  if (text == "fcfs") {
    target = mocker::RouterQueuePolicy::kFcfs;
  } else if (text == "lcfs") {
    target = mocker::RouterQueuePolicy::kLcfs;
  } else if (text == "wspt") {
    target = mocker::RouterQueuePolicy::kWspt;
  } else {
    return tl::make_unexpected(Refuse(name, value, "fcfs, lcfs, wspt"));
  }
  return {};
}

/// Members about servers and threads, of which an offline run has none.
bool HasNoEffect(const std::string& name) {
  static const std::set<std::string> kNames = {"durable_kv_events",
                                               "router_event_threads",
                                               "router_replica_sync",
                                               "router_reset_states",
                                               "router_snapshot_threshold",
                                               "skip_initial_worker_wait"};
  return kNames.count(name) > 0;
}

using Take = Status (*)(const std::string&, const Json&, Router&);

template <double Router::*kMember>
Status Unlimited(const std::string& name, const Json& value, Router& router) {
  return TakeNumber(name, value, std::numeric_limits<double>::infinity(), router.*kMember);
}
template <bool Router::*kMember>
Status Switch(const std::string& name, const Json& value, Router& router) {
  return TakeSwitch(name, value, router.*kMember);
}

const std::map<std::string, Take>& Members() {
  static const std::map<std::string, Take> kMembers = {
      {"overlap_score_credit",
       [](const std::string& name, const Json& value, Router& router) {
         return TakeNumber(name, value, 1.0, router.overlap_score_credit);
       }},
      {"overlap_score_credit_decay", &Unlimited<&Router::overlap_score_credit_decay>},
      {"prefill_load_scale", &Unlimited<&Router::prefill_load_scale>},
      {"router_temperature", &Unlimited<&Router::router_temperature>},
      {"router_track_active_blocks", &Switch<&Router::router_track_active_blocks>},
      {"router_assume_kv_reuse", &Switch<&Router::router_assume_kv_reuse>},
      {"router_track_prefill_tokens", &Switch<&Router::router_track_prefill_tokens>},
      {"router_queue_threshold",
       [](const std::string& name, const Json& value, Router& router) {
         return TakeThreshold(name, value, router.router_queue_threshold);
       }},
      {"router_queue_policy",
       [](const std::string& name, const Json& value, Router& router) {
         return TakePolicy(name, value, router.router_queue_policy);
       }},
  };
  return kMembers;
}

std::string MemberNames() {
  std::string names;
  for (const auto& [name, take] : Members()) {
    names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

}  // namespace

Result<Router> ParseRouterConfig(const std::string& json) {
  const auto parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) {
    return Fail(Errc::kInvalidConfig,
                "--router-config '" + json.substr(0, 80) +
                    "' is not usable (allowed: a JSON object with " + MemberNames() + ")");
  }
  Router router;
  for (const auto& [name, value] : parsed.items()) {
    if (HasNoEffect(name)) {
      continue;
    }
    const auto member = Members().find(name);
    if (member == Members().end()) {
      return Fail(Errc::kInvalidConfig,
                  "--router-config has no member '" + name.substr(0, 80) +
                      "' (allowed: " + MemberNames() + ")");
    }
    UNDERSTUDY_TRY_STATUS(member->second(name, value, router));
  }
  return router;
}

}  // namespace understudy::worker
