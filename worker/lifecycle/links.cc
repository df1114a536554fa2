#include "worker/lifecycle/links.h"

#include "worker/log/log.h"
#include "worker/metrics/metrics.h"

#include <utility>

namespace understudy::worker {

void WatchNats(transport::NatsClient& client,
               std::string name,
               std::string_view target,
               Metrics& metrics,
               std::function<void()> back) {
  client.OnEvent([name = std::move(name), target, &metrics, back = std::move(back)](
                     transport::NatsClient::Event event, const std::string& text) {
    using Event = transport::NatsClient::Event;
    if (event == Event::kDropped) {
      metrics.NatsDropped();
      Log(LogLevel::kWarn,
          target,
          "NATS connection lost, reconnecting",
          {{"connection", name}, {"reason", text}});
    } else if (event == Event::kConnected) {
      Log(LogLevel::kInfo, target, "NATS reconnected", {{"connection", name}, {"server", text}});
      back();
    } else {
      Log(LogLevel::kDebug, target, text, {{"connection", name}});
    }
  });
}

void StartNats(transport::NatsClient& requests,
               transport::NatsClient* events,
               std::function<void(const Status&)> done) {
  requests.Start([events, done = std::move(done)](const Status& connected) {
    if (connected && events != nullptr) {
      events->Start(done);
    } else {
      done(connected);
    }
  });
}

void LogLease(transport::LeaseState state, const std::string& text, std::string_view target) {
  using transport::LeaseState;
  const bool bad = state == LeaseState::kLost || state == LeaseState::kDegraded;
  Log(bad ? LogLevel::kWarn : LogLevel::kInfo,
      target,
      state == LeaseState::kLost       ? "lease lost, unregistered until it is granted again"
      : state == LeaseState::kDegraded ? "discovery does not answer, the lease still runs"
      : state == LeaseState::kRestored ? "lease restored, registered again"
                                       : "lease held",
      {{"reason", text}});
}

std::unique_ptr<transport::HttpServer> OpenStatusServer(
    transport::Loop& loop,
    const StatusOptions& status,
    std::function<transport::HttpResponse(const transport::HttpRequest&)> routes,
    std::string_view target) {
  if (!status.enabled) {
    return nullptr;
  }
  auto served = transport::ServeHttp(loop, status.host, status.port, std::move(routes));
  if (!served) {
    Log(LogLevel::kError, target, "status server not started", {{"error", served.error().message}});
    return nullptr;
  }
  return std::move(*served);
}

}  // namespace understudy::worker
