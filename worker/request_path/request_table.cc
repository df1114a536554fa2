#include "worker/request_path/request_table.h"

#include "understudy/base/assert.h"

#include <algorithm>
#include <utility>

namespace understudy::worker {

OpenStream& RequestTable::Open(std::string context_id, std::uint32_t worker) {
  UNDERSTUDY_ASSERT(!full());
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back().slot = free_.back();
  }
  auto& stream = slots_[free_.back()];
  free_.pop_back();
  ++open_;
  UNDERSTUDY_ASSERT(ids_.insert({worker, context_id}).second);
  stream.worker = worker;
  running_of_.resize(std::max<std::size_t>(running_of_.size(), worker + 1));
  ++running_of_[worker];
  stream.state = OpenStream::State::kRunning;
  stream.context_id = std::move(context_id);
  return stream;
}

RequestId RequestTable::IdOf(const OpenStream& stream) {
  return RequestId{std::uint64_t{stream.generation} << 32 | stream.slot};
}

OpenStream* RequestTable::Find(RequestId id) {
  auto* stream = FindOpen(id);
  return stream != nullptr && stream->state == OpenStream::State::kRunning ? stream : nullptr;
}

OpenStream* RequestTable::FindOpen(RequestId id) {
  const auto slot = static_cast<std::uint32_t>(Value(id));
  if (slot >= slots_.size()) {
    return nullptr;
  }
  auto& stream = slots_[slot];
  const bool same = stream.generation == static_cast<std::uint32_t>(Value(id) >> 32);
  return same && stream.state != OpenStream::State::kFree ? &stream : nullptr;
}

void RequestTable::Finishing(OpenStream& stream) {
  UNDERSTUDY_ASSERT(stream.state == OpenStream::State::kRunning);
  StopRunning(stream);
  stream.state = OpenStream::State::kFinishing;
}

void RequestTable::StopRunning(const OpenStream& stream) {
  ids_.erase({stream.worker, stream.context_id});
  --running_of_[stream.worker];
}

void RequestTable::Close(OpenStream& stream) {
  if (stream.state == OpenStream::State::kRunning) {
    StopRunning(stream);
  }
  const auto slot = stream.slot;
  const auto generation = stream.generation + 1;
  stream = OpenStream{};
  stream.slot = slot;
  stream.generation = generation;
  free_.push_back(slot);
  --open_;
}

}  // namespace understudy::worker
