#include "plugin/mocker/sglang/radix_cache.h"

#include "understudy/base/assert.h"

#include <utility>

namespace understudy::mocker {

RadixCache::RadixCache(const Options& options)
    : options_(options),
      total_tokens_(options.pages_total * options.page_size),
      free_tokens_(total_tokens_),
      copies_(options.events),
      tree_(copies_, options.paged) {}

void RadixCache::MakeRoom(std::uint64_t tokens, EventLog& log) {
  EvictUntil(tokens);
  LogRemoved(log);
}

std::uint64_t RadixCache::ClearCached(EventLog& log) {
  const std::uint64_t before = tree_.pages();
  EvictUntil(total_tokens_);
  if (copies_.size() > 0) {
    LogRemoved(log);
  } else if (options_.events) {
    removed_.clear();
    log.push_back(NewEvent(engine::KvEvent::Kind::kCleared));
  }
  return before - tree_.pages();
}

void RadixCache::EvictUntil(std::uint64_t tokens) {
  while (free_tokens_ < tokens) {
    const std::uint64_t missing =
        (tokens - free_tokens_ + options_.page_size - 1) / options_.page_size;
    const RadixTree::Run run = tree_.RemoveOldest(options_.paged ? missing : UINT64_MAX);
    if (run.pages == 0) {
      break;
    }
    free_tokens_ += std::uint64_t{run.pages} * options_.page_size;
    for (std::uint32_t copy = run.first_copy; copy != kNoIndex;) {
      const std::uint32_t next = copies_.next(copy);
      const BlockHash hash = copies_.hash(copy);
      if (copies_.Remove(copy)) {
        removed_.push_back(hash);
      }
      copy = next;
    }
  }
}

void RadixCache::Take(std::uint64_t tokens) {
  UNDERSTUDY_ASSERT(tokens <= free_tokens_);
  free_tokens_ -= tokens;
}

void RadixCache::Register(std::span<Page> pages,
                          std::size_t from,
                          EventLog& log,
                          std::span<const std::uint32_t> tokens) {
  std::size_t first_new = pages.size();
  for (std::size_t i = from; i < pages.size(); ++i) {
    const PageCopies::Added added = copies_.Add(pages[i].hash);
    pages[i].copy = added.copy;
    if (added.first && first_new == pages.size()) {
      first_new = i;
    }
  }
  if (first_new == pages.size()) {
    return;  // all known, or no events
  }
  engine::KvEvent event = NewEvent(engine::KvEvent::Kind::kStored);
  if (first_new > 0) {
    event.parent = pages[first_new - 1].hash;
  }
  event.blocks.reserve(pages.size() - first_new);
  for (const Page& page : pages.subspan(first_new)) {
    event.blocks.push_back({page.hash, page.tokens_hash});
  }
  if (!tokens.empty()) {
    const auto own =
        tokens.subspan(first_new * options_.page_size, event.blocks.size() * options_.page_size);
    event.tokens.assign(own.begin(), own.end());
  }
  log.push_back(std::move(event));
}

std::uint32_t RadixCache::ExtendAndLock(std::uint32_t node,
                                        std::span<Page> pages,
                                        std::size_t depth,
                                        EventLog& log) {
  const std::uint32_t end = tree_.ExtendAndLock(node, pages, depth);
  if (options_.paged) {
    Drop(pages.subspan(depth), log);  // what the tree had already
  }
  return end;
}

void RadixCache::Drop(std::span<Page> pages, EventLog& log) {
  for (Page& page : pages) {
    if (page.copy == kNoIndex) {
      continue;
    }
    if (copies_.Remove(std::exchange(page.copy, kNoIndex))) {
      removed_.push_back(page.hash);
    }
    free_tokens_ += options_.page_size;
  }
  LogRemoved(log);
}

engine::KvEvent RadixCache::NewEvent(engine::KvEvent::Kind kind) {
  engine::KvEvent event;
  event.rank = options_.rank;
  event.event_id = next_event_id_++;
  event.kind = kind;
  return event;
}

void RadixCache::LogRemoved(EventLog& log) {
  if (removed_.empty()) {
    return;
  }
  engine::KvEvent event = NewEvent(engine::KvEvent::Kind::kRemoved);
  event.blocks.reserve(removed_.size());
  for (const BlockHash hash : removed_) {
    event.blocks.push_back({hash, {}});
  }
  log.push_back(std::move(event));
  removed_.clear();
}

std::uint64_t RadixCache::tokens_outside_tree() const {
  return total_tokens_ - free_tokens_ - tree_.pages() * options_.page_size;
}

std::string RadixCache::CheckConsistency(std::span<const std::uint32_t> holders) const {
  if (std::string problem = copies_.CheckConsistency(); !problem.empty()) {
    return problem;
  }
  if (std::string problem = tree_.CheckConsistency(holders); !problem.empty()) {
    return problem;
  }
  if (free_tokens_ + tree_.pages() * options_.page_size > total_tokens_) {
    return "more tokens are free or cached than there are";
  }
  if (tree_.pages() > copies_.size()) {
    return "the tree has more pages than there are copies";
  }
  return {};
}

}  // namespace understudy::mocker
