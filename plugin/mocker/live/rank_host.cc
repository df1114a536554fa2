#include "plugin/mocker/live/rank_host.h"

#include <algorithm>
#include <utility>

namespace understudy::mocker {

namespace {

/// PassOutput objects kept for reuse; more passes at a time allocate theirs.
constexpr std::size_t kOutputsKeptMax = 64;
/// One that has grown beyond so many outputs is not kept.
constexpr std::size_t kOutputCapacityKept = 8192;

template <class T>
void Append(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

engine::ForwardPass ForwardPassOf(RankIndex rank, const PassOutput& pass) {
  return {rank,
          pass.duration(),
          pass.stats.prefill,
          pass.stats.prefill_tokens,
          pass.stats.prefill_kv_tokens,
          pass.stats.decode,
          pass.stats.queued_prefill,
          pass.stats.queued_decode};
}

/// Returns a batch's weight to the budget when the batch is destroyed, on whatever thread that is.
class Credit {
 public:
  Credit(std::shared_ptr<std::atomic<std::int64_t>> in_flight, std::int64_t weight)
      : in_flight_(std::move(in_flight)), weight_(weight) {
    in_flight_->fetch_add(weight_, std::memory_order_relaxed);
  }
  ~Credit() { in_flight_->fetch_sub(weight_, std::memory_order_relaxed); }
  Credit(const Credit&) = delete;
  Credit& operator=(const Credit&) = delete;

 private:
  std::shared_ptr<std::atomic<std::int64_t>> in_flight_;
  std::int64_t weight_;
};

}  // namespace

RankHost::RankHost(const SchedulerConfig& config, Share share, WaitingBound& bound)
    : share_(share), pass_stats_(config.collect_stats), bound_(bound) {
  ranks_.reserve((share.rank_count - share.first + share.stride - 1) / share.stride);
  for (std::uint32_t rank = share.first; rank < share.rank_count; rank += share.stride) {
    ranks_.emplace_back(config, RankIndex{rank});
  }
}

void RankHost::Start(engine::EngineSink& sink, TimePoint ready_at) {
  sink_ = &sink;
  ready_at_ = ready_at;
}

void RankHost::Apply(Command command) {
  if (auto* request = std::get_if<engine::Request>(&command)) {
    Rank& rank = RankOf(request->rank);
    rank.scheduler->Submit(std::move(*request));
    ++rank.bound_taken;
    Want(rank);
  } else if (const auto* cancel = std::get_if<CancelCommand>(&command)) {
    Rank& rank = RankOf(cancel->rank);
    command_output_.Clear();
    if (rank.scheduler->Cancel(cancel->id, command_output_)) {
      TakeCommandEvents(rank);
      if (desk_) {
        CancelledForHandoffs(rank, cancel->id);
      }
      UpdateBound(rank);
      UpdateLoad(rank);
      Want(rank);  // what waited for the freed blocks may start now
    }
  } else if (auto* of_handoff = std::get_if<std::unique_ptr<handoff::Command>>(&command)) {
    ApplyHandoff(std::move(*of_handoff));
  } else if (const auto* read = std::get_if<ReadCommand>(&command)) {
    ApplyRead(*read);
  } else if (const auto* clear = std::get_if<ClearCommand>(&command)) {
    ApplyClear(*clear);
  } else {
    std::get<DumpCommand>(command).reply->Add(Dump());
  }
}

void RankHost::Want(Rank& rank) {
  if (!rank.wanted && !rank.pass) {
    rank.wanted = true;
    wanted_.push_back(static_cast<std::uint32_t>(&rank - ranks_.data()));
  }
}

bool RankHost::RunDue(TimePoint now) {
  StartWanted(now);
  due_now_.clear();
  while (!due_.empty() && due_.top().at <= now) {
    due_now_.push_back(due_.top().rank);
    due_.pop();
  }
  for (const std::uint32_t place : due_now_) {
    Rank& rank = ranks_[place];
    EndPass(rank, now);
    if (rank.scheduler->HasWork()) {
      StartPass(rank, now - rank.pass_end > kCatchUpMax ? now : rank.pass_end);
    }
    if (batch_.outputs.size() >= kFlushOutputs) {
      Flush();
    }
  }
  ++rounds_;
  return !due_.empty() && due_.top().at <= now;
}

void RankHost::StartWanted(TimePoint now) {
  if (wanted_.empty() || now < ready_at_) {
    return;
  }
  for (const std::uint32_t place : wanted_) {
    Rank& rank = ranks_[place];
    rank.wanted = false;
    if (rank.scheduler->HasWork()) {
      StartPass(rank, now);
    }
  }
  wanted_.clear();
}

void RankHost::StartPass(Rank& rank, TimePoint at) {
  rank.pass = NewOutput();
  PassOutput& pass = *rank.pass;
  rank.scheduler->RunPass(pass);
  UpdateBound(rank);
  if (!pass.events_at_end) {
    TakeEvents(pass.events);
  }
  if (!pass.progressed) {
    outputs_.push_back(
        std::move(rank.pass));  // only with strict_reference: idle until the next command
    return;
  }
  rank.pass_end = at + pass.duration();
  due_.push({rank.pass_end, static_cast<std::uint32_t>(&rank - ranks_.data())});
}

void RankHost::TakeEvents(std::vector<engine::KvEvent>& events) {
  for (const engine::KvEvent& event : events) {
    weight_ += static_cast<std::int64_t>(event.blocks.size());
  }
  Append(events_, events);
}

/// They follow those of a pass under way.
void RankHost::TakeCommandEvents(Rank& rank) {
  if (rank.pass && rank.pass->events_at_end) {
    Append(rank.pass->events, command_output_.events);
  } else {
    TakeEvents(command_output_.events);
  }
}

void RankHost::EndPass(Rank& rank, TimePoint now) {
  std::unique_ptr<PassOutput> pass = std::exchange(rank.pass, nullptr);
  if (!unflushed_since_.has_value()) {
    unflushed_since_ = now;
    batch_.outputs.reserve(outputs_last_);
  }
  if (pass->events_at_end) {
    TakeEvents(pass->events);
  }
  Append(batch_.admissions, pass->admissions);
  Append(batch_.outputs, pass->outputs);
  Append(batch_.failures, pass->failures);
  if (pass_stats_) {
    batch_.passes.push_back(ForwardPassOf(rank.index, *pass));
  }
  if (desk_ && !desk_->empty()) {
    EndPassOfHandoffs(rank, *pass);
  }
  if (!parked_clears_.empty()) {
    EndPassOfClears(rank);
  }
  UpdateLoad(rank);
  if (outputs_.size() < kOutputsKeptMax && pass->outputs.capacity() <= kOutputCapacityKept) {
    outputs_.push_back(std::move(pass));
  }
}

void RankHost::UpdateBound(Rank& rank) {
  const std::uint32_t unadmitted = rank.scheduler->unadmitted();
  if (unadmitted != rank.bound_taken) {
    bound_.GiveBack(rank.index, rank.bound_taken - unadmitted);
    rank.bound_taken = unadmitted;
  }
}

void RankHost::UpdateLoad(Rank& rank) {
  const engine::Load load = rank.scheduler->load();
  if (rank.load_batch == batch_number_) {
    batch_.loads[rank.load_place] = load;
    return;
  }
  rank.load_batch = batch_number_;
  rank.load_place = static_cast<std::uint32_t>(batch_.loads.size());
  batch_.loads.push_back(load);
}

bool RankHost::Congested() const {
  return in_flight_->load(std::memory_order_relaxed) > kInFlightMax;
}

bool RankHost::FlushDue(TimePoint now) const {
  return rounds_ >= kFlushRounds ||
         (unflushed_since_.has_value() && now - *unflushed_since_ >= kFlushDelay);
}

void RankHost::Flush() {
  rounds_ = 0;
  unflushed_since_.reset();
  if (!events_.empty()) {
    sink_->OnKvEvents(std::exchange(events_, {}));
  }
  answered_.clear();
  if (batch_.loads.empty() && batch_.handoffs.empty()) {
    return;  // every pass and every command that changed something has left one of them
  }
  outputs_last_ = batch_.outputs.size();
  weight_ += static_cast<std::int64_t>(outputs_last_);
  batch_.credit = std::make_shared<const Credit>(in_flight_, std::exchange(weight_, 0));
  ++batch_number_;
  sink_->OnPassBatch(std::exchange(batch_, {}));
}

std::optional<TimePoint> RankHost::NextDeadline() const {
  std::optional<TimePoint> next;
  if (!due_.empty()) {
    next = due_.top().at;
  }
  if (!wanted_.empty() && (!next.has_value() || ready_at_ < *next)) {
    next = ready_at_;
  }
  return next;
}

std::unique_ptr<PassOutput> RankHost::NewOutput() {
  if (outputs_.empty()) {
    return std::make_unique<PassOutput>();
  }
  std::unique_ptr<PassOutput> output = std::move(outputs_.back());
  outputs_.pop_back();
  return output;
}

}  // namespace understudy::mocker
