// What is asked of a host's ranks from outside: how they are, and to forget what they cached.
#include "plugin/mocker/live/rank_host.h"

#include <algorithm>
#include <utility>

namespace understudy::mocker {

void RankHost::ApplyRead(const ReadCommand& read) {
  for (const Rank& rank : ranks_) {
    if (!read.ranks.Holds(rank.index)) {
      continue;
    }
    const engine::Load load = rank.scheduler->load();
    const BlockCounts blocks = rank.scheduler->blocks();
    read.reply->Add({.rank = rank.index,
                     .requests_running = load.requests_running,
                     .requests_waiting = load.requests_waiting,
                     .blocks_used = blocks.used,
                     .blocks_cached = blocks.cached,
                     .blocks_total = blocks.total,
                     .handoffs = desk_ ? desk_->RequestsOf(rank.index) : 0});
  }
}

void RankHost::ApplyClear(const ClearCommand& clear) {
  for (Rank& rank : ranks_) {
    if (!clear.ranks.Holds(rank.index)) {
      continue;
    }
    if (!rank.pass) {
      ClearCache(rank, clear);
    } else if (parked_clears_.size() < kParkedClearsMax) {
      // The state of a pass under way is the one at its end, and its events may come only then.
      parked_clears_.push_back(clear);
      parked_clears_.back().ranks = {rank.index, 1};
    } else {
      clear.reply->Add({rank.index, 0, rank.scheduler->blocks().used, true});
    }
  }
}

void RankHost::EndPassOfClears(Rank& rank) {
  const auto of_others = std::stable_partition(
      parked_clears_.begin(), parked_clears_.end(), [&](const ClearCommand& clear) {
        return !clear.ranks.Holds(rank.index);
      });
  for (auto clear = of_others; clear != parked_clears_.end(); ++clear) {
    ClearCache(rank, *clear);
  }
  parked_clears_.erase(of_others, parked_clears_.end());
}

void RankHost::ClearCache(Rank& rank, const ClearCommand& clear) {
  command_output_.Clear();
  const auto cleared = rank.scheduler->ClearCache(clear.in_use, command_output_);
  TakeEvents(command_output_.events);
  UpdateLoad(rank);
  clear.reply->Add(
      {rank.index, cleared.value_or(0), rank.scheduler->blocks().used, !cleared.has_value()});
  answered_.push_back(clear.reply);
}

}  // namespace understudy::mocker
