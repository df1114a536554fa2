#include "transport/etcd/lease.h"

#include "understudy/base/assert.h"

#include <algorithm>
#include <utility>

namespace understudy::transport::etcd {
namespace {

constexpr unsigned kBeatsPerTtl = 3;
constexpr Nanoseconds kRetryFirst = std::chrono::milliseconds(500);
constexpr Nanoseconds kRetryMax = std::chrono::seconds(5);

TimePoint Now() {
  return std::chrono::steady_clock::now();
}

std::string Reason(const Result<Answer>& answer) {
  return answer ? answer->refusal.message : answer.error().message;
}

}  // namespace

Nanoseconds WithJitter(Nanoseconds delay, std::mt19937_64& random) {
  std::uniform_real_distribution<double> factor(0.9, 1.1);
  return std::chrono::duration_cast<Nanoseconds>(delay * factor(random));
}

Nanoseconds RetryDelay(unsigned failures) {
  if (failures <= 1) {
    return Nanoseconds(0);
  }
  Nanoseconds delay = kRetryFirst;
  for (unsigned i = 2; i < failures && delay < kRetryMax; ++i) {
    delay *= 2;
  }
  return std::min(delay, kRetryMax);
}

Lease::Lease(Loop& loop, Gateway& gateway, const EtcdOptions& options, PutBack put_back)
    : gateway_(gateway),
      ttl_s_(options.lease_ttl_s),
      call_limit_(options.call_timeout * static_cast<Nanoseconds::rep>(
                                             std::max<std::size_t>(1, options.endpoints.size()))),
      put_back_(std::move(put_back)),
      random_(std::random_device{}()),
      beat_timer_(loop.NewTimer()),
      deadline_timer_(loop.NewTimer()) {}

void Lease::Grant(std::function<void(Result<std::uint64_t>)> done) {
  UNDERSTUDY_ASSERT(state_ == State::kNew || state_ == State::kStopped);
  const TimePoint sent = Now();
  gateway_.Call(kGrantPath,
                GrantBody(ttl_s_, 0),
                Gateway::Auth::kToken,
                call_limit_,
                [this, sent, done = std::move(done)](Result<Answer> answer) {
                  if (!answer || !answer->ok()) {
                    const Errc code = answer ? Errc::kUnavailable : answer.error().code;
                    done(Fail(code, Reason(answer)));
                    return;
                  }
                  auto lease = ParseLease(answer->body);
                  if (!lease) {
                    done(tl::make_unexpected(std::move(lease).error()));
                    return;
                  }
                  id_ = lease->id;
                  if (state_ != State::kStopped) {
                    Renewed(sent, lease->ttl_s);
                  }
                  done(lease->id);
                });
}

void Lease::Stop() {
  state_ = State::kStopped;
  ++epoch_;
  beat_timer_->Cancel();
  deadline_timer_->Cancel();
}

void Lease::Lose(const std::string& why) {
  if (!usable()) {
    return;
  }
  ++epoch_;
  failures_ = 0;
  deadline_timer_->Cancel();
  // Not at once: the listener and whoever noticed the loss finish first.
  beat_timer_->After(Nanoseconds(0), [this] { Regrant(); });
  Enter(State::kLost, LeaseState::kLost, "lease lost: " + why);
}

Nanoseconds Lease::BeatLimit() const {
  return std::min(call_limit_, Nanoseconds(std::chrono::seconds(ttl_s_)) / kBeatsPerTtl);
}

void Lease::CallThen(std::string_view path,
                     std::string body,
                     Gateway::Auth auth,
                     void (Lease::*then)(TimePoint, Result<Answer>)) {
  gateway_.Call(path,
                std::move(body),
                auth,
                BeatLimit(),
                [this, then, sent = Now(), epoch = epoch_](Result<Answer> answer) {
                  if (epoch == epoch_) {
                    (this->*then)(sent, std::move(answer));
                  }
                });
}

void Lease::Beat() {
  // Keep-alive never wants a token, so a stale one cannot hurt it (wire.md 1.2).
  CallThen(kKeepAlivePath, LeaseBody(id_), Gateway::Auth::kNone, &Lease::OnBeat);
}

void Lease::OnBeat(TimePoint sent, Result<Answer> answer) {
  if (!answer || !answer->ok()) {
    BeatFailed(Reason(answer));
    return;
  }
  const auto lease = ParseLease(answer->body);
  if (!lease || lease->id != id_) {
    BeatFailed(lease ? "keep-alive answered for another lease" : lease.error().message);
  } else if (lease->ttl_s <= 0) {
    Lose("etcd no longer knows it");
  } else {
    Renewed(sent, lease->ttl_s);
  }
}

void Lease::Renewed(TimePoint sent, std::int64_t ttl_s) {
  failures_ = 0;
  const Nanoseconds ttl = std::chrono::seconds(ttl_s);
  deadline_ = sent + ttl;
  deadline_timer_->After(deadline_ - Now(), [this] {
    Lose("no answer from etcd at " + gateway_.addresses() + " within its time to live");
  });
  const TimePoint next = sent + WithJitter(ttl / kBeatsPerTtl, random_);
  beat_timer_->After(std::max(Nanoseconds(0), next - Now()), [this] { Beat(); });
  if (state_ != State::kHeld) {
    Enter(State::kHeld,
          LeaseState::kHeld,
          state_ == State::kDegraded ? "etcd answers again" : "lease held");
  }
}

void Lease::BeatFailed(const std::string& why) {
  ++failures_;
  beat_timer_->After(WithJitter(RetryDelay(failures_), random_), [this] { Beat(); });
  if (state_ == State::kHeld) {
    Enter(State::kDegraded, LeaseState::kDegraded, "keep-alive failed: " + why);
  }
}

void Lease::Regrant() {
  CallThen(kGrantPath, GrantBody(ttl_s_, id_), Gateway::Auth::kToken, &Lease::OnRegrant);
}

void Lease::OnRegrant(TimePoint sent, Result<Answer> answer) {
  if (answer && answer->ok()) {
    const auto lease = ParseLease(answer->body);
    if (lease && lease->id == id_) {
      Restore(sent, lease->ttl_s);
    } else {
      RestoreFailed("grant answered for another lease");
    }
  } else if (answer && answer->refusal.code == kFailedPrecondition &&
             answer->refusal.message.find("lease already exists") != std::string::npos) {
    CheckOld();
  } else {
    RestoreFailed(Reason(answer));
  }
}

/// The store still has the lease (it was we who gave it up): one beat tells whether it lives.
void Lease::CheckOld() {
  gateway_.Call(kKeepAlivePath,
                LeaseBody(id_),
                Gateway::Auth::kNone,
                BeatLimit(),
                [this, sent = Now(), epoch = epoch_](Result<Answer> answer) {
                  if (epoch != epoch_) {
                    return;
                  }
                  const auto lease =
                      answer && answer->ok()
                          ? ParseLease(answer->body)
                          : Result<LeaseAnswer>(Fail(Errc::kUnavailable, Reason(answer)));
                  if (lease && lease->ttl_s > 0) {
                    Restore(sent, lease->ttl_s);
                  } else {
                    RestoreFailed(lease ? "the old lease is ending" : lease.error().message);
                  }
                });
}

void Lease::Restore(TimePoint sent, std::int64_t ttl_s) {
  deadline_ = sent + std::chrono::seconds(ttl_s);
  put_back_([this, sent, ttl_s, epoch = epoch_](Status status) {
    if (epoch != epoch_) {
      return;
    }
    if (!status) {
      RestoreFailed(status.error().message);
      return;
    }
    Tell(LeaseState::kRestored, "lease granted anew and every record put back");
    if (epoch == epoch_) {
      Renewed(sent, ttl_s);
    }
  });
}

void Lease::RestoreFailed(const std::string& why) {
  static_cast<void>(why);  // the episode was told when it began; one line is enough
  ++failures_;
  beat_timer_->After(WithJitter(RetryDelay(failures_), random_), [this] { Regrant(); });
}

void Lease::Enter(State state, LeaseState told, const std::string& text) {
  state_ = state;
  Tell(told, text);
}

void Lease::Tell(LeaseState state, const std::string& text) {
  if (listener_) {
    listener_(state, text);
  }
}

}  // namespace understudy::transport::etcd
