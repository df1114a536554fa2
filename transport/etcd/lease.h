// One etcd lease: granted, kept alive, and granted anew under the same id when it was lost.
#pragma once

#include "transport/etcd/gateway.h"
#include "understudy/base/clock.h"
#include "understudy/base/result.h"
#include "understudy/transport/discovery.h"
#include "understudy/transport/loop.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>

namespace understudy::transport::etcd {

/// `delay` with up to 10 % more or less, so that workers started together don't beat together.
[[nodiscard]] Nanoseconds WithJitter(Nanoseconds delay, std::mt19937_64& random);

/// Wait before retry number `failures` (1 = the first): 0, 0.5 s, then doubling up to 5 s. Source:
/// wire.md 2.1.
[[nodiscard]] Nanoseconds RetryDelay(unsigned failures);

/// States: new -> held <-> degraded -> lost -> held; any -> stopped. All members on the loop's
/// thread.
class Lease {
 public:
  using Listener = std::function<void(LeaseState, const std::string& text)>;
  using PutBack = std::function<void(std::function<void(Status)> done)>;

  /// `put_back` writes every record under the lease again, after it was granted anew.
  Lease(Loop& loop, Gateway& gateway, const EtcdOptions& options, PutBack put_back);

  void set_listener(Listener listener) { listener_ = std::move(listener); }

  /// Asks for a lease; then beats until Stop. May be repeated after an error.
  void Grant(std::function<void(Result<std::uint64_t>)> done);
  /// A put was answered "lease not found": no need to wait for the next beat.
  void Lose(const std::string& why);
  /// No more beats and no more calls of the listener.
  void Stop();

  /// 0 before the first grant.
  [[nodiscard]] std::uint64_t id() const { return id_; }
  [[nodiscard]] bool usable() const { return state_ == State::kHeld || state_ == State::kDegraded; }
  [[nodiscard]] bool stopped() const { return state_ == State::kStopped; }

 private:
  enum class State : std::uint8_t { kNew, kHeld, kDegraded, kLost, kStopped };

  void Beat();
  void OnBeat(TimePoint sent, Result<Answer> answer);
  void Renewed(TimePoint sent, std::int64_t ttl_s);
  void BeatFailed(const std::string& why);
  void Regrant();
  void OnRegrant(TimePoint sent, Result<Answer> answer);
  void CheckOld();
  void Restore(TimePoint sent, std::int64_t ttl_s);
  void Restored();
  void RestoreFailed(const std::string& why);
  void Enter(State state, LeaseState told, const std::string& text);
  void Tell(LeaseState state, const std::string& text);
  void CallThen(std::string_view path,
                std::string body,
                Gateway::Auth auth,
                void (Lease::*then)(TimePoint, Result<Answer>));
  [[nodiscard]] Nanoseconds BeatLimit() const;

  Gateway& gateway_;
  const std::int64_t ttl_s_;
  const Nanoseconds call_limit_;
  PutBack put_back_;
  Listener listener_;
  std::mt19937_64 random_;
  std::unique_ptr<Timer> beat_timer_;
  std::unique_ptr<Timer> deadline_timer_;

  State state_ = State::kNew;
  std::uint64_t id_ = 0;
  /// The server's clock for our lease started when the request arrived, so not before it was sent:
  /// counted from there the deadline is never later than the server's.
  TimePoint deadline_;
  unsigned failures_ = 0;
  /// Grows whenever answers under way become meaningless.
  std::uint64_t epoch_ = 0;
};

}  // namespace understudy::transport::etcd
