#include "worker/control/control_side.h"

#include <algorithm>
#include <utility>

namespace understudy::worker {
namespace {

ControlServer::Options OptionsOf(const ControlSide::Parts& parts) {
  ControlServer::Options options;
  options.dp_size = parts.config.dp_size;
  options.limits = parts.config.limits;
  options.running = [&path = parts.path](std::uint32_t worker) { return path.running(worker); };
  if (parts.config.args.engine.engine_type == mocker::EngineType::kSglang) {
    options.clear_refusal = "Cannot clear KV cache while requests are active";
  }
  return options;
}

}  // namespace

ControlSide::ControlSide(const Parts& parts, std::function<void(std::size_t)> on_serving)
    : worker_count_(parts.workers.size()),
      endpoints_(MakeControlEndpoints(parts.config, parts.profile, parts.workers)),
      streams_(parts.loop, parts.ingress, *metrics_),
      serving_(parts.discovery,
               [this, on_serving = std::move(on_serving)](std::size_t serving) {
                 metrics_->Drained(worker_count_ - serving);
                 on_serving(serving);
               }),
      tap_(parts.loop,
           parts.path,
           [this](const std::vector<ControlOutput>& outputs) { handoffs_->OnOutputs(outputs); }),
      handoffs_(parts.handoffs == nullptr
                    ? nullptr
                    : std::make_unique<LiveHandoffOperations>(
                          parts.loop, *parts.handoffs, tap_, streams_, *metrics_)),
      server_(parts.loop,
              parts.ingress,
              parts.engine,
              streams_,
              serving_,
              handoffs_.get(),
              *metrics_,
              OptionsOf(parts)) {
  for (const auto& endpoint : endpoints_) {
    server_.Add(
        endpoint.instance.transport_value,
        endpoint.clears_only ? ControlServer::Kind::kClearKvBlocks : ControlServer::Kind::kControl,
        endpoint.worker);
  }
}

std::vector<std::string> ControlSide::Subjects() const {
  return ControlSubjects(endpoints_, worker_count_);
}

void ControlSide::AddRecords(Registration& registration) {
  auto& records = registration.records;
  for (const auto& key : registration.instance_keys) {
    const auto found = std::find_if(
        records.begin(), records.end(), [&](const auto& record) { return record.key == key; });
    if (found != records.end()) {
      instances_.push_back(*found);
    }
  }
  const auto own = std::find_if(records.begin(), records.end(), [&](const auto& record) {
    return !instances_.empty() && record.key == instances_.front().key;
  });
  std::vector<transport::Record> added;
  for (const auto& endpoint : endpoints_) {
    added.push_back(transport::EncodeInstance(endpoint.instance));
  }
  records.insert(own, added.begin(), added.end());
}

void ControlSide::Stopping() {
  serving_.Close();
  server_.Stopping();
}

}  // namespace understudy::worker
