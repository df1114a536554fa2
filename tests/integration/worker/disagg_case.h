// What tests of prefill and decode workers start from.
#pragma once

#include "tests/integration/worker/worker_test.h"
#include "understudy/transport/bootstrap_frame.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::worker {

/// One attempt to hand a prompt over, as a frontend makes it up.
struct Attempt {
  std::string id;  ///< of the request, the same at both workers
  transport::BootstrapInfo info;
  std::vector<std::uint32_t> prompt;
  [[nodiscard]] transport::BootstrapIdentity identity() const;
};

class HandoffTest : public WorkerTest {
 protected:
  HandoffTest();

  [[nodiscard]] Worker StartPrefill(const Arguments& arguments = {});
  /// With a bootstrap port of the kernel's choice.
  [[nodiscard]] Worker StartSource(const Arguments& arguments = {});
  [[nodiscard]] Worker StartDecode(const Arguments& arguments = {});
  [[nodiscard]] static std::uint16_t BootstrapPort(const WorkerProcess& prefill);

  [[nodiscard]] Attempt NewAttempt(std::uint16_t port, std::size_t prompt_tokens = 60);
  [[nodiscard]] CallSpec SpecOf(const WorkerProcess& worker,
                                const Attempt& attempt,
                                std::uint32_t max_tokens) const;
  [[nodiscard]] CallPtr SendTo(const WorkerProcess& worker,
                               const Attempt& attempt,
                               std::uint32_t max_tokens = 1) {
    return frontend().Send(SpecOf(worker, attempt, max_tokens));
  }

  /// Hands a request over as frontends do; empty when both streams came back whole.
  [[nodiscard]] std::string WhyNotHandedOver(const WorkerProcess& prefill,
                                             const WorkerProcess& decode,
                                             std::uint32_t max_tokens = 5);
  /// Nothing is held, runs or waits, no hand-off and no permit is left.
  static void ExpectIdle(const WorkerProcess& worker);

 private:
  std::uint64_t attempts_ = 0;
};

/// The prefill side of a rendezvous, or the decode side, as raw bytes.
class BootstrapPeer {
 public:
  BootstrapPeer(std::unique_ptr<Peer> peer, const transport::BootstrapIdentity& identity)
      : peer_(std::move(peer)), identity_(identity) {}
  /// Null when refused.
  [[nodiscard]] static std::unique_ptr<BootstrapPeer> Dial(
      std::uint16_t port, const transport::BootstrapIdentity& identity);

  void SendHeader();
  void Send(const transport::BootstrapMessage& message);
  void SendBytes(std::string_view bytes) { peer_->Send(bytes); }
  /// Header and Register of a vLLM destination.
  void Register();
  /// What the other side dialled with.
  [[nodiscard]] bool ReadHeader();
  /// The next message; none: the other side closed, or the limit came.
  [[nodiscard]] std::optional<transport::BootstrapMessage> Receive();
  /// Receives until a message of this debug text comes; what came instead at the end.
  [[nodiscard]] std::string ReceiveUntil(std::string_view beginning);
  [[nodiscard]] Peer& peer() { return *peer_; }
  [[nodiscard]] bool WaitClosed() { return peer_->ReadToEnd() != Peer::End::kNothing; }

 private:
  /// So many bytes, or fewer at the end.
  [[nodiscard]] std::string Take(std::size_t bytes);

  std::unique_ptr<Peer> peer_;
  std::string read_;  ///< and not taken yet
  const transport::BootstrapIdentity identity_;
};

}  // namespace understudy::worker
