// The ranks of one engine thread, in real time but without a thread: the caller says what time it
// is.
#pragma once

#include "plugin/mocker/live/command.h"
#include "plugin/mocker/live/handoff_desk.h"
#include "plugin/mocker/live/waiting_bound.h"
#include "plugin/mocker/scheduler/rank_group.h"
#include "understudy/base/clock.h"
#include "understudy/engine/engine.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <vector>

namespace understudy::mocker {

/// While passes end as fast as they are computed, output is handed over after so many rounds (a
/// round is a pass of every rank that is due), so many outputs, or so much time, whichever comes
/// first.
inline constexpr std::uint32_t kFlushRounds = 32;
inline constexpr std::size_t kFlushOutputs = 16384;
inline constexpr Nanoseconds kFlushDelay = std::chrono::milliseconds(2);
/// Clears of a host that wait for the end of a pass; further ones are refused.
inline constexpr std::size_t kParkedClearsMax = 4096;
/// Outputs and blocks of events handed over but not yet dealt with, per engine thread; beyond it no
/// pass starts.
inline constexpr std::int64_t kInFlightMax = 131072;

/// Runs passes back to back: each starts at the modelled end of the one before, so lateness of the
/// thread does not add up. Ranks that share passes are in one group, others each in its own. Events
/// of a pass are handed over when it starts, the rest when it is over; what falls together goes
/// together. Not thread safe; all members but those of WaitingBound belong to one thread.
class RankHost {
 public:
  /// Which groups of `group_size` ranks: `first`, `first + stride`, … below `group_count`.
  struct Share {
    std::uint32_t first = 0;
    std::uint32_t stride = 1;
    std::uint32_t group_count = 1;
    std::uint32_t group_size = 1;
  };

  RankHost(const SchedulerConfig& config, Share share, WaitingBound& bound);

  /// No pass starts before `ready_at`. `sink` outlives the last call of RunDue and Flush.
  void Start(engine::EngineSink& sink, TimePoint ready_at);

  void Apply(Command command);

  /// Ends the passes whose time has come and starts those that follow, once for each rank. True if
  /// there is more to do at the same `now`.
  bool RunDue(TimePoint now);

  /// Too much output is on its way to a slow reader: don't call RunDue now.
  [[nodiscard]] bool Congested() const;

  /// Output should be handed over although there is more to do.
  [[nodiscard]] bool FlushDue(TimePoint now) const;
  void Flush();

  /// When RunDue should be called again; none: not before a command.
  [[nodiscard]] std::optional<TimePoint> NextDeadline() const;

  /// One JSON object; state_dump.cc.
  [[nodiscard]] std::string Dump() const;

 private:
  struct Rank {
    RankScheduler* scheduler = nullptr;
    RankIndex index;
    std::uint32_t group = 0;           ///< place in groups_
    std::unique_ptr<PassOutput> pass;  ///< the pass that is under way
    std::uint32_t bound_taken = 0;     ///< of WaitingBound
    std::uint32_t load_place = 0;      ///< in batch_.loads, if load_batch is the current one
    std::uint64_t load_batch = 0;
  };
  struct Group {
    Group(const SchedulerConfig& config, std::uint32_t first_rank, std::uint32_t count)
        : ranks(config, first_rank, count) {}
    RankGroup ranks;
    TimePoint pass_end{};
    std::optional<TimePoint> transfer;  ///< it has an entry in due_ for that moment
    bool in_pass = false;
    bool wanted = false;  ///< in wanted_
  };
  struct Due {
    TimePoint at;
    std::uint32_t group;
    bool transfer;  ///< between device and host, while no pass is under way; else a pass ends
    friend bool operator>(const Due& a, const Due& b) { return a.at > b.at; }
  };

