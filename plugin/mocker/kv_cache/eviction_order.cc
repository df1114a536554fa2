#include "plugin/mocker/kv_cache/eviction_order.h"

#include <algorithm>

namespace understudy::mocker {

namespace {

/// std::heap functions keep the greatest in front; we want the smallest tick there.
bool Later(const EvictionOrder::Entry& a, const EvictionOrder::Entry& b) {
  return a.tick > b.tick;
}

}  // namespace

void EvictionOrder::Add(Entry entry) {
  heap_.push_back(entry);
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

EvictionOrder::Entry EvictionOrder::RemoveFirst() {
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  const Entry entry = heap_.back();
  heap_.pop_back();
  return entry;
}

void EvictionOrder::Rebuild() {
  std::make_heap(heap_.begin(), heap_.end(), Later);
}

}  // namespace understudy::mocker
