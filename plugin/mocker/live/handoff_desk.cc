#include "plugin/mocker/live/handoff_desk.h"

#include <algorithm>
#include <string>
#include <utility>

namespace understudy::mocker {

Status HandoffDesk::Add(RankIndex rank, End end, engine::HandoffId handoff, RequestId request) {
  const auto [it, added] = by_id_.try_emplace(IdKey{rank, end, handoff}, request);
  if (added) {
    by_request_[{rank, request}] = {end, handoff};
    return {};
  }
  if (end == End::kSource) {
    return Fail(Errc::kMalformed, "handoff " + DebugText(handoff) + " is already active");
  }
  const bool reserved = by_request_.at({rank, it->second}).reached;
  return Fail(Errc::kMalformed,
              "destination handoff " + DebugText(handoff) +
                  (reserved ? " is already active" : " is already pending"));
}

std::optional<RequestId> HandoffDesk::Find(RankIndex rank,
                                           End end,
                                           engine::HandoffId handoff) const {
  const auto it = by_id_.find({rank, end, handoff});
  return it == by_id_.end() ? std::nullopt : std::optional(it->second);
}

HandoffDesk::Entry* HandoffDesk::Of(RankIndex rank, RequestId request) {
  const auto it = by_request_.find({rank, request});
  return it == by_request_.end() ? nullptr : &it->second;
}

void HandoffDesk::Forget(RankIndex rank, RequestId request) {
  Entry& entry = by_request_.at({rank, request});
  entry.forgotten = true;
  by_id_.erase({rank, entry.end, entry.handoff});
}

void HandoffDesk::Remove(RankIndex rank, RequestId request) {
  const auto it = by_request_.find({rank, request});
  if (it == by_request_.end()) {
    return;
  }
  if (!it->second.forgotten) {
    by_id_.erase({rank, it->second.end, it->second.handoff});
  }
  by_request_.erase(it);
}

std::size_t HandoffDesk::RequestsOf(RankIndex rank) const {
  return static_cast<std::size_t>(
      std::count_if(by_request_.begin(), by_request_.end(), [&](const auto& entry) {
        return entry.first.rank == rank;
      }));
}

bool HandoffDesk::Park(std::unique_ptr<handoff::Command>& command) {
  auto& parked = parked_[command->rank];
  if (parked.size() >= kParkedCommandsMax) {
    return false;
  }
  parked.push_back(std::move(command));
  return true;
}

std::vector<std::unique_ptr<handoff::Command>> HandoffDesk::TakeParked(RankIndex rank) {
  const auto it = parked_.find(rank);
  if (it == parked_.end()) {
    return {};
  }
  auto parked = std::move(it->second);
  parked_.erase(it);
  return parked;
}

}  // namespace understudy::mocker