  [[nodiscard]] std::uint32_t PlaceOf(RankIndex rank) const {
    const std::uint32_t group = Value(rank) / share_.group_size;
    return (group - share_.first) / share_.stride * share_.group_size +
           Value(rank) % share_.group_size;
  }
  Rank& RankOf(RankIndex rank) { return ranks_[PlaceOf(rank)]; }
  [[nodiscard]] std::span<Rank> RanksOf(const Group& group) {
    const auto place = static_cast<std::size_t>(&group - groups_.data());
    return std::span(ranks_).subspan(place * share_.group_size, share_.group_size);
  }
  [[nodiscard]] bool InPass(const Rank& rank) const { return groups_[rank.group].in_pass; }
  void Want(const Rank& rank);
  void StartWanted(TimePoint now);
  void RunGroup(Due due, TimePoint now);
  void StartPass(Group& group, TimePoint at);
  void EndPass(Group& group, TimePoint now);
  void EndPassOf(Rank& rank, TimePoint end);
  void CompleteTransfers(Group& group, TimePoint now);
  void AwaitTransfer(Group& group);
  void TakeEvents(std::vector<engine::KvEvent>& events);
  void TakeCommandEvents(Rank& rank);
  void UpdateBound(Rank& rank);
  void UpdateLoad(Rank& rank);
  [[nodiscard]] std::unique_ptr<PassOutput> NewOutput();

  // inspection.cc
  void ApplyRead(const ReadCommand& read);
  void ApplyClear(const ClearCommand& clear);
  void EndPassOfClears(Rank& rank);
  void ClearCache(Rank& rank, const ClearCommand& clear);

  // rank_handoffs.cc
  void ApplyHandoff(std::unique_ptr<handoff::Command> command);
  void Execute(Rank& rank, handoff::Command& command, bool in_pass);
  [[nodiscard]] Result<engine::HandoffOutcome> Run(Rank& rank,
                                                   handoff::Command& command,
                                                   bool in_pass);
  [[nodiscard]] Result<engine::HandoffOutcome> Submit(Rank& rank,
                                                      handoff::Command& command,
                                                      HandoffDesk::End end,
                                                      bool in_pass);
  void EndPassOfHandoffs(Rank& rank, const PassOutput& pass);
  void CancelledForHandoffs(Rank& rank, RequestId id);
  void RetryDestination(Rank& rank);
  engine::HandoffSignal& NewSignal(const Rank& rank, engine::HandoffId handoff);
  void Reply(const Rank& rank,
             const handoff::Command& command,
             const Result<engine::HandoffOutcome>& outcome);
  void Notify(Rank& rank, const std::vector<HandoffNotice>& notices);

  const Share share_;
  const EngineSemantics semantics_;
  const bool pass_stats_;
  WaitingBound& bound_;
  engine::EngineSink* sink_ = nullptr;
  TimePoint ready_at_{};
  std::vector<Group> groups_;
  std::vector<Rank> ranks_;  ///< of all groups, one after the other
  std::priority_queue<Due, std::vector<Due>, std::greater<>>
      due_;  ///< one entry for each pass under way, and for transfers
  std::vector<Due> due_now_;
  std::vector<std::uint32_t>
      wanted_;                       ///< groups that got a command since they last looked for work
  std::vector<PassOutput*> places_;  ///< of the group that starts a pass
  std::vector<std::unique_ptr<PassOutput>> outputs_;  ///< unused ones
  std::vector<engine::KvEvent> events_;
  std::int64_t weight_ = 0;  ///< of what was not yet charged to a batch: blocks in events, outputs
  engine::PassBatch batch_;
  std::uint64_t batch_number_ = 1;
  std::uint32_t rounds_ = 0;
  std::optional<TimePoint> unflushed_since_;
  std::unique_ptr<HandoffDesk> desk_;  ///< from the first command of a hand-off on
  CommandOutput command_output_;
  std::vector<ClearCommand> parked_clears_;  ///< of one rank each
  /// Let go when the events that go with it have been handed over.
  std::vector<std::shared_ptr<const void>> answered_;
  std::size_t outputs_last_ = 0;  ///< size of the batch before: room made for the next one
  /// Shared with the batches under way, which may outlive this object.
  std::shared_ptr<std::atomic<std::int64_t>> in_flight_ =
      std::make_shared<std::atomic<std::int64_t>>(0);
};

}  // namespace understudy::mocker
