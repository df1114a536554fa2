#include "worker/kv_relay/engine_publisher.h"

#include "worker/log/log.h"

#include <array>
#include <string_view>
#include <utility>

namespace understudy::worker {
namespace {

constexpr std::string_view kLog = "worker.kv_relay";

std::string Endpoint(const std::string& host, std::uint16_t port) {
  return "tcp://" + host + ":" + (port == 0 ? std::string("*") : std::to_string(port));
}

}  // namespace

Result<std::unique_ptr<EnginePublisher>> EnginePublisher::New(
    transport::Loop& loop, std::shared_ptr<transport::ZmqContext> context, Options options) {
  std::unique_ptr<EnginePublisher> self(new EnginePublisher(std::move(options)));
  const Options& own = self->options_;
  UNDERSTUDY_TRY(self->publisher_, transport::ZmqPublisher::New(context, own.zmq_limits));
  const std::string endpoint = Endpoint(own.host, own.port);
  if (const auto bound = self->publisher_->Bind(endpoint); !bound) {
    return Fail(bound.error().code, "ZMQ PUB bind to " + bound.error().message);
  }
  if (own.replay_port) {
    UNDERSTUDY_TRY(
        self->replay_,
        ReplayServer::New(
            loop, std::move(context), Endpoint(own.host, *own.replay_port), self->ring_));
  }
  return self;
}

void EnginePublisher::Publish(std::span<const transport::EngineKvEvent> events,
                              double timestamp_s) {
  if (events.empty()) {
    return;
  }
  std::string payload = transport::EncodeKvBatch(timestamp_s, events, Value(options_.dp_rank));
  const std::string sequence = transport::SequenceFrame(next_sequence_++);
  const std::array<std::string_view, 3> frames = {options_.topic, sequence, payload};
  ++counters_.batches;
  counters_.bytes += payload.size();
  if (publisher_->Send(frames) != transport::ZmqSend::kSent && counters_.refused++ == 0) {
    Log(LogLevel::kWarn,
        kLog,
        "kv event batches are not sent: a subscriber does not read",
        {{"endpoint", endpoint()}, {"unsent_bytes", std::to_string(publisher_->unsent_bytes())}});
  }
  if (replay_ != nullptr) {
    ring_.Push(std::move(payload));
  }
}

}  // namespace understudy::worker
