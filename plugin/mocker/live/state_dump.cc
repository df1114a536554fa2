// A host's ranks as JSON, for people.
#include "plugin/mocker/live/rank_host.h"

namespace understudy::mocker {

namespace {

void Field(std::string& out, const char* name, std::uint64_t value) {
  out += out.back() == '{' ? "\"" : ",\"";
  out += name;
  out += "\":";
  out += std::to_string(value);
}

}  // namespace

std::string RankHost::Dump() const {
  std::string out = "{";
  std::uint64_t untouched = 0;
  std::string ranks;
  for (const Rank& rank : ranks_) {
    const engine::Load load = rank.scheduler->load();
    if (load.passes_total == 0 && load.requests_waiting == 0) {
      ++untouched;
      continue;
    }
    const BlockCounts blocks = rank.scheduler->blocks();
    ranks += ranks.empty() ? "{" : ",{";
    Field(ranks, "rank", Value(rank.index));
    Field(ranks, "blocks_active", blocks.used);
    Field(ranks, "blocks_cached", blocks.cached);
    Field(ranks, "blocks_free", blocks.free);
    Field(ranks, "requests_running", load.requests_running);
    Field(ranks, "requests_waiting", load.requests_waiting);
    Field(ranks, "preemptions_total", load.preemptions_total);
    Field(ranks, "passes_total", load.passes_total);
    Field(ranks, "kv_events_total", rank.scheduler->event_count());
    Field(ranks, "in_pass", InPass(rank) ? 1U : 0U);
    ranks += '}';
  }
  Field(out, "thread", share_.first);
  Field(out, "ranks_untouched", untouched);
  Field(out, "handoffs", desk_ ? desk_->size() : 0U);
  Field(out,
        "output_in_flight",
        static_cast<std::uint64_t>(in_flight_->load(std::memory_order_relaxed)));
  return out + ",\"ranks\":[" + ranks + "]}";
}

}  // namespace understudy::mocker
