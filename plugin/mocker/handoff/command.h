// What a hand-off asks of a rank.
#pragma once

#include "understudy/base/ids.h"
#include "understudy/base/result.h"
#include "understudy/engine/handoff_types.h"
#include "understudy/engine/types.h"

#include <cstdint>

namespace understudy::mocker::handoff {

/// Answered by one engine::HandoffSignal with the same number.
struct Command {
  enum class Kind : std::uint8_t {
    kSubmitPrefill,
    kReserveDestination,
    kReleaseSource,
    kCancelSource,
    kActivateDestination,
    kCancelDestination,
  };
  Kind kind = Kind::kReleaseSource;
  engine::HandoffId handoff;
  RankIndex rank{};
  std::uint64_t number = 0;
  engine::Request request{};  ///< of the first two

  /// These bring a request with them.
  static bool Submits(Kind of) {
    return of == Kind::kSubmitPrefill || of == Kind::kReserveDestination;
  }
  [[nodiscard]] bool Submits() const { return Submits(kind); }
};

/// The way from the thread of the hand-offs to a rank; neither blocks.
class CommandPort {
 public:
  virtual ~CommandPort() = default;
  /// The rank takes commands. May turn false on any thread, and never true again.
  [[nodiscard]] virtual bool Running() const = 0;
  /// kUnavailable: it takes no more; kOverloaded: not now.
  [[nodiscard]] virtual Status Send(Command command) = 0;
  /// Ends a request in whatever state; an unknown one is fine.
  virtual void CancelRequest(RequestId id, RankIndex rank) = 0;
};

}  // namespace understudy::mocker::handoff
