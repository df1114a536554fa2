#include "transport/file/file_store.h"
#include "transport/file/file_thread.h"
#include "transport/file/held_files.h"
#include "understudy/base/assert.h"
#include "understudy/transport/discovery.h"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

namespace understudy::transport {
namespace file {
namespace {

using StatusDone = std::function<void(Status)>;

constexpr Nanoseconds kTouchMin = std::chrono::seconds(1);

Nanoseconds TouchInterval(Nanoseconds ttl) {
  return std::max(ttl / 3, kTouchMin);
}

TimePoint Now() {
  return std::chrono::steady_clock::now();
}

/// The "lease" of a folder is that our files are fresh. Loop thread; the files are handled on a
/// helper thread.
class FileDiscovery final : public Discovery {
 public:
  FileDiscovery(Loop& loop, FileDiscoveryOptions options)
      : loop_(loop),
        options_(std::move(options)),
        files_(std::make_shared<HeldFiles>(FileStore(options_.root, options_.ttl))),
        beat_timer_(loop.NewTimer()),
        close_timer_(loop.NewTimer()),
        thread_(loop) {}

  void Start(std::function<void(Result<std::uint64_t>)> done) override;
  void Put(std::vector<Record> records, StatusDone done) override;
  void Delete(std::vector<std::string> keys, StatusDone done) override;
  void List(std::string prefix, std::function<void(Result<std::vector<Record>>)> done) override;
  void OnLease(std::function<void(LeaseState, const std::string& text)> listener) override;
  void Close(Nanoseconds limit, StatusDone done) override;

 private:
  template <class Done, class Value>
  void Later(Done done, Value value);
  template <class Work, class Done>
  void Run(Work work, Done done);
  [[nodiscard]] Status Refuse() const;
  void ArmBeat();
  void StartBeat();
  void OnBeat(TimePoint begun, const HeldFiles::Beat& beat);
  void BeatFailed(const std::string& why);
  void Tell(LeaseState state, const std::string& text);
  void Closed(Status status);

