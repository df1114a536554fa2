// What a process that registers does about its NATS connections, its lease and its status server.
#pragma once

#include "understudy/transport/discovery.h"
#include "understudy/transport/http_server.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/nats.h"
#include "worker/config/status_options.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace understudy::worker {

class Metrics;

/// Logs and counts when the link of `client` goes and comes back; `back` runs then. `name` is for
/// people.
void WatchNats(transport::NatsClient& client,
               std::string name,
               std::string_view target,
               Metrics& metrics,
               std::function<void()> back);

/// `requests`, then `events` unless it is null; `done` hears the first failure, or success.
void StartNats(transport::NatsClient& requests,
               transport::NatsClient* events,
               std::function<void(const Status&)> done);

void LogLease(transport::LeaseState state, const std::string& text, std::string_view target);

/// Null when it is switched off or cannot be opened: as the reference, the process goes on without
/// it, with a line in the log.
[[nodiscard]] std::unique_ptr<transport::HttpServer> OpenStatusServer(
    transport::Loop& loop,
    const StatusOptions& status,
    std::function<transport::HttpResponse(const transport::HttpRequest&)> routes,
    std::string_view target);

}  // namespace understudy::worker
