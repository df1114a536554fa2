#include "plugin/mocker/replay/simulation.h"

#include <algorithm>

namespace understudy::mocker {

namespace {

void MakePrompt(const ReplayRow& row, std::uint32_t block_size, std::vector<std::uint32_t>& out) {
  out.reserve(row.input_length);
  for (std::size_t i = 0; out.size() < row.input_length; ++i) {
    const std::size_t count = std::min<std::size_t>(block_size, row.input_length - out.size());
    out.insert(out.end(), count, static_cast<std::uint32_t>(row.hash_ids[i]));
  }
}

}  // namespace

Error DeadEnd(std::uint64_t in_flight) {
  return {Errc::kInternal,
          "offline replay reached a dead end with " + std::to_string(in_flight) +
              " in-flight requests remaining"};
}

Result<bool> RequestFlow::Next(double now_ms, engine::Request& request) {
  double arrival_ms = 0.0;
  UNDERSTUDY_TRY(const bool there, run_.workload.PopReady(now_ms, row_, arrival_ms));
  if (!there) {
    return false;
  }
  if (in_flight_ == limits_.requests || tokens_ + row_.input_length > limits_.tokens) {
    return Fail(Errc::kOverloaded,
                "offline replay has " + std::to_string(in_flight_) + " requests with " +
                    std::to_string(tokens_) + " prompt tokens in flight at " +
                    std::to_string(now_ms) + " ms; at most " + std::to_string(limits_.requests) +
                    " and " + std::to_string(limits_.tokens) +
                    " are held: the workload arrives faster than it is served");
  }
  ++in_flight_;
  tokens_ += row_.input_length;
  request = {};
  MakePrompt(row_, run_.workload.source().block_size(), request.prompt);
  request.output_tokens_max = row_.output_length;
  request.planned_tokens.swap(row_.output_token_ids);
  request.id = run_.collector.Arrive(row_, arrival_ms);
  return true;
}

void RequestFlow::Finish(RequestId id, ReplayStatus status, double at_ms, bool release) {
  Collector::Request& request = run_.collector[id];
  const SessionPlace place = request.place;
  tokens_ -= request.input_length;
  --in_flight_;
  run_.collector.Finish(id, status, at_ms);
  run_.workload.OnTerminal(place, at_ms);
  if (release) {
    run_.collector.Release(id);
  }
}

}  // namespace understudy::mocker
