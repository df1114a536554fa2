#include "worker/kv_relay/answer_builder.h"

#include <algorithm>

namespace understudy::worker {

using transport::RouterEvent;
using transport::StorageTier;

AnswerBuilder::AnswerBuilder(Indexer& indexer,
                             WorkerId worker_id,
                             DpRank dp_rank,
                             transport::PayloadCodec codec,
                             transport::KvAnswerForm form,
                             const Indexer::Plan& plan)
    : indexer_(indexer), codec_(codec), form_(form), writer_(codec, form) {
  event_.worker_id = worker_id;
  event_.dp_rank = dp_rank;
  if (const auto* range = std::get_if<Indexer::Range>(&plan)) {
    next_id_ = range->first;
    last_id_ = range->last;
  } else {
    BeginDump();
  }
}

AnswerBuilder::~AnswerBuilder() {
  EndWalks();
}

void AnswerBuilder::BeginDump() {
  EndWalks();
  dumping_ = true;
  writer_ = transport::KvAnswerWriter(codec_, form_);
  last_id_ = indexer_.last_id();
  walk_ = 0;
  synthetic_id_ = 0;
  const auto add = [this](StorageTier tier) {
    if (auto* tree = indexer_.tree(tier)) {
      tree->BeginWalk();
      walks_.push_back({tier, tree});
    }
  };
  add(StorageTier::kDevice);
  if (form_.has_lower_tiers) {
    add(StorageTier::kHostPinned);
    add(StorageTier::kDisk);
    add(StorageTier::kExternal);
  }
}

void AnswerBuilder::EndWalks() {
  for (const Walk& walk : walks_) {
    walk.tree->EndWalk();
  }
  walks_.clear();
}

AnswerBuilder::State AnswerBuilder::Advance(std::size_t blocks) {
  const State state = dumping_ ? AdvanceDump(blocks) : AdvanceRange(blocks);
  return state == State::kMore && writer_.bytes() > kAnswerBytesMax
             ? Failed("the answer exceeds 256 MiB")
             : state;
}

AnswerBuilder::State AnswerBuilder::AdvanceRange(std::size_t blocks) {
  const EventRing& ring = indexer_.ring();
  std::size_t done = 0;
  while (next_id_ <= last_id_ && done < blocks) {
    if (next_id_ < ring.first_id()) {  // overtaken: as if the query had been too old
      BeginDump();
      return State::kMore;
    }
    ring.Read(next_id_++, event_);
    writer_.Add(event_);
    done += 1 + event_.blocks.size();
  }
  return next_id_ > last_id_ ? State::kDone : State::kMore;
}

AnswerBuilder::State AnswerBuilder::AdvanceDump(std::size_t blocks) {
  std::size_t done = 0;
  while (walk_ < walks_.size() && done < blocks) {
    if (!walks_[walk_].tree->NextChain(kChainBlocksMax, chain_)) {
      ++walk_;
      synthetic_id_ = 0;
      continue;
    }
    event_.event_id = synthetic_id_++;
    event_.kind = RouterEvent::Kind::kStored;
    event_.tier = walks_[walk_].tier;
    event_.domain = transport::ResidencyDomain::kWorker;
    event_.parent = chain_.parent;
    event_.start_position.reset();
    event_.session_id.reset();
    event_.mm_infos.clear();
    event_.blocks.swap(chain_.blocks);
    writer_.Add(event_);
    done += 1 + event_.blocks.size();
  }
  const bool broken = std::any_of(
      walks_.begin(), walks_.end(), [](const Walk& walk) { return walk.tree->walk_broken(); });
  if (broken) {
    if (++restarts_ > kRestartsMax) {
      return Failed("the cache changed too often");
    }
    BeginDump();
    return State::kMore;
  }
  if (walk_ < walks_.size()) {
    return State::kMore;
  }
  EndWalks();
  return State::kDone;
}

AnswerBuilder::State AnswerBuilder::Failed(std::string_view problem) {
  EndWalks();
  problem_ = problem;
  return State::kFailed;
}

std::vector<std::string> AnswerBuilder::Take() {
  return dumping_ ? writer_.TakeTreeDump(last_id_) : writer_.TakeEvents(last_id_);
}

}  // namespace understudy::worker
