#include "transport/etcd/gateway.h"
#include "transport/etcd/lease.h"
#include "transport/etcd/messages.h"
#include "understudy/base/assert.h"
#include "understudy/transport/discovery.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <utility>

namespace understudy::transport {
namespace etcd {
namespace {

constexpr std::size_t kJobsMax = 1024;
/// Keys and values of one transaction; the server refuses requests over 1.5 MiB.
constexpr std::size_t kTxnBytesMax = 1U << 20;

using StatusDone = std::function<void(Status)>;

std::string IdText(std::uint64_t id) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (; id != 0; id >>= 4) {
    text.insert(text.begin(), kDigits[id & 0xF]);
  }
  return text;
}

/// How many of `records` (at least one) fit into one transaction.
std::size_t BatchSize(std::span<const Record> records) {
  std::size_t bytes = 0;
  std::size_t count = 0;
  for (const Record& record : records) {
    bytes += record.key.size() + record.value.size();
    if (count == kTxnOpsMax || (count > 0 && bytes > kTxnBytesMax)) {
      break;
    }
    ++count;
  }
  return count;
}

/// Changes go to the store one at a time, so that a delete never overtakes the put of the same key.
class EtcdDiscovery final : public Discovery {
 public:
  EtcdDiscovery(Loop& loop, const EtcdOptions& options)
      : loop_(loop),
        ttl_s_(options.lease_ttl_s),
        call_limit_(options.call_timeout * static_cast<Nanoseconds::rep>(
                                               std::max<std::size_t>(1, options.endpoints.size()))),
        gateway_(loop, options),
        lease_(loop, gateway_, options, [this](StatusDone done) { PutBack(std::move(done)); }) {
    lease_.set_listener([this](LeaseState state, const std::string& text) { Tell(state, text); });
  }

  void Start(std::function<void(Result<std::uint64_t>)> done) override;
  void Put(std::vector<Record> records, StatusDone done) override;
  void Delete(std::vector<std::string> keys, StatusDone done) override;
  void List(std::string prefix, std::function<void(Result<std::vector<Record>>)> done) override;
  void OnLease(std::function<void(LeaseState, const std::string& text)> listener) override;
  void Close(Nanoseconds limit, StatusDone done) override;

 private:
  enum class Kind : std::uint8_t { kPut, kPutBack, kDelete };
  struct Job {
    Kind kind = Kind::kPut;
    std::vector<Record> records;    ///< still to put
    std::vector<std::string> keys;  ///< still to delete
    StatusDone done;
  };
  using JobPtr = std::shared_ptr<Job>;

  template <class Done, class Value>
  void Later(Done done, Value value);
  [[nodiscard]] Status Refuse() const;
  void PutBack(StatusDone done);
  void Enqueue(JobPtr job, bool first);
  void RunNext();
  void Finish(const JobPtr& job, Status status);
  void PutStep(const JobPtr& job);
  void Create(const JobPtr& job, std::shared_ptr<std::vector<Record>> batch);
  void OnCreate(const JobPtr& job,
                const std::shared_ptr<std::vector<Record>>& batch,
                Result<Answer> answer);
  [[nodiscard]] bool DropExisting(std::span<const CreateAnswer::Existing> existing,
                                  std::vector<Record>& batch);
  void DeleteStep(const JobPtr& job);
  void OnLeaseGone(const JobPtr& job, const std::string& why);
  void Remember(std::span<const Record> records);
  void ResumeWaiting();
  void Tell(LeaseState state, const std::string& text);
  void OnRevoke(Result<Answer> answer);

