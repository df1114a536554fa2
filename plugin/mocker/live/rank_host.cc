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
    : share_(share),
      semantics_(config.semantics),
      pass_stats_(config.collect_stats),
      bound_(bound) {
  const std::uint32_t count = (share.group_count - share.first + share.stride - 1) / share.stride;
  groups_.reserve(count);
  ranks_.reserve(std::size_t{count} * share.group_size);
  for (std::uint32_t group = share.first; group < share.group_count; group += share.stride) {
    const auto place = static_cast<std::uint32_t>(groups_.size());
    const std::uint32_t first = group * share.group_size;
    groups_.emplace_back(config, first, share.group_size);
    for (std::uint32_t i = 0; i < share.group_size; ++i) {
      Rank& rank = ranks_.emplace_back();
      rank.scheduler = groups_.back().ranks.ranks()[i].get();
      rank.index = RankIndex{first + i};
      rank.group = place;
    }
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

void RankHost::Want(const Rank& rank) {
  Group& group = groups_[rank.group];
  if (!group.wanted && !group.in_pass) {
    group.wanted = true;
    wanted_.push_back(rank.group);
  }
}

bool RankHost::RunDue(TimePoint now) {
  StartWanted(now);
  due_now_.clear();
  while (!due_.empty() && due_.top().at <= now) {
    due_now_.push_back(due_.top());
    due_.pop();
  }
  for (const Due& due : due_now_) {
    RunGroup(due, now);
    if (batch_.outputs.size() >= kFlushOutputs) {
      Flush();
    }
  }
  ++rounds_;
  return !due_.empty() && due_.top().at <= now;
}

void RankHost::RunGroup(Due due, TimePoint now) {
  Group& group = groups_[due.group];
  if (due.transfer) {
    if (group.transfer != due.at) {
      return;  // there was an earlier one since
    }
    group.transfer.reset();
    if (group.in_pass) {
      return;  // its end looks after transfers
    }
    CompleteTransfers(group, due.at);
  } else {
    EndPass(group, now);
  }
  if (group.ranks.HasWork()) {
    StartPass(group,
              now - due.at > semantics_.catch_up_max ? now - semantics_.catch_up_left : due.at);
  } else {
    AwaitTransfer(group);
  }
}

void RankHost::StartWanted(TimePoint now) {
  if (wanted_.empty() || now < ready_at_) {
    return;
  }
  for (const std::uint32_t place : wanted_) {
    Group& group = groups_[place];
    group.wanted = false;
    CompleteTransfers(group, now);
    if (group.ranks.HasWork()) {
      StartPass(group, now);
    } else {
      AwaitTransfer(group);
    }
  }
  wanted_.clear();
}

void RankHost::StartPass(Group& group, TimePoint at) {
  const std::span<Rank> ranks = RanksOf(group);
  places_.clear();
  for (Rank& rank : ranks) {
    rank.pass = NewOutput();
    places_.push_back(rank.pass.get());
  }
  const bool progressed = group.ranks.RunPass(at.time_since_epoch(), places_);
  Nanoseconds duration{0};
  for (Rank& rank : ranks) {
    UpdateBound(rank);
    if (!rank.pass->events_at_end) {
      TakeEvents(rank.pass->events);
    }
    duration = rank.pass->duration();
    if (!progressed) {
      outputs_.push_back(std::move(rank.pass));
    }
  }
  if (!progressed) {  // only with strict_reference: idle until the next command or transfer
    AwaitTransfer(group);
    return;
  }
  group.in_pass = true;
  group.pass_end = at + duration;
  due_.push({group.pass_end, static_cast<std::uint32_t>(&group - groups_.data()), false});
}

/// The group has nothing to do before the next transfer is over.
void RankHost::AwaitTransfer(Group& group) {
  const std::optional<Nanoseconds> next = group.ranks.NextTransfer();
  if (next && group.transfer != TimePoint(*next)) {
    group.transfer = TimePoint(*next);
    due_.push({*group.transfer, static_cast<std::uint32_t>(&group - groups_.data()), true});
  }
}

void RankHost::CompleteTransfers(Group& group, TimePoint now) {
  const std::optional<Nanoseconds> next = group.ranks.NextTransfer();
  if (!next || *next > now.time_since_epoch()) {
    return;
  }
  for (Rank& rank : RanksOf(group)) {
    command_output_.Clear();
    rank.scheduler->CompleteTransfers(now.time_since_epoch(), command_output_);
    TakeEvents(command_output_.events);
    RetryDestination(rank);
    UpdateLoad(rank);
  }
}

void RankHost::TakeEvents(std::vector<engine::KvEvent>& events) {
  for (const engine::KvEvent& event : events) {
    weight_ += static_cast<std::int64_t>(event.blocks.size());
  }
  Append(events_, events);
}

/// They follow those of a pass under way.
void RankHost::TakeCommandEvents(Rank& rank) {
  if (InPass(rank) && rank.pass->events_at_end) {
    Append(rank.pass->events, command_output_.events);
  } else {
    TakeEvents(command_output_.events);
  }
}

void RankHost::EndPass(Group& group, TimePoint now) {
  if (!unflushed_since_.has_value()) {
    unflushed_since_ = now;
    batch_.outputs.reserve(outputs_last_);
  }
  group.in_pass = false;
  for (Rank& rank : RanksOf(group)) {
    EndPassOf(rank, group.pass_end);
  }
}

void RankHost::EndPassOf(Rank& rank, TimePoint end) {
  std::unique_ptr<PassOutput> pass = std::exchange(rank.pass, nullptr);
  if (pass->events_at_end) {
    TakeEvents(pass->events);
  }
  command_output_.Clear();
  rank.scheduler->EndPass(end.time_since_epoch(), command_output_);
  TakeEvents(command_output_.events);
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
