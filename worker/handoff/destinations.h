// Decode workers of a process: the requests whose prompts are computed elsewhere.
#pragma once

#include "understudy/base/ids.h"
#include "understudy/transport/bootstrap.h"
#include "worker/handoff/destination_session.h"
#include "worker/handoff/part.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace understudy::worker {

/// All members on the loop's thread.
class Destinations {
 public:
  Destinations(const SessionPlace& place, HandoffOwner owner);
  ~Destinations();
  Destinations(const Destinations&) = delete;
  Destinations& operator=(const Destinations&) = delete;

  /// Dials `target` and registers there; `bootstrap connection failed: ` and why is told through
  /// `ended`.
  void Begin(HandoffPart part,
             HandoffRequest handoff,
             const transport::BootstrapTarget& target,
             const transport::BootstrapRegister& registration);
  /// It has all its tokens; the session goes on until the source says that it is complete.
  void LastToken(RequestId id);
  void Cancel(RequestId id);

  /// Ends the sessions; `closed` when what they held is taken back.
  void Shutdown(std::function<void()> closed);

  [[nodiscard]] std::vector<HandoffSummary> Summaries() const;

 private:
  struct Entry {
    HandoffPart part;
    HandoffRequest handoff;  ///< until the session has it
    std::unique_ptr<transport::BootstrapConnection> connection;
    std::unique_ptr<DestinationSession> session;
    bool handed_over = false;  ///< the session is over, and went well
    bool cancelled = false;
    bool answered = false;  ///< all tokens were seen
  };
  using Entries = std::unordered_map<RequestId, Entry>;

  void Opened(RequestId id, const Status& open);
  void SessionOver(RequestId id, const Status& status);
  void LosePart(Entries::iterator it, const Status& status);
  void Erase(Entries::iterator it);
  void EngineClosed(RequestId id);

  const SessionPlace place_;
  const HandoffOwner owner_;
  Entries entries_;
  std::function<void()> closed_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace understudy::worker
