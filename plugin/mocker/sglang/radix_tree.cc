#include "plugin/mocker/sglang/radix_tree.h"

#include "understudy/base/assert.h"

#include <algorithm>
#include <utility>

namespace understudy::mocker {

std::uint32_t RadixTree::Child(std::uint32_t parent, BlockHash first) const {
  if (parent != kRootNode) {
    const std::uint32_t only = nodes_[parent].only_child;
    if (only != kNoIndex || nodes_[parent].children == 0) {
      return only != kNoIndex && FirstHash(nodes_[only]) == first ? only : kNoIndex;
    }
  }
  return children_.Find(Key(parent, first), [&](std::uint32_t node) {
    return nodes_[node].parent == parent && FirstHash(nodes_[node]) == first;
  });
}

std::size_t RadixTree::Common(std::uint32_t node, std::span<const Page> pages) const {
  const std::size_t most = std::min<std::size_t>(nodes_[node].pages, pages.size());
  std::uint32_t copy = nodes_[node].first;
  std::size_t common = 0;
  while (common < most && copies_.hash(copy) == pages[common].hash) {
    copy = copies_.next(copy);
    ++common;
  }
  return common;
}

RadixTree::Match RadixTree::MatchAndLock(std::span<const Page> pages) {
  ++clock_;
  Match match;
  while (match.pages < pages.size()) {
    const std::uint32_t child = Child(match.node, pages[match.pages].hash);
    if (child == kNoIndex) {
      break;
    }
    const std::size_t common = Common(child, pages.subspan(match.pages));
    match.pages += common;
    if (common < nodes_[child].pages) {
      match.node = Split(child, common);  // keeps the time of use it had as part of the longer one
      break;
    }
    match.node = child;
    nodes_[child].used = clock_;
  }
  LockUpTo(match.node, kRootNode);
  return match;
}

std::size_t RadixTree::Peek(std::span<const Page> pages) const {
  std::uint32_t node = kRootNode;
  std::size_t matched = 0;
  while (matched < pages.size()) {
    node = Child(node, pages[matched].hash);
    if (node == kNoIndex) {
      break;
    }
    const std::size_t common = Common(node, pages.subspan(matched));
    matched += common;
    if (common < nodes_[node].pages) {
      break;
    }
  }
  return matched;
}

std::uint32_t RadixTree::ExtendAndLock(std::uint32_t node,
                                       std::span<Page> pages,
                                       std::size_t depth) {
  ++clock_;
  const std::uint32_t from = node;
  if (grows_leaves_ && depth < pages.size()) {
    MarkUsed(node);
  }
  while (depth < pages.size()) {
    if (MayGrow(node, from)) {
      GrowLeaf(node, pages.subspan(depth));
      break;
    }
    std::uint32_t child = Child(node, pages[depth].hash);
    if (child == kNoIndex) {
      node = AddLeaf(node, pages.subspan(depth));
      break;
    }
    const std::size_t common = Common(child, pages.subspan(depth));
    depth += common;
    if (common < nodes_[child].pages) {
      child = Split(child, common);
      if (grows_leaves_) {
        node = depth < pages.size() ? AddLeaf(child, pages.subspan(depth)) : child;
        break;  // the upper part keeps the time of use it had
      }
    }
    node = child;
    nodes_[node].used = clock_;
  }
  if (!grows_leaves_ && node != kRootNode) {
    nodes_[node].used = clock_;
  }
  LockUpTo(node, from);
  return node;
}

void RadixTree::MarkUsed(std::uint32_t node) {
  for (; node != kRootNode; node = nodes_[node].parent) {
    nodes_[node].used = clock_;
  }
}

/// `own`: where the caller's lock is.
bool RadixTree::MayGrow(std::uint32_t node, std::uint32_t own) const {
  if (!grows_leaves_ || node == kRootNode || nodes_[node].children > 0) {
    return false;
  }
  return nodes_[node].locks == (node == own ? 1U : 0U);
}

void RadixTree::GrowLeaf(std::uint32_t node, std::span<Page> pages) {
  Node& leaf = nodes_[node];
  leaf.used = clock_;
  for (Page& page : pages) {
    const std::uint32_t copy = std::exchange(page.copy, kNoIndex);
    UNDERSTUDY_ASSERT(copy != kNoIndex);
    copies_.Chain(leaf.last, copy);
    leaf.last = copy;
  }
  copies_.End(leaf.last);
  leaf.pages += static_cast<std::uint32_t>(pages.size());
  pages_ += pages.size();
  evictable_pages_ += leaf.locks == 0 ? pages.size() : 0;
}

std::uint32_t RadixTree::NewNode() {
  if (unused_ == kNoIndex) {
    nodes_.emplace_back();
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  const std::uint32_t node = unused_;
  unused_ = nodes_[node].parent;
  nodes_[node] = {};
  return node;
}

/// `child` knows its pages and its parent.
void RadixTree::Attach(std::uint32_t parent, std::uint32_t child) {
  if (parent != kRootNode) {
    Node& above = nodes_[parent];
    if (++above.children == 1) {
      above.only_child = child;
      return;
    }
    if (above.only_child != kNoIndex) {
      const std::uint32_t other = std::exchange(above.only_child, kNoIndex);
      children_.Insert(Key(parent, FirstHash(nodes_[other])), other);
    }
  }
  children_.Insert(Key(parent, FirstHash(nodes_[child])), child);
}

void RadixTree::Detach(std::uint32_t parent, std::uint32_t child) {
  if (parent != kRootNode) {
    --nodes_[parent].children;
    if (nodes_[parent].only_child == child) {
      nodes_[parent].only_child = kNoIndex;
      return;
    }
  }
  children_.Erase(Key(parent, FirstHash(nodes_[child])), child);
}

/// Both begin with the same page.
void RadixTree::Replace(std::uint32_t parent, std::uint32_t child, std::uint32_t by) {
  if (parent != kRootNode && nodes_[parent].only_child == child) {
    nodes_[parent].only_child = by;
    return;
  }
  const std::uint64_t key = Key(parent, FirstHash(nodes_[child]));
  children_.Erase(key, child);
  children_.Insert(key, by);
}

std::uint32_t RadixTree::Split(std::uint32_t node, std::size_t pages) {
  const std::uint32_t upper = NewNode();
  Node& above = nodes_[upper];
  Node& below = nodes_[node];
  Replace(below.parent, node, upper);
  above.used = below.used;
  above.parent = below.parent;
  above.locks = below.locks;
  above.pages = static_cast<std::uint32_t>(pages);
  above.children = 1;
  above.only_child = node;
  above.first = above.last = below.first;
  for (std::size_t i = 1; i < pages; ++i) {
    above.last = copies_.next(above.last);
  }
  below.parent = upper;
  below.first = copies_.next(above.last);
  below.pages -= above.pages;
  copies_.End(above.last);
  return upper;
}

std::uint32_t RadixTree::AddLeaf(std::uint32_t parent, std::span<Page> pages) {
  const std::uint32_t index = NewNode();
  Node& leaf = nodes_[index];
  leaf.parent = parent;
  leaf.pages = static_cast<std::uint32_t>(pages.size());
  for (Page& page : pages) {
    const std::uint32_t copy = std::exchange(page.copy, kNoIndex);
    UNDERSTUDY_ASSERT(copy != kNoIndex);
    if (leaf.first == kNoIndex) {
      leaf.first = copy;
    } else {
      copies_.Chain(leaf.last, copy);
    }
    leaf.last = copy;
  }
  copies_.End(leaf.last);
  leaf.used = clock_;
  Attach(parent, index);
  pages_ += leaf.pages;
  evictable_pages_ += leaf.pages;  // until it is locked
  return index;
}

void RadixTree::LockUpTo(std::uint32_t node, std::uint32_t end) {
  while (node != end) {
    Node& entry = nodes_[node];
    if (entry.locks++ == 0) {
      evictable_pages_ -= entry.pages;
    }
    node = entry.parent;
  }
}

void RadixTree::Unlock(std::uint32_t node) {
  while (node != kRootNode) {
    Node& entry = nodes_[node];
    UNDERSTUDY_ASSERT(entry.locks > 0);
    if (--entry.locks == 0) {
      evictable_pages_ += entry.pages;
      if (entry.children == 0) {
        OfferVictim(node);
      }
    }
    node = entry.parent;
  }
}

bool RadixTree::IsVictim(const EvictionOrder::Entry& entry) const {
  const Node& node = nodes_[entry.slot];
  return node.pages > 0 && node.locks == 0 && node.children == 0 && node.used == entry.tick;
}

void RadixTree::OfferVictim(std::uint32_t node) {
  order_.Push({nodes_[node].used, node}, nodes_.size(), [this](const EvictionOrder::Entry& entry) {
    return IsVictim(entry);
  });
}

RadixTree::Run RadixTree::CutLeaf(std::uint32_t node, std::uint32_t pages) {
  Node& leaf = nodes_[node];
  Run run{leaf.last, pages};
  for (std::uint32_t i = 1; i < pages; ++i) {
    run.first_copy = copies_.previous(run.first_copy);
  }
  leaf.last = copies_.previous(run.first_copy);
  copies_.End(leaf.last);
  leaf.pages -= pages;
  pages_ -= pages;
  evictable_pages_ -= pages;
  OfferVictim(node);
  return run;
}

RadixTree::Run RadixTree::RemoveOldest(std::uint64_t most) {
  const std::uint32_t index =
      order_.Pop([this](const EvictionOrder::Entry& entry) { return IsVictim(entry); }).slot;
  if (index == kNoIndex) {
    return {};
  }
  Node& node = nodes_[index];
  if (most < node.pages) {
    return CutLeaf(index, static_cast<std::uint32_t>(most));
  }
  const Run run{node.first, node.pages};
  pages_ -= run.pages;
  evictable_pages_ -= run.pages;
  const std::uint32_t parent = node.parent;
  Detach(parent, index);
  const std::uint64_t used = node.used;
  node = {};
  node.parent = unused_;
  unused_ = index;
  if (parent != kRootNode) {
    Node& above = nodes_[parent];
    above.used = grows_leaves_ ? above.used : std::max(above.used, used);
    if (above.children == 0 && above.locks == 0) {
      OfferVictim(parent);
    }
  }
  return run;
}

std::string RadixTree::CheckNode(std::uint32_t index) const {
  const Node& node = nodes_[index];
  std::uint32_t last = node.first;
  std::uint32_t pages = 1;
  while (copies_.next(last) != kNoIndex) {
    last = copies_.next(last);
    ++pages;
  }
  if (pages != node.pages || last != node.last) {
    return "a node's list of pages is not what it says";
  }
  if (Child(node.parent, FirstHash(node)) != index) {
    return "a node is not found below its parent";
  }
  return {};
}

std::string RadixTree::CheckVictims() const {
  EvictionOrder order = order_;
  std::vector<bool> offered(nodes_.size(), false);
  const auto valid = [this](const EvictionOrder::Entry& entry) { return IsVictim(entry); };
  for (auto entry = order.Pop(valid); entry.slot != kNoIndex; entry = order.Pop(valid)) {
    offered[entry.slot] = true;
  }
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const bool victim = node.pages > 0 && node.locks == 0 && node.children == 0;
    if (victim && !offered[i]) {
      return "an unlocked leaf cannot be evicted";
    }
  }
  return {};
}

std::string RadixTree::CheckConsistency(std::span<const std::uint32_t> holders) const {
  std::vector<std::uint32_t> locks(nodes_.size(), 0);
  std::vector<std::uint32_t> children(nodes_.size(), 0);
  for (const Node& node : nodes_) {
    if (node.pages > 0 && node.parent != kRootNode) {
      ++children[node.parent];
    }
  }
  for (std::uint32_t node : holders) {
    for (; node != kRootNode; node = nodes_[node].parent) {
      ++locks[node];
    }
  }
  std::uint64_t pages = 0;
  std::uint64_t evictable = 0;
  std::size_t in_table = 0;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.pages == 0) {
      continue;
    }
    in_table += node.parent == kRootNode || nodes_[node.parent].only_child == kNoIndex ? 1U : 0U;
    pages += node.pages;
    evictable += node.locks == 0 ? node.pages : 0;
    if (node.locks != locks[i]) {
      return "a node has " + std::to_string(node.locks) + " locks, held are " +
             std::to_string(locks[i]);
    }
    if (node.children != children[i]) {
      return "a node counts its children wrong";
    }
    if (std::string problem = CheckNode(i); !problem.empty()) {
      return problem;
    }
  }
  if (std::string problem = CheckVictims(); !problem.empty()) {
    return problem;
  }
  if (pages != pages_ || evictable != evictable_pages_ || in_table != children_.size()) {
    return "the tree's totals do not match its nodes";
  }
  return {};
}

}  // namespace understudy::mocker
