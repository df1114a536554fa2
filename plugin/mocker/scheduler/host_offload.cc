// The host tier as the scheduler uses it: prompts are written through to it, and read back when the
// device has lost them.
#include "plugin/mocker/scheduler/host_offload.h"

#include "plugin/mocker/scheduler/scheduler.h"
#include "understudy/base/assert.h"

#include <algorithm>
#include <span>
#include <utility>

namespace understudy::mocker {

namespace {

engine::KvEvent EventOf(HostTier::Change change) {
  engine::KvEvent event;
  event.kind = change.stored ? engine::KvEvent::Kind::kStored : engine::KvEvent::Kind::kRemoved;
  event.tier = StorageTier::kHostPinned;
  event.parent = change.parent;
  if (change.stored) {
    event.start_position = change.position;
  }
  event.blocks = std::move(change.blocks);
  event.tokens = std::move(change.tokens);
  return event;
}

}  // namespace

std::span<const LogicalBlock> Scheduler::PromptBlocks(const RequestState& request) const {
  return std::span(request.sequence.blocks()).first(request.prompt_length / config_.block_size);
}

void Scheduler::SetAside(std::uint32_t index) {
  HostRequest& own = host_->requests[index];
  if (!own.aside) {
    own.aside = true;
    waiting_.Remove(requests_, index);
    host_->aside.PushBack(requests_, index);
  } else if (!own.asleep) {
    --host_->awake;
  }
  own.asleep = true;
  output_->progressed = true;
}

void Scheduler::WakeAside() {
  for (std::uint32_t i = host_->aside.front(); i != kNoIndex; i = requests_[i].next) {
    host_->awake += host_->requests[i].asleep ? 1U : 0U;
    host_->requests[i].asleep = false;
  }
}

std::uint32_t Scheduler::FirstAwake() const {
  std::uint32_t index = host_->awake == 0 ? kNoIndex : host_->aside.front();
  while (index != kNoIndex && host_->requests[index].asleep) {
    index = requests_[index].next;
  }
  return index;
}

std::uint32_t Scheduler::WaitingCount() const {
  return waiting_.size() + (host_ ? host_->aside.size() : 0);
}

/// Those aside hold blocks that keep each other from being admitted: the last one that has its own
/// gives them back, and waits like anybody else. False: there is none.
bool Scheduler::ReleaseLastLoad() {
  std::uint32_t last = kNoIndex;
  for (std::uint32_t i = host_->aside.front(); i != kNoIndex; i = requests_[i].next) {
    last = host_->requests[i].loaded > 0 && host_->requests[i].load == 0 ? i : last;
  }
  if (last == kNoIndex) {
    return false;
  }
  ReleaseBlocks(requests_[last]);
  LeaveWaiting(last);
  host_->requests[last] = {};
  waiting_.PushFront(requests_, last);
  output_->progressed = true;
  return true;
}

/// For requests that don't run yet.
bool Scheduler::HostHoldsBlocks() const {
  return host_ && std::any_of(host_->requests.begin(),
                              host_->requests.end(),
                              [](const HostRequest& own) { return own.loaded > 0; });
}

/// It leaves the queue, whichever it is in.
void Scheduler::LeaveWaiting(std::uint32_t index) {
  if (host_ && host_->requests[index].aside) {
    HostRequest& own = host_->requests[index];
    host_->awake -= own.asleep ? 0U : 1U;
    own.aside = own.asleep = false;
    host_->aside.Remove(requests_, index);
  } else {
    waiting_.Remove(requests_, index);
  }
}

/// The head may find more of its prompt in the host tier than `cost` says.
Scheduler::HostAnswer Scheduler::AskHost(std::uint32_t index, PrefixCost& cost) {
  HostRequest& own = host_->requests[index];
  if (own.load != 0) {
    return HostAnswer::kAside;  // woken by another transfer
  }
  if (own.loaded > 0) {  // it has come: what else became visible meanwhile is not used
    cost.active = own.loaded * config_.block_size;
    cost.cached = std::min(cost.active, ReusableMax(requests_[index]));
    return HostAnswer::kNothing;
  }
  if (own.store != 0 && host_->tier.IsUnderWay(own.store)) {
    return HostAnswer::kAside;
  }
  own.store = 0;
  const auto prompt = PromptBlocks(requests_[index]);
  const std::size_t base = pool_->FindPrefix(requests_[index].sequence.blocks()).blocks;
  std::size_t end = base;
  bool under_way = false;
  for (; end < prompt.size(); ++end) {
    const HostTier::Found found = host_->tier.Find(prompt[end].hash);
    if (found == HostTier::Found::kNothing) {
      break;
    }
    under_way = under_way || found == HostTier::Found::kUnderWay;
  }
  host_->tier.Touch(prompt);
  if (end <= base) {
    return HostAnswer::kNothing;
  }
  return under_way ? HostAnswer::kAside : StartLoad(index, cost, base, end);
}

Scheduler::HostAnswer Scheduler::StartLoad(std::uint32_t index,
                                           const PrefixCost& cost,
                                           std::size_t base,
                                           std::size_t end) {
  RequestState& request = requests_[index];
  const std::uint64_t needed =
      config_.policy->Needed(CandidateOf(request, cost), config_.block_size) + PromisedBlocks();
  if (needed > config_.policy->Available(ViewOfPool())) {
    return HostAnswer::kNoRoom;
  }
  auto& blocks = request.sequence.blocks();
  CollectFence();
  if (!pool_->Use(blocks, 0, end, base, output_->events)) {
    return HostAnswer::kNoRoom;
  }
  request.held = static_cast<std::uint32_t>(end);
  HostRequest& own = host_->requests[index];
  own.base = base;
  own.loaded = end;
  own.tail = blocks.size() - end;
  own.load = host_->tier.Load(std::span(blocks).subspan(base, end - base),
                              index,
                              std::max(pass_start_, pool_->TakeFence()));
  return HostAnswer::kAside;
}

/// Blocks that running prompts and loads will still take.
std::uint64_t Scheduler::PromisedBlocks() const {
  std::uint64_t blocks = 0;
  for (const std::uint32_t index : running_) {
    const RequestState& request = requests_[index];
    if (request.status == State::kRunning && request.computed < request.prompt_length) {
      blocks += request.sequence.blocks().size() - request.held;
    }
  }
  for (const HostRequest& own : host_->requests) {
    blocks += own.loaded > 0 ? own.tail : 0;
  }
  return blocks;
}

/// From now on its blocks are like those of anybody else. Returns how many of the reused tokens the
/// device had lost.
std::uint32_t Scheduler::AdmittedFromHost(std::uint32_t index, std::uint64_t reused) {
  HostRequest& own = host_->requests[index];
  std::uint64_t on_device = reused;
  if (own.loaded > 0) {
    own.stored = reused / config_.block_size;
    on_device = std::min(reused, own.base * config_.block_size);
  }
  own.loaded = own.base = own.tail = 0;
  return static_cast<std::uint32_t>(reused - on_device);
}

void Scheduler::PrepareStores() {
  for (const std::uint32_t index : running_) {
    const RequestState& request = requests_[index];
    HostRequest& own = host_->requests[index];
    const std::uint64_t end =
        std::min(request.computed, request.prompt_length) / config_.block_size;
    if (request.status != State::kRunning || request.pass != passes_ || end <= own.stored) {
      continue;
    }
    const auto prompt = PromptBlocks(request);
    std::vector<std::uint32_t> sources;
    bool busy = false;
    for (std::size_t i = own.stored; i < end; ++i) {
      if (host_->tier.Find(prompt[i].hash) == HostTier::Found::kNothing) {
        sources.push_back(prompt[i].slot);
        busy = busy || pool_->CopiedUntil(prompt[i].slot) > pass_start_;
      }
    }
    if (sources.empty()) {
      own.stored = end;
      continue;
    }
    const HostTier::TransferId id =
        busy ? 0 : host_->tier.PrepareStore(prompt, own.stored, end, request.sequence.tokens());
    if (id == 0) {
      continue;  // tried again in the next pass
    }
    host_->tier.NameSources(id, std::move(sources));
    own.store = id;
    own.stored = end;
    host_->tier.Touch(prompt);
  }
}

/// Blocks taken in this pass may still be read for a store: nobody computes before.
void Scheduler::CollectFence() {
  host_->compute_from = std::max(host_->compute_from, pool_->TakeFence());
}

/// What it still has under way goes on, but whoever needs its blocks waits for it.
void Scheduler::FlushStore(std::uint32_t index) {
  if (const auto end = host_->tier.EndOf(host_->requests[index].store)) {
    host_->compute_from = std::max(host_->compute_from, *end);
  }
}

void Scheduler::ForgetHost(std::uint32_t index) {
  HostRequest& own = host_->requests[index];
  if (own.load != 0) {
    host_->tier.CancelLoad(own.load);
    WakeAside();
  }
  own = {};
}

std::optional<Nanoseconds> Scheduler::NextTransfer() const {
  return host_ ? host_->tier.NextEnd() : std::nullopt;
}

void Scheduler::EndPass(Nanoseconds at, CommandOutput& output) {
  FinishTransfers(at, /*pass_over=*/true, output);
}

void Scheduler::CompleteTransfers(Nanoseconds at, CommandOutput& output) {
  FinishTransfers(at, /*pass_over=*/false, output);
}

void Scheduler::TellHostChanges(CommandOutput& output, bool needed) {
  for (HostTier::Change& change : host_->tier.TakeChanges()) {
    if (needed) {
      pool_->Log(EventOf(std::move(change)), output.events);
    }
  }
}

void Scheduler::FinishTransfers(Nanoseconds at, bool pass_over, CommandOutput& output) {
  if (!host_) {
    return;
  }
  HostTier& tier = host_->tier;
  std::vector<std::uint32_t> arrived;
  bool any = false;
  const auto complete = [&] {
    while (const auto done = tier.Complete(at)) {
      any = true;
      if (done->load) {
        arrived.push_back(done->owner);
      }
    }
  };
  complete();
  if (pass_over) {
    tier.SubmitStores(
        at, [this](std::uint32_t slot, Nanoseconds until) { pool_->MarkCopied(slot, until); });
    complete();
  }
  TellHostChanges(output);
  for (const std::uint32_t index : arrived) {
    HostRequest& own = host_->requests[index];
    own.load = 0;
    Sequence& sequence = requests_[index].sequence;
    pool_->Publish(sequence.blocks(), own.base, own.loaded, output.events, sequence.tokens());
    requests_[index].allocated = own.loaded * config_.block_size;
  }
  if (any) {
    WakeAside();
    ++capacity_changes_;
  }
}

}  // namespace understudy::mocker
