#include "worker/kv_relay/block_tree.h"

#include <limits>
#include <string>
#include <utility>

namespace understudy::worker {

BlockTree::BlockTree() {
  Reset();
}

void BlockTree::Reset() {
  std::vector<Node>(kFirstBlock).swap(nodes_);
  std::vector<std::uint32_t>().swap(unused_);
  index_.Clear();
  present_ = 0;
}

void BlockTree::Clear() {
  Reset();
  changed_.clear();
  branches_.clear();
  cursor_ = kNone;
  walk_broken_ = walking_;
}

bool BlockTree::Holds(BlockHash hash) const {
  const std::uint32_t node = Find(hash);
  return node != kNone && nodes_[node].refs > 0;
}

std::uint32_t BlockTree::NewNode(BlockHash hash, std::uint32_t parent) {
  std::uint32_t place = kNone;
  if (!unused_.empty()) {
    place = unused_.back();
    unused_.pop_back();
  } else if (nodes_.size() < kBlocksMax + kFirstBlock) {
    place = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  } else {
    return kNone;
  }
  nodes_[place].hash = Value(hash);
  index_.Insert(Value(hash), place, KeyOf());
  Link(place, parent);
  NoteChange(nodes_[place], place);
  return place;
}

void BlockTree::Link(std::uint32_t node, std::uint32_t parent) {
  // At the head: a walk that stands among the siblings is not disturbed.
  Node& entry = nodes_[node];
  entry.parent = parent;
  entry.previous = kNone;
  entry.next = std::exchange(nodes_[parent].first_child, node);
  if (entry.next != kNone) {
    nodes_[entry.next].previous = node;
  }
}

void BlockTree::Unlink(std::uint32_t node) {
  Node& entry = nodes_[node];
  if (entry.previous != kNone) {
    nodes_[entry.previous].next = entry.next;
  } else {
    nodes_[entry.parent].first_child = entry.next;
  }
  if (entry.next != kNone) {
    nodes_[entry.next].previous = entry.previous;
  }
}

void BlockTree::NoteChange(Node& node, std::uint32_t place) {
  if (walking_ && !node.changed) {
    node.changed = true;
    node.was_there = node.refs > 0;
    changed_.push_back(place);
  }
}

std::uint32_t BlockTree::PlaceOfParent(std::optional<BlockHash> parent) {
  if (!parent) {
    return kRoot;
  }
  std::uint32_t node = Find(*parent);
  if (node == kNone || nodes_[node].refs == 0) {
    ++orphans_;
  }
  return node == kNone ? NewNode(*parent, kLimbo) : node;
}

void BlockTree::Store(std::optional<BlockHash> parent,
                      std::span<const transport::RouterBlock> blocks) {
  if (blocks.empty()) {
    return;
  }
  const std::uint32_t first_parent = PlaceOfParent(parent);
  std::uint32_t at = first_parent;
  for (const transport::RouterBlock& block : blocks) {
    std::uint32_t node = Find(block.block_hash);
    if (node == kNone) {
      node = at == kNone ? kNone : NewNode(block.block_hash, at);
    } else if (at != kNone && nodes_[node].refs == 0 && nodes_[node].parent != at && node != at) {
      Move(node, at);  // a ghost whose place is known only now
    }
    at = node;
    if (node == kNone) {
      ++overflowed_;
      continue;
    }
    Node& entry = nodes_[node];
    if (entry.refs == 0) {
      NoteChange(entry, node);
      entry.tokens = Value(block.tokens_hash);
      ++present_;
    }
    if (entry.refs != std::numeric_limits<std::uint32_t>::max()) {
      ++entry.refs;
    }
  }
  if (first_parent != kNone && !walking_) {
    Purge(first_parent);  // made for blocks that there was no room for
  }
}

void BlockTree::Move(std::uint32_t node, std::uint32_t parent) {
  const std::uint32_t old = nodes_[node].parent;
  Unlink(node);
  Link(node, parent);
  if (walking_) {
    walk_broken_ = true;
    NoteChange(nodes_[old], old);
  } else {
    Purge(old);
  }
}

bool BlockTree::Remove(BlockHash hash) {
  const std::uint32_t node = Find(hash);
  if (node == kNone || nodes_[node].refs == 0) {
    return true;
  }
  Node& entry = nodes_[node];
  if (entry.refs > 1) {
    --entry.refs;
    return false;
  }
  NoteChange(entry, node);
  entry.refs = 0;
  --present_;
  if (!walking_) {
    Purge(node);
  }
  return true;
}

void BlockTree::Purge(std::uint32_t node) {
  while (node >= kFirstBlock && nodes_[node].refs == 0 && nodes_[node].first_child == kNone) {
    const std::uint32_t parent = nodes_[node].parent;
    Unlink(node);
    index_.Erase(nodes_[node].hash, KeyOf());
    nodes_[node] = Node{};
    unused_.push_back(node);
    node = parent;
  }
}

void BlockTree::BeginWalk() {
  walking_ = true;
  walk_broken_ = false;
  cursor_ = kNone;
  branches_.clear();
  Enter(nodes_[kRoot].first_child);
}

/// Goes on with the first of `node` and its later siblings that is shown, and remembers the next.
void BlockTree::Enter(std::uint32_t node) {
  cursor_ = FirstVisible(node);
  if (cursor_ == kNone) {
    return;
  }
  if (const std::uint32_t after = FirstVisible(nodes_[cursor_].next); after != kNone) {
    branches_.push_back(after);
  }
}

std::uint32_t BlockTree::FirstVisible(std::uint32_t node) const {
  while (node != kNone && !Visible(node)) {
    node = nodes_[node].next;
  }
  return node;
}

bool BlockTree::NextChain(std::size_t blocks_max, Chain& chain) {
  chain.blocks.clear();
  chain.parent.reset();
  if (cursor_ == kNone || walk_broken_) {
    return false;
  }
  if (const std::uint32_t parent = nodes_[cursor_].parent; parent != kRoot) {
    chain.parent = BlockHash{nodes_[parent].hash};
  }
  for (;;) {
    const Node& node = nodes_[cursor_];
    chain.blocks.push_back({BlockHash{node.hash}, TokensHash{node.tokens}});
    const std::size_t open = branches_.size();
    Enter(node.first_child);
    if (cursor_ == kNone) {
      if (!branches_.empty()) {
        const std::uint32_t sibling = branches_.back();
        branches_.pop_back();
        Enter(sibling);
      }
      return true;
    }
    if (branches_.size() != open || chain.blocks.size() >= blocks_max) {
      return true;
    }
  }
}

void BlockTree::EndWalk() {
  walking_ = false;
  cursor_ = kNone;
  branches_.clear();
  for (const std::uint32_t node : changed_) {
    nodes_[node].changed = nodes_[node].was_there = false;
  }
  for (const std::uint32_t node : std::exchange(changed_, {})) {
    if (node >= kFirstBlock &&
        nodes_[node].parent != kNone) {  // not gone already, after one of its children
      Purge(node);
    }
  }
}

std::string BlockTree::CheckConsistency() const {
  std::size_t present = 0;
  std::size_t linked = 0;
  for (std::uint32_t place = 0; place < nodes_.size(); ++place) {
    const Node& node = nodes_[place];
    present += node.refs > 0 ? 1U : 0U;
    std::uint32_t before = kNone;
    for (std::uint32_t child = node.first_child; child != kNone; child = nodes_[child].next) {
      if (nodes_[child].parent != place || nodes_[child].previous != before) {
        return "a child does not point back";
      }
      before = child;
      ++linked;
    }
    if (place >= kFirstBlock && node.parent != kNone && Find(BlockHash{node.hash}) != place) {
      return "a block is not found by its hash";
    }
    if (!walking_ && node.parent != kNone && node.refs == 0 && node.first_child == kNone) {
      return "a ghost has nothing below it";
    }
  }
  if (present != present_ || linked != index_.size() ||
      nodes_.size() - kFirstBlock - unused_.size() != linked) {
    return "counts do not match: present " + std::to_string(present_) + " of " +
           std::to_string(present) + ", linked " + std::to_string(linked) + " of " +
           std::to_string(index_.size());
  }
  return {};
}

}  // namespace understudy::worker
