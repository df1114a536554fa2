// Sends one command to the control endpoints of some workers and follows the answers.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/nats.h"
#include "understudy/transport/response_stream.h"
#include "understudy/transport/worker_control.h"
#include "worker/call/stream_reader.h"
#include "worker/call/targets.h"
#include "worker/ctl/options.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace understudy::worker {

/// All members on the loop's thread.
class ControlClient {
 public:
  enum class End : std::uint8_t {
    kDone,         ///< complete_final and sentinel came, no error
    kRefused,      ///< an error item, the acknowledgement said no, or nobody listens
    kFailed,       ///< the stream broke
    kTimedOut,     ///< nothing came within the timeout
    kInterrupted,  ///< Ctrl-C
  };
  struct Report {
    std::function<void(const CallTarget&, const transport::ControlItem&)> on_item;
    std::function<void(const CallTarget&, End, const std::string& text)> on_end;
    std::function<void(const std::string&)> on_note;  ///< odd things that end nothing
    std::function<void()> on_all_done;
  };
  ControlClient(transport::Loop& loop,
                transport::NatsClient& nats,
                const CtlPlan& plan,
                std::vector<CallTarget> targets,
                Report report);
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  /// Listens on `host`, an IP address of this machine that the workers can reach, and sends.
  [[nodiscard]] Status Start(const std::string& host);
  /// Ends what runs; on_all_done follows at once.
  void Interrupt();

 private:
  struct Session;
  struct Connection;

  void Send(std::size_t index);
  void OnAck(std::size_t index, const transport::NatsMessage& message);
  void OnBytes(const transport::ResponseListener::Peer& peer);
  void OnFrame(std::uint64_t id, Connection& connection, const transport::ResponseFrame& frame);
  void Drop(std::uint64_t connection);
  void Finish(std::size_t index, End end, const std::string& text);
  void FinishIfOver();
  void ArmTimeout(Session& session);

  transport::Loop& loop_;
  transport::NatsClient& nats_;
  const CtlPlan& plan_;
  std::vector<CallTarget> targets_;
  Report report_;
  std::unique_ptr<transport::ResponseListener> listener_;
  std::map<std::size_t, std::unique_ptr<Session>> sessions_;  ///< by target, in flight
  std::map<std::string, std::size_t> by_subject_;
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections_;
  bool sending_ = false, over_ = false;
};

}  // namespace understudy::worker
