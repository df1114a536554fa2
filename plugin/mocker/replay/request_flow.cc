#include "plugin/mocker/replay/simulation.h"

#include <algorithm>

namespace understudy::mocker {

Error DeadEnd(SemanticsRelease release, std::uint64_t in_flight) {
  return {Errc::kInternal,
          (release == SemanticsRelease::k13
               ? "offline replay reached a dead end with "
               : "replay invariant violated: offline replay detected an effect-free zero-duration "
                 "pass with ") +
              std::to_string(in_flight) + " in-flight requests remaining"};
}

std::optional<double> Earliest(std::initializer_list<std::optional<double>> times) {
  std::optional<double> earliest;
  for (const auto& time : times) {
    if (time && (!earliest || *time < *earliest)) {
      earliest = time;
    }
  }
  return earliest;
}

SemanticsRelease ReleaseOf(const ReplayOptions& options) {
  return options.prefill_engine ? options.prefill_engine->semantics
         : options.engine       ? options.engine->semantics
                                : MockerOptions{}.semantics;
}

std::uint32_t RequestFlow::TokenOf(std::uint64_t hash_id) {
  if (!numbers_ids_) {
    return static_cast<std::uint32_t>(hash_id);
  }
  const auto next = static_cast<std::uint32_t>(numbers_.size() + 1);
  std::uint32_t& number = numbers_.At(hash_id);
  number = number == 0 ? next : number;
  return number - 1;
}

void RequestFlow::MakePrompt(std::vector<std::uint32_t>& out) {
  const std::uint32_t block_size = run_.workload.source().block_size();
  out.reserve(row_.input_length);
  for (std::size_t i = 0; out.size() < row_.input_length; ++i) {
    const std::size_t count = std::min<std::size_t>(block_size, row_.input_length - out.size());
    out.insert(out.end(), count, TokenOf(row_.hash_ids[i]));
  }
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
  MakePrompt(request.prompt);
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
