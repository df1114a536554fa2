#include "worker/handoff/open_handoffs.h"

#include "plugin/mocker/handoff/transfer_timing.h"
#include "worker/log/log.h"

#include <limits>
#include <utility>

namespace understudy::worker {
namespace {

constexpr std::string_view kTarget = "worker.handoff";

Result<HandoffSide::Options> OptionsOf(const WorkerConfig& config) {
  const auto& engine = config.args.engine;
  HandoffSide::Options options;
  options.role = engine.worker_type;
  options.engine_type = engine.engine_type;
  options.workers = config.workers;
  options.dp_size = config.dp_size;
  options.sessions_max = mocker::HandoffCapacity(engine);
  options.session_timeout = config.args.handoff_session_timeout;
  options.ports = config.bootstrap_ports;
  options.timing = mocker::handoff::TimingOf(engine);
  if (options.sessions_max > std::numeric_limits<std::size_t>::max() / config.dp_size) {
    return Fail(Errc::kInvalidConfig, "mocker handoff session limit overflow");
  }
  return options;
}

}  // namespace

Result<std::unique_ptr<HandoffSide>> OpenHandoffs(const WorkerConfig& config,
                                                  const std::string& host,
                                                  transport::Loop& loop,
                                                  const Clock& clock,
                                                  engine::Handoffs& engine,
                                                  std::vector<WorkerIdentity>& workers) {
  if (config.args.engine.worker_type == mocker::WorkerType::kAggregated) {
    return nullptr;
  }
  UNDERSTUDY_TRY(const auto options, OptionsOf(config));
  auto side = std::make_unique<HandoffSide>(loop, clock, engine, options);
  UNDERSTUDY_TRY_STATUS(side->Listen());
  const auto ports = side->ports();
  for (std::size_t i = 0; i < ports.size(); ++i) {
    workers[i].bootstrap = {host, ports[i]};
    Log(LogLevel::kInfo,
        kTarget,
        "Bootstrap server started for prefill worker",
        {{"host", host}, {"port", std::to_string(ports[i])}});
  }
  return side;
}

}  // namespace understudy::worker
