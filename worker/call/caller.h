// Sends requests to workers as a frontend does and follows their response streams.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/nats.h"
#include "understudy/transport/response_stream.h"
#include "worker/call/options.h"
#include "worker/call/outcome.h"
#include "worker/call/stream_reader.h"
#include "worker/call/targets.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace understudy::worker {

/// Runs `plan.requests` requests, `plan.concurrency` at a time, over the targets in turn. All
/// members on the loop's thread.
class Caller {
 public:
  /// How long a cancelled worker gets to close its connection before we do.
  static constexpr Nanoseconds kCancelWait = std::chrono::seconds(5);

  struct Report {
    std::function<void(const CallOutcome&, const CallTarget&)> on_sent;
    std::function<void(const CallOutcome&, std::uint32_t token)>
        on_token;  ///< its time is token_ms.back()
    std::function<void(const CallOutcome&)> on_end;
    std::function<void(const std::string&)> on_note;  ///< odd things that end no request
    std::function<void()> on_all_done;
  };

  Caller(transport::Loop& loop,
         transport::NatsClient& nats,
         const Clock& clock,
         const CallPlan& plan,
         std::vector<CallTarget> targets,
         Report report);
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  /// Listens on `host` (an IP address of this machine that the workers can reach) and sends the
  /// first requests.
  [[nodiscard]] Status Start(const std::string& host);
  /// Ctrl-C: kills what runs and starts nothing more; on_all_done follows at once.
  void Interrupt();

  [[nodiscard]] const std::vector<CallOutcome>& outcomes() const { return outcomes_; }

 private:
  struct Session;
  struct Connection;

  void StartNext();
  void Send(Session& session);
  void OnAck(std::uint32_t index, const transport::NatsMessage& message);
  void OnBytes(const transport::ResponseListener::Peer& peer);
  void OnFrame(std::uint64_t id, Connection& connection, const transport::ResponseFrame& frame);
  void OnItem(Session& session, const transport::ResponseFrame& frame);
  void OnClosed(std::uint64_t id, Connection& connection);
  void Drop(std::uint64_t connection);
  void Cancel(Session& session);
  void ArmTimeout(Session& session);
  void Finish(Session& session, CallOutcome::End end, std::string text);
  [[nodiscard]] double SinceSent(const Session& session) const;

  transport::Loop& loop_;
  transport::NatsClient& nats_;
  const Clock& clock_;
  const CallPlan& plan_;
  std::vector<CallTarget> targets_;
  Report report_;
  std::unique_ptr<transport::ResponseListener> listener_;
  std::uint32_t next_ = 0;
  bool interrupted_ = false;
  bool starting_ = false;
  bool over_ = false;
  std::map<std::uint32_t, std::unique_ptr<Session>> sessions_;  ///< by index, in flight
  std::map<std::string, Session*> by_subject_;
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections_;
  std::vector<CallOutcome> outcomes_;  ///< ended, in the order of their ends
};

}  // namespace understudy::worker
