// Answers those who missed batches of an engine, without ever waiting for one of them.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/zmq.h"
#include "worker/kv_relay/batch_ring.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace understudy::worker {

/// ROUTER. A request is [identity, delimiter, start (8 bytes, big-endian)], as a DEALER or REQ
/// sends it; further frames are ignored. The answer holds what the ring has from `start` up to the
/// moment of the request, [identity, empty, sequence, payload] each, then [identity, empty, 2^64 -
/// 1, empty]: the form that clients of both releases and of vLLM take. Anything else gets no
/// answer. On the loop's thread. Source: events.md 1.8; vectors/events/zmq_replay.json.
class ReplayServer {
 public:
  static constexpr std::size_t kClientsMax = 32;  ///< requests under way; further ones get the end
                                                  ///< mark at once
  static constexpr std::size_t kRequestsOfClientMax = 4;
  static constexpr std::size_t kTurnMessagesMax = 64;  ///< sent in one turn of the loop
  static constexpr std::size_t kTurnBytesMax = 1U << 20;
  static constexpr int kClientMessagesMax = 256;  ///< libzmq's queue for one client
  /// A client whose queue is full is looked at again after ...
  static constexpr std::chrono::milliseconds kRetry{2};
  /// ... and forgotten when it took nothing for so long.
  static constexpr std::chrono::milliseconds kStallMax{5000};

  struct Counters {
    std::uint64_t requests = 0;
    std::uint64_t malformed = 0;
    std::uint64_t outside = 0;  ///< start before or behind the ring; answered with what there is
    std::uint64_t refused = 0;  ///< over kClientsMax or kRequestsOfClientMax
    std::uint64_t batches = 0;  ///< sent
    std::uint64_t completed = 0;
    std::uint64_t dropped = 0;  ///< clients that went away or did not read
  };

  /// Binds. kInvalidConfig: `ZMQ ROUTER bind to <endpoint> failed: <why>`.
  [[nodiscard]] static Result<std::unique_ptr<ReplayServer>> New(
      transport::Loop& loop,
      std::shared_ptr<transport::ZmqContext> context,
      const std::string& endpoint,
      const BatchRing& ring,
      std::chrono::milliseconds stall_max = kStallMax);
  ReplayServer(const ReplayServer&) = delete;
  ReplayServer& operator=(const ReplayServer&) = delete;

  [[nodiscard]] std::string endpoint() const { return router_->bound_endpoint(); }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] std::size_t clients() const { return jobs_.size(); }

 private:
  struct Job {
    std::string identity;
    std::uint64_t next = 0;
    std::uint64_t end = 0;  // of the ring, when the request came
    std::int64_t full_looks = 0;
  };
  enum class Step : std::uint8_t { kMore, kDone, kFull, kGone };

  ReplayServer(transport::Loop& loop, const BatchRing& ring, std::chrono::milliseconds stall_max);
  void OnRequest(transport::ZmqFrames frames);
  void AcceptRequest(std::string identity, std::uint64_t start);
  void PumpSoon();
  void Pump();
  /// One message for `job`.
  Step Advance(Job& job, std::size_t& bytes);
  transport::ZmqSend SendEnd(std::string_view identity);
  [[nodiscard]] bool IsFirstOfItsClient(std::size_t index) const;

  transport::Loop& loop_;
  const BatchRing& ring_;
  std::int64_t full_looks_max_;
  std::vector<Job> jobs_;  // in the order of their requests
  std::size_t turn_ = 0;   // who is served first next
  Counters counters_;
  bool pump_posted_ = false;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
  std::unique_ptr<transport::Timer> retry_timer_;
  std::unique_ptr<transport::ZmqRouter> router_;  // last: its handler uses all above
};

}  // namespace understudy::worker
