#include "worker/config/open_engine.h"

#include "understudy/mocker/mocker_engine.h"
#include "worker/config/worker_options.h"
#include "worker/log/log.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::worker {
namespace {
constexpr std::string_view kTarget = "worker.config";
}  // namespace

Result<std::unique_ptr<engine::Engine>> OpenEngine(const WorkerConfig& config, const Clock& clock) {
  const auto& o = config.options;
  mocker::MockerOptions options = config.args.engine;
  options.rank_count = config.workers * config.dp_size;
  options.ranks_per_worker = config.dp_size;
  options.pass_stats = o.forward_pass_metrics;
  options.kv_event_tokens = !config.engine_ports.empty();
  options.seed = config.seed;
  options.strict_reference = o.strict_reference;
  options.waiting_requests_max = static_cast<std::uint32_t>(o.waiting_requests_max);
  options.thread_count = static_cast<std::uint32_t>(o.engine_threads);
  std::vector<std::string> warnings;
  auto engine = mocker::NewMockerEngine(options, clock, &warnings);
  for (const std::string& warning : warnings) {
    Log(LogLevel::kWarn, kTarget, warning);
  }
  return engine;
}

}  // namespace understudy::worker
