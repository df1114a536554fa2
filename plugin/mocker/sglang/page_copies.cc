#include "plugin/mocker/sglang/page_copies.h"

#include <algorithm>

namespace understudy::mocker {

PageCopies::Added PageCopies::Add(BlockHash hash) {
  Added added;
  if (unused_ != kNoIndex) {
    added.copy = unused_;
    unused_ = copies_[unused_].next;
    --unused_count_;
  } else {
    added.copy = static_cast<std::uint32_t>(copies_.size());
    copies_.emplace_back();
  }
  std::uint32_t name = kNoIndex;
  if (counted_) {
    name = NameOf(hash);
    added.first = ++names_[name].copies == 1;
  }
  copies_[added.copy] = {hash, name, kNoIndex, kNoIndex};
  return added;
}

std::uint32_t PageCopies::NameOf(BlockHash hash) {
  std::uint32_t name =
      by_hash_.Find(Value(hash), [&](std::uint32_t i) { return names_[i].hash == hash; });
  if (name != kNoIndex) {
    return name;
  }
  if (unused_names_.empty()) {
    name = static_cast<std::uint32_t>(names_.size());
    names_.emplace_back();
  } else {
    name = unused_names_.back();
    unused_names_.pop_back();
  }
  names_[name] = {hash, 0};
  by_hash_.Insert(Value(hash), name);
  return name;
}

bool PageCopies::Remove(std::uint32_t copy) {
  Copy& entry = copies_[copy];
  entry.next = unused_;
  unused_ = copy;
  ++unused_count_;
  if (!counted_) {
    return false;
  }
  Name& name = names_[entry.name];
  if (--name.copies > 0) {
    return false;
  }
  by_hash_.Erase(Value(name.hash), entry.name);
  unused_names_.push_back(entry.name);
  return true;
}

std::vector<BlockHash> PageCopies::Names() const {
  std::vector<BlockHash> names;
  for (const Name& name : names_) {
    if (name.copies > 0) {
      names.push_back(name.hash);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string PageCopies::CheckConsistency() const {
  std::size_t unused = 0;
  for (std::uint32_t copy = unused_; copy != kNoIndex; copy = copies_[copy].next) {
    ++unused;
  }
  if (unused != unused_count_) {
    return "the list of unused page copies has another length than counted";
  }
  if (!counted_) {
    return {};
  }
  std::size_t counted = 0;
  for (const Name& name : names_) {
    counted += name.copies;
  }
  if (counted != size()) {
    return "names count " + std::to_string(counted) + " page copies, there are " +
           std::to_string(size());
  }
  if (by_hash_.size() + unused_names_.size() != names_.size()) {
    return "page names are neither in use nor unused";
  }
  return {};
}

}  // namespace understudy::mocker
