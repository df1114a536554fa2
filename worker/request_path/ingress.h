// The front door of the request plane: which endpoint a message is for, and its envelope.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/transport/codec.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/nats.h"
#include "understudy/transport/response_stream.h"
#include "worker/metrics/metrics.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace understudy::worker {

/// A request whose envelope was read. Views are valid during Serve only.
struct IncomingRequest {
  std::uint32_t target = 0;  ///< as given to Ingress::Add
  std::uint32_t entry = 0;   ///< of Ingress, for its counts
  const transport::NatsMessage& message;
  const transport::RequestControl& control;
  std::string_view body;
  TimePoint received{};
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;
  /// Acknowledges the request and serves it, or refuses it in its acknowledgement.
  virtual void Serve(const IncomingRequest& request) = 0;
};

/// Counts of one subject, for $SRV.STATS.
struct EndpointCounts {
  std::string subject;
  std::uint64_t requests = 0, errors = 0;
  std::uint64_t processing_ns = 0;
};

/// On the loop's thread.
class Ingress {
 public:
  Ingress(transport::NatsClient& nats, Metrics& metrics, const Clock& clock)
      : nats_(nats), metrics_(metrics), clock_(clock) {}

  /// Requests to `subject` go to `endpoint`, which knows them as `target`. `probe` may be null.
  /// Gives the entry.
  std::uint32_t Add(const std::string& subject,
                    Endpoint& endpoint,
                    std::uint32_t target,
                    EndpointProbe* probe);
  void OnRequest(const transport::NatsMessage& message);

  void Ack(const transport::NatsMessage& message, std::string_view text);
  void CountError(std::uint32_t entry) { ++counts_[entry].errors; }
  [[nodiscard]] const std::vector<EndpointCounts>& counts() const { return counts_; }

 private:
  struct Entry {
    Endpoint* endpoint = nullptr;
    std::uint32_t target = 0;
    EndpointProbe* probe = nullptr;
  };
  void NoteTransit(const transport::NatsMessage& message);

  transport::NatsClient& nats_;
  Metrics& metrics_;
  const Clock& clock_;
  std::vector<Entry> entries_;
  std::vector<EndpointCounts> counts_;
  std::unordered_map<std::string, std::uint32_t> by_subject_;
};

/// The beginning of what a peer sent, for the log.
[[nodiscard]] std::string ShortText(std::string_view text);

/// Two-part frame and control header of a request. kUnsupported: a response plane that is not ours.
[[nodiscard]] Result<transport::RequestControl> ParseEnvelope(std::string_view payload,
                                                              std::string_view& body);

/// Dials the caller; handshake and prologue are the first write. `appended_bytes` counts them.
[[nodiscard]] std::unique_ptr<transport::ResponseStream> OpenResponse(
    transport::Loop& loop,
    const transport::RequestControl& control,
    std::uint64_t& appended_bytes,
    std::function<void(transport::StreamEnd, const std::string&)> on_end);

}  // namespace understudy::worker
