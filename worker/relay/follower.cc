#include "worker/relay/follower.h"

#include "worker/log/log.h"

#include <algorithm>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

namespace understudy::worker {

using transport::Record;

namespace {

constexpr std::string_view kTarget = "worker.relay";

std::optional<std::uint32_t> Number(const nlohmann::json& object,
                                    const char* key,
                                    std::uint64_t least) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) {
    return std::nullopt;
  }
  const auto value = found->get<std::uint64_t>();
  return value >= least && value <= 0xFFFF'FFFF ? std::optional(static_cast<std::uint32_t>(value))
                                                : std::nullopt;
}

/// What stands behind the last '/' of a key.
std::string_view LastPart(std::string_view key) {
  return key.substr(key.rfind('/') + 1);
}

void ReadCard(const Record& record, SeenInstance& instance) {
  const auto model = nlohmann::json::parse(record.value, nullptr, false);
  const auto card = model.is_object() ? model.find("card_json") : model.end();
  if (!model.is_object() || card == model.end() || !card->is_object()) {
    return;
  }
  instance.has_card = true;
  instance.block_size = Number(*card, "kv_cache_block_size", 1);
  if (const auto runtime = card->find("runtime_config");
      runtime != card->end() && runtime->is_object()) {
    instance.first_rank = Number(*runtime, "data_parallel_start_rank", 0);
    instance.ranks = Number(*runtime, "data_parallel_size", 1);
  }
}

}  // namespace

std::vector<SeenInstance> JoinInstances(const std::vector<Record>& instances,
                                        const std::vector<Record>& models) {
  std::map<std::string_view, const Record*> cards;
  for (const Record& record : models) {
    cards[LastPart(record.key)] = &record;
  }
  std::vector<SeenInstance> seen;
  for (const Record& record : instances) {
    const auto instance = transport::DecodeInstance(record.value);
    if (!instance) {
      continue;
    }
    SeenInstance& one = seen.emplace_back();
    one.id = instance->instance_id;
    if (const auto card = cards.find(transport::HexId(one.id)); card != cards.end()) {
      ReadCard(*card->second, one);
    }
  }
  std::sort(seen.begin(), seen.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return seen;
}

Follower::Follower(transport::Loop& loop,
                   transport::Discovery& discovery,
                   const transport::EndpointName& endpoint,
                   Changed changed)
    : discovery_(discovery),
      place_(endpoint.ns + "/" + endpoint.component + "/" + endpoint.endpoint + "/"),
      changed_(std::move(changed)),
      timer_(loop.NewTimer()) {}

void Follower::Ask() {
  discovery_.List("v1/instances/" + place_,
                  [this, alive = std::weak_ptr(alive_)](const Result<std::vector<Record>>& found) {
                    if (alive.expired() || stopped_) {
                      return;
                    }
                    if (!found) {
                      Failed(found.error());
                      return;
                    }
                    AskCards(*found);
                  });
}

void Follower::AskCards(std::vector<Record> instances) {
  discovery_.List("v1/mdc/" + place_,
                  [this, alive = std::weak_ptr(alive_), instances = std::move(instances)](
                      const Result<std::vector<Record>>& models) {
                    if (alive.expired() || stopped_) {
                      return;
                    }
                    if (!models) {
                      Failed(models.error());
                      return;
                    }
                    failing_ = false;
                    auto seen = JoinInstances(instances, *models);
                    if (!seen_ || *seen_ != seen) {
                      seen_ = std::move(seen);
                      changed_(*seen_);
                    }
                    Next();
                  });
}

void Follower::Failed(const Error& error) {
  if (!std::exchange(failing_, true)) {
    Log(LogLevel::kWarn,
        kTarget,
        "discovery does not list instances; those seen last still count",
        {{"reason", error.message}});
  }
  Next();
}

void Follower::Next() {
  if (!stopped_) {
    timer_->After(kInterval, [this] { Ask(); });
  }
}

}  // namespace understudy::worker