  Loop& loop_;
  const std::int64_t ttl_s_;
  const Nanoseconds call_limit_;
  std::vector<Record> records_;    ///< what is put back, in the order of the puts
  std::set<std::string> foreign_;  ///< keys of `records_` that another owner had put before us
  std::deque<JobPtr> jobs_;        ///< the front one runs
  bool running_ = false;
  std::deque<JobPtr> waiting_;  ///< puts for a lease that is lost; they go on when it is back
  std::function<void(LeaseState, const std::string&)> listener_;
  bool starting_ = false;
  bool closed_ = false;
  bool revoking_ = false;
  Status close_status_;
  std::vector<StatusDone> close_waiters_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  Gateway gateway_;
  Lease lease_;
};

/// Answers on a later turn: callers never hear back inside their own call.
template <class Done, class Value>
void EtcdDiscovery::Later(Done done, Value value) {
  loop_.Post(
      [alive = std::weak_ptr<bool>(alive_), done = std::move(done), value = std::move(value)] {
        if (!alive.expired()) {
          done(value);
        }
      });
}

Status EtcdDiscovery::Refuse() const {
  if (closed_) {
    return Fail(Errc::kCancelled, "discovery is closed");
  }
  if (lease_.id() == 0) {
    return Fail(Errc::kInternal, "discovery is not started");
  }
  if (jobs_.size() + waiting_.size() >= kJobsMax) {
    return Fail(Errc::kOverloaded,
                "more than " + std::to_string(kJobsMax) + " changes are waiting");
  }
  return {};
}

void EtcdDiscovery::Start(std::function<void(Result<std::uint64_t>)> done) {
  UNDERSTUDY_ASSERT(loop_.OnThread());
  using Id = Result<std::uint64_t>;
  if (closed_ || starting_ || lease_.id() != 0) {
    Later(std::move(done), Id(Fail(Errc::kInternal, "discovery was started before")));
    return;
  }
  if (auto status = gateway_.Check(); !status) {
    Later(std::move(done), Id(tl::make_unexpected(status.error())));
    return;
  }
  if (ttl_s_ <= 0) {
    Later(std::move(done),
          Id(Fail(Errc::kInvalidConfig, "etcd lease time to live must be positive")));
    return;
  }
  starting_ = true;
  lease_.Grant([this, done = std::move(done)](Id id) {
    starting_ = false;
    if (closed_) {
      done(Fail(Errc::kCancelled, "discovery is closed"));
    } else if (!id) {
      const Errc code = id.error().code == Errc::kTimeout ? Errc::kUnavailable : id.error().code;
      done(Fail(code,
                "Unable to create lease. Check etcd server status at " + gateway_.addresses() +
                    ": " + id.error().message));
    } else {
      done(id);
    }
  });
}

void EtcdDiscovery::OnLease(std::function<void(LeaseState, const std::string&)> listener) {
  UNDERSTUDY_ASSERT(loop_.OnThread());
  listener_ = std::move(listener);
}

void EtcdDiscovery::Tell(LeaseState state, const std::string& text) {
  if (state == LeaseState::kHeld) {
    ResumeWaiting();
  }
  if (listener_) {
    const auto listener = listener_;  // it may be replaced from inside
    listener(state, text + " lease=" + IdText(lease_.id()));
  }
}

void EtcdDiscovery::Put(std::vector<Record> records, StatusDone done) {
  UNDERSTUDY_ASSERT(loop_.OnThread());
  if (auto status = Refuse(); !status) {
    Later(std::move(done), status);
    return;
  }
  // The server refuses a transaction that names a key twice; the first one counts, as with an
  // existing key.
  std::set<std::string> seen;
  std::erase_if(records, [&](const Record& record) { return !seen.insert(record.key).second; });
  Enqueue(std::make_shared<Job>(Job{Kind::kPut, std::move(records), {}, std::move(done)}), false);
}

void EtcdDiscovery::Delete(std::vector<std::string> keys, StatusDone done) {
  UNDERSTUDY_ASSERT(loop_.OnThread());
  if (auto status = Refuse(); !status) {
    Later(std::move(done), status);
    return;
  }
  Enqueue(std::make_shared<Job>(Job{Kind::kDelete, {}, std::move(keys), std::move(done)}), false);
}

void EtcdDiscovery::PutBack(StatusDone done) {
  // Ahead of what waits; its records are read when it runs, after the change under way.
  Enqueue(std::make_shared<Job>(Job{Kind::kPutBack, {}, {}, std::move(done)}), true);
}

void EtcdDiscovery::Enqueue(JobPtr job, bool first) {
  if (first && running_) {
    jobs_.insert(jobs_.begin() + 1, std::move(job));
  } else if (first) {
    jobs_.push_front(std::move(job));
  } else {
    jobs_.push_back(std::move(job));
  }
  loop_.Post([this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) {
      RunNext();
    }
  });
}

void EtcdDiscovery::RunNext() {
  while (!running_ && !jobs_.empty()) {
    const JobPtr job = jobs_.front();
    if (job->kind == Kind::kPut && !lease_.usable()) {
      jobs_.pop_front();
      waiting_.push_back(job);
      continue;
    }
    running_ = true;
    if (job->kind == Kind::kPutBack) {
      job->records = records_;
    }
    if (job->kind == Kind::kDelete) {
      DeleteStep(job);
    } else {
      PutStep(job);
    }
  }
}

void EtcdDiscovery::Finish(const JobPtr& job, Status status) {
  if (closed_) {
    return;  // Close has answered for it
  }
  UNDERSTUDY_ASSERT(running_ && jobs_.front() == job);
  jobs_.pop_front();
  running_ = false;
  const std::weak_ptr<bool> alive = alive_;
  job->done(std::move(status));
  if (!alive.expired()) {
    RunNext();
  }
}

void EtcdDiscovery::PutStep(const JobPtr& job) {
  if (job->records.empty()) {
    Later([this, job](Status status) { Finish(job, std::move(status)); }, Status());
    return;
  }
  const auto count = static_cast<std::ptrdiff_t>(BatchSize(job->records));
  Create(job,
         std::make_shared<std::vector<Record>>(job->records.begin(), job->records.begin() + count));
}

/// `batch` is the part of the job's first batch that is not known to exist.
void EtcdDiscovery::Create(const JobPtr& job, std::shared_ptr<std::vector<Record>> batch) {
  std::string body = CreateBody(*batch, lease_.id());
  gateway_.Call(kPutPath,
                std::move(body),
                Gateway::Auth::kToken,
                call_limit_,
                [this, job, batch = std::move(batch)](Result<Answer> answer) {
                  if (!closed_) {
                    OnCreate(job, batch, std::move(answer));
                  }
                });
}

/// False when none of `existing` was in the batch.
bool EtcdDiscovery::DropExisting(std::span<const CreateAnswer::Existing> existing,
                                 std::vector<Record>& batch) {
  std::size_t dropped = 0;
  for (const CreateAnswer::Existing& found : existing) {
    dropped += std::erase_if(batch, [&](const Record& record) { return record.key == found.key; });
    if (found.lease != lease_.id()) {
      foreign_.insert(found.key);
    }
  }
  return dropped > 0;
}

void EtcdDiscovery::OnCreate(const JobPtr& job,
                             const std::shared_ptr<std::vector<Record>>& batch,
                             Result<Answer> answer) {
  if (!answer) {
    Finish(job, tl::make_unexpected(std::move(answer).error()));
    return;
  }
  if (!answer->ok()) {
    if (answer->refusal.code == kNotFound) {
      OnLeaseGone(job, answer->refusal.message);
    } else {
      Finish(job, Fail(Errc::kUnavailable, "etcd refused the records: " + answer->refusal.message));
    }
    return;
  }
  auto create = ParseCreate(answer->body);
  if (!create) {
    Finish(job, tl::make_unexpected(std::move(create).error()));
    return;
  }
  if (!create->created) {
    // The transaction creates all or nothing; go on with those that don't exist. Each round has
    // fewer, so it ends.
    if (!DropExisting(create->existing, *batch)) {
      Finish(job, Fail(Errc::kMalformed, "etcd names keys that were not in the transaction"));
      return;
    }
    if (!batch->empty()) {
      Create(job, batch);
      return;
    }
  }
  for (const Record& record : *batch) {
    foreign_.erase(record.key);
  }
  const auto count = static_cast<std::ptrdiff_t>(BatchSize(job->records));
  Remember({job->records.data(), static_cast<std::size_t>(count)});
  job->records.erase(job->records.begin(), job->records.begin() + count);
  PutStep(job);
}

void EtcdDiscovery::OnLeaseGone(const JobPtr& job, const std::string& why) {
  if (job->kind == Kind::kPutBack) {
    Finish(job, Fail(Errc::kUnavailable, why));  // the lease starts over
    return;
  }
  jobs_.pop_front();
  running_ = false;
  waiting_.push_back(job);
  lease_.Lose(why);
  RunNext();
}

void EtcdDiscovery::Remember(std::span<const Record> records) {
  for (const Record& record : records) {
    const auto known = std::find_if(records_.begin(), records_.end(), [&](const Record& other) {
      return other.key == record.key;
    });
    if (known == records_.end()) {
      records_.push_back(record);
    }
  }
}

void EtcdDiscovery::ResumeWaiting() {
  while (!waiting_.empty()) {
    Enqueue(std::move(waiting_.front()), false);
    waiting_.pop_front();
  }
}

void EtcdDiscovery::DeleteStep(const JobPtr& job) {
  const std::set<std::string> gone(job->keys.begin(), job->keys.end());
  std::erase_if(records_, [&](const Record& record) { return gone.count(record.key) != 0; });
  std::erase_if(job->keys, [this](const std::string& key) { return foreign_.erase(key) != 0; });
  const auto count = static_cast<std::ptrdiff_t>(std::min(kTxnOpsMax, job->keys.size()));
  const std::vector<std::string> batch(job->keys.begin(), job->keys.begin() + count);
  job->keys.erase(job->keys.begin(), job->keys.begin() + count);
  if (batch.empty()) {
    Later([this, job](Status status) { Finish(job, std::move(status)); }, Status());
    return;
  }
  gateway_.Call(
      kDeletePath,
      DeleteBody(batch),
      Gateway::Auth::kToken,
      call_limit_,
      [this, job](Result<Answer> answer) {
        if (closed_) {
          return;
        }
        if (!answer) {
          Finish(job, tl::make_unexpected(std::move(answer).error()));
        } else if (!answer->ok()) {
          Finish(job,
                 Fail(Errc::kUnavailable, "etcd refused the delete: " + answer->refusal.message));
        } else {
          DeleteStep(job);
        }
      });
}

void EtcdDiscovery::List(std::string prefix,
                         std::function<void(Result<std::vector<Record>>)> done) {
  UNDERSTUDY_ASSERT(loop_.OnThread());
  using Records = Result<std::vector<Record>>;
  if (auto status = gateway_.Check(); !status) {
    Later(std::move(done), Records(tl::make_unexpected(status.error())));
    return;
  }
  gateway_.Call(
      kRangePath,
      RangeBody(prefix),
      Gateway::Auth::kToken,
      call_limit_,
      [done = std::move(done)](Result<Answer> answer) {
        if (!answer) {
          done(tl::make_unexpected(std::move(answer).error()));
        } else if (!answer->ok()) {
          done(Fail(Errc::kUnavailable, "etcd refused to list: " + answer->refusal.message));
        } else {
          done(ParseRange(answer->body));
        }
      });
}

void EtcdDiscovery::Close(Nanoseconds limit, StatusDone done) {
  UNDERSTUDY_ASSERT(loop_.OnThread());
  if (closed_ && !revoking_) {
    Later(std::move(done), close_status_);
    return;
  }
  close_waiters_.push_back(std::move(done));
  if (revoking_) {
    return;
  }
  closed_ = true;
  revoking_ = true;
  lease_.Stop();
  for (auto* queue : {&jobs_, &waiting_}) {
    for (const JobPtr& job : std::exchange(*queue, {})) {
      if (job->kind != Kind::kPutBack) {
        Later(job->done, Status(Fail(Errc::kCancelled, "discovery is closed")));
      }
    }
  }
  if (lease_.id() == 0) {
    Answer nothing_to_do;
    nothing_to_do.status = 200;
    Later([this](Result<Answer> answer) { OnRevoke(std::move(answer)); },
          Result<Answer>(std::move(nothing_to_do)));
    return;
  }
  gateway_.Call(kRevokePath,
                LeaseBody(lease_.id()),
                Gateway::Auth::kToken,
                limit,
                [this](Result<Answer> answer) { OnRevoke(std::move(answer)); });
}

void EtcdDiscovery::OnRevoke(Result<Answer> answer) {
  revoking_ = false;
  if (!answer) {
    close_status_ = Fail(answer.error().code, answer.error().message);
  } else if (!answer->ok() && answer->refusal.code != kNotFound) {
    close_status_ = Fail(Errc::kUnavailable, answer->refusal.message);
  }
  if (!close_status_) {
    close_status_ =
        FailWith("lease " + IdText(lease_.id()) + " not revoked, it ends by itself within " +
                     std::to_string(ttl_s_) + " s",
                 close_status_.error());
  }
  const Status status = close_status_;
  for (const StatusDone& done : std::exchange(close_waiters_, {})) {
    done(status);
  }
}

}  // namespace
}  // namespace etcd

std::unique_ptr<Discovery> NewEtcdDiscovery(Loop& loop, EtcdOptions options) {
  return std::make_unique<etcd::EtcdDiscovery>(loop, options);
}

}  // namespace understudy::transport
