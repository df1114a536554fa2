#include "worker/lifecycle/state_dump.h"

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

nlohmann::ordered_json JsonOrText(const std::string& text) {
  auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  return json.is_discarded() ? nlohmann::ordered_json(text) : std::move(json);
}

}  // namespace

std::string StateDump(const DumpInput& input) {
  nlohmann::ordered_json dump;
  dump["endpoint"] = input.endpoint;
  dump["instances"] = input.instances;
  dump["uptime_s"] = input.uptime_s;
  dump["registered"] = input.health.registered;
  dump["engine_started"] = input.health.engine_started;
  dump["draining"] = input.health.draining;
  dump["drained"] = input.health.drained;
  dump["nats_connected"] = input.nats_connected;
  dump["lease"] = input.lease;
  dump["streams"] = nlohmann::ordered_json::array();
  for (const auto& stream : input.streams) {
    dump["streams"].push_back({{"request_id", stream.context_id},
                               {"worker", stream.worker},
                               {"dp_rank", stream.dp_rank},
                               {"prompt_tokens", stream.prompt_tokens},
                               {"cached_tokens", stream.cached_tokens},
                               {"tokens_sent", stream.tokens_sent},
                               {"output_tokens_max", stream.output_tokens_max},
                               {"finishing", stream.finishing},
                               {"age_s", stream.age_s}});
  }
  dump["handoffs"] = JsonOrText(input.handoffs_json);
  dump["engine"] = JsonOrText(input.engine_json);
  return dump.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace understudy::worker