  Loop& loop_;
  const FileDiscoveryOptions options_;
  std::shared_ptr<HeldFiles>
      files_;  // the helper thread may hold it longer when an operation hangs
  std::unique_ptr<Timer> beat_timer_;
  std::unique_ptr<Timer> close_timer_;
  std::function<void(LeaseState, const std::string&)> listener_;
  bool started_ = false;
  bool closed_ = false;
  bool closing_ = false;
  bool beating_ = false;
  LeaseState state_ = LeaseState::kHeld;
  TimePoint fresh_since_;  ///< begin of the last touch that succeeded
  Status close_status_;
  std::vector<StatusDone> close_waiters_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  FileThread thread_;
};

/// Answers on a later turn: callers never hear back inside their own call.
template <class Done, class Value>
void FileDiscovery::Later(Done done, Value value) {
  loop_.Post(
      [alive = std::weak_ptr<bool>(alive_), done = std::move(done), value = std::move(value)] {
        if (!alive.expired()) {
          done(value);
        }
      });
}

/// `work(files)` on the helper thread gives what `done` takes.
template <class Work, class Done>
void FileDiscovery::Run(Work work, Done done) {
  using Value = decltype(work(*files_));
  const bool queued = thread_.Run(
      [files = files_, work = std::move(work)]() mutable { return work(*files); }, done);
  if (!queued) {
    Later(std::move(done),
          Value(Fail(
              Errc::kOverloaded,
              "more than " + std::to_string(FileThread::kTasksMax) + " file tasks are waiting")));
  }
}

Status FileDiscovery::Refuse() const {
  if (closed_) {
    return Fail(Errc::kCancelled, "discovery is closed");
  }
  if (!started_) {
    return Fail(Errc::kInternal, "discovery is not started");
  }
  return {};
}

void FileDiscovery::Start(std::function<void(Result<std::uint64_t>)> done) {
  UNDERSTUDY_ASSERT(loop_.OnThread());
  using Id = Result<std::uint64_t>;
  if (closed_ || started_) {
    Later(std::move(done), Id(Fail(Errc::kInternal, "discovery was started before")));
    return;
  }
  if (options_.ttl <= TouchInterval(options_.ttl)) {
    Later(std::move(done),
          Id(Fail(Errc::kInvalidConfig, "file discovery: the time to live must be over 1 s")));
    return;
  }
  Run([](HeldFiles& files) { return files.store().Prepare(); },
      [this, done = std::move(done)](Status status) {
        if (closed_) {
          done(Fail(Errc::kCancelled, "discovery is closed"));
          return;
        }
        if (!status) {
          done(tl::make_unexpected(std::move(status).error()));
          return;
        }
        started_ = true;
        fresh_since_ = Now();
        ArmBeat();
        Tell(LeaseState::kHeld, "folder " + options_.root + " is ready");
        std::random_device random;
        const std::uint64_t id = (std::uint64_t{random()} << 32 | random()) >> 1;
        done(std::max<std::uint64_t>(id, 1));
      });
}

void FileDiscovery::Put(std::vector<Record> records, StatusDone done) {
  UNDERSTUDY_ASSERT(loop_.OnThread());
  if (auto status = Refuse(); !status) {
    Later(std::move(done), status);
    return;
  }
  Run([records =
           std::move(records)](HeldFiles& files) mutable { return files.Put(std::move(records)); },
      std::move(done));
}

void FileDiscovery::Delete(std::vector<std::string> keys, StatusDone done) {
  UNDERSTUDY_ASSERT(loop_.OnThread());
  if (auto status = Refuse(); !status) {
    Later(std::move(done), status);
    return;
  }
  Run([keys = std::move(keys)](HeldFiles& files) { return files.Delete(keys); }, std::move(done));
}

void FileDiscovery::List(std::string prefix,
                         std::function<void(Result<std::vector<Record>>)> done) {
  UNDERSTUDY_ASSERT(loop_.OnThread());
  Run([prefix = std::move(prefix)](HeldFiles& files) { return files.store().List(prefix); },
      std::move(done));
}

void FileDiscovery::OnLease(std::function<void(LeaseState, const std::string&)> listener) {
  UNDERSTUDY_ASSERT(loop_.OnThread());
  listener_ = std::move(listener);
}

void FileDiscovery::Tell(LeaseState state, const std::string& text) {
  state_ = state;
  if (listener_) {
    const auto listener = listener_;  // it may be replaced from inside
    listener(state, text);
  }
}

void FileDiscovery::ArmBeat() {
  beat_timer_->After(TouchInterval(options_.ttl), [this] { StartBeat(); });
}

void FileDiscovery::StartBeat() {
  ArmBeat();
  if (beating_) {
    BeatFailed("folder " + options_.root + " does not answer");
    return;
  }
  beating_ = true;
  const bool queued =
      thread_.Run([files = files_] { return files->Touch(); },
                  [this, begun = Now()](const HeldFiles::Beat& beat) { OnBeat(begun, beat); });
  if (!queued) {
    beating_ = false;
    BeatFailed("too many file tasks are waiting");
  }
}

void FileDiscovery::OnBeat(TimePoint begun, const HeldFiles::Beat& beat) {
  beating_ = false;
  if (closed_) {
    return;
  }
  if (!beat.status) {
    BeatFailed(beat.status.error().message);
    return;
  }
  const bool late = state_ != LeaseState::kLost && Now() - fresh_since_ > options_.ttl;
  fresh_since_ = begun;
  if (state_ != LeaseState::kLost && beat.missing > 0) {
    Tell(LeaseState::kLost,
         std::to_string(beat.missing) + " record files were gone from " + options_.root +
             (late ? " (touched too late)" : ""));
  }
  if (state_ == LeaseState::kLost) {
    Tell(LeaseState::kRestored, "every record file is back in " + options_.root);
  }
  if (state_ != LeaseState::kHeld) {
    Tell(LeaseState::kHeld, "record files in " + options_.root + " are fresh");
  }
}

void FileDiscovery::BeatFailed(const std::string& why) {
  if (state_ == LeaseState::kHeld) {
    Tell(LeaseState::kDegraded, why);
  }
  if (state_ == LeaseState::kDegraded && Now() - fresh_since_ > options_.ttl) {
    Tell(LeaseState::kLost, "record files expired: " + why);
  }
}

void FileDiscovery::Close(Nanoseconds limit, StatusDone done) {
  UNDERSTUDY_ASSERT(loop_.OnThread());
  if (closed_ && !closing_) {
    Later(std::move(done), close_status_);
    return;
  }
  close_waiters_.push_back(std::move(done));
  if (closing_) {
    return;
  }
  closed_ = true;
  closing_ = true;
  beat_timer_->Cancel();
  close_timer_->After(limit, [this] {
    Closed(Fail(
        Errc::kTimeout,
        "file discovery: " + options_.root + " does not answer; its files expire by themselves"));
  });
  Run([](HeldFiles& files) { return files.DeleteAll(); },
      [this](Status status) { Closed(std::move(status)); });
}

void FileDiscovery::Closed(Status status) {
  if (!closing_) {
    return;
  }
  closing_ = false;
  close_timer_->Cancel();
  close_status_ = status;
  for (const StatusDone& waiter : std::exchange(close_waiters_, {})) {
    waiter(status);
  }
}

}  // namespace
}  // namespace file

std::unique_ptr<Discovery> NewFileDiscovery(Loop& loop, FileDiscoveryOptions options) {
  return std::make_unique<file::FileDiscovery>(loop, std::move(options));
}

}  // namespace understudy::transport
