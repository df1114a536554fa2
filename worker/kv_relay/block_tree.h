// The blocks of one (rank, storage tier) as the router knows them: references, parents, and a walk
// that can be interrupted.
#pragma once

#include "understudy/base/ids.h"
#include "understudy/transport/router_event.h"
#include "worker/kv_relay/hash_index.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace understudy::worker {

/// Counts references per block, because engines report one block several times, and holds the
/// blocks as a tree for dumps. A block that is gone while blocks after it are still there stays as
/// a ghost, so that they are found again when it comes back; ghosts and what hangs below them are
/// not dumped, since a router could not place it. Not thread safe.
class BlockTree {
 public:
  /// Blocks and ghosts; more are not taken in, and then `overflowed()` counts them.
  static constexpr std::size_t kBlocksMax = std::size_t{1} << 24U;

  /// Blocks in a row, each the parent of the next.
  struct Chain {
    std::optional<BlockHash> parent;
    std::vector<transport::RouterBlock> blocks;
  };

  BlockTree();

  /// One more reference for each block of the row that begins after `parent`.
  void Store(std::optional<BlockHash> parent, std::span<const transport::RouterBlock> blocks);
  /// One reference less. True: that was the last one, or the block is not known.
  bool Remove(BlockHash hash);
  void Clear();

  /// Blocks with references.
  [[nodiscard]] std::size_t size() const { return present_; }
  [[nodiscard]] bool Holds(BlockHash hash) const;
  [[nodiscard]] std::uint64_t overflowed() const { return overflowed_; }
  /// Blocks stored after a parent that was not there.
  [[nodiscard]] std::uint64_t orphans() const { return orphans_; }

  /// Starts a walk over the blocks as they are now; Store and Remove may come between its steps and
  /// don't change what it shows. One at a time.
  void BeginWalk();
  /// The next row of at most `blocks_max` blocks, parents before children, cut where the tree
  /// branches. False: the walk is over.
  [[nodiscard]] bool NextChain(std::size_t blocks_max, Chain& chain);
  void EndWalk();
  /// The tree was cleared or a part moved since BeginWalk: what was shown is of no use, begin anew.
  [[nodiscard]] bool walk_broken() const { return walk_broken_; }
  [[nodiscard]] bool walking() const { return walking_; }

  /// Walks everything; empty if all is consistent, else what is wrong. For tests.
  [[nodiscard]] std::string CheckConsistency() const;

 private:
  static constexpr std::uint32_t kNone = HashIndex::kNone;
  static constexpr std::uint32_t kRoot = 0;   ///< above the first blocks of sequences
  static constexpr std::uint32_t kLimbo = 1;  ///< above ghosts whose own parent is not known
  static constexpr std::uint32_t kFirstBlock = 2;
  struct Node {
    std::uint64_t hash = 0, tokens = 0;
    std::uint32_t parent = kNone, first_child = kNone, next = kNone, previous = kNone;
    std::uint32_t refs = 0;
    bool changed = false;  ///< came or went since BeginWalk
    bool was_there = false;
  };

  [[nodiscard]] auto KeyOf() const {
    return [this](std::uint32_t place) { return nodes_[place].hash; };
  }
  [[nodiscard]] std::uint32_t Find(BlockHash hash) const {
    return index_.Find(Value(hash), KeyOf());
  }
  [[nodiscard]] std::uint32_t NewNode(BlockHash hash, std::uint32_t parent);
  [[nodiscard]] std::uint32_t PlaceOfParent(std::optional<BlockHash> parent);
  void Link(std::uint32_t node, std::uint32_t parent);
  void Unlink(std::uint32_t node);
  void Move(std::uint32_t node, std::uint32_t parent);
  void Purge(std::uint32_t node);
  void NoteChange(Node& node, std::uint32_t place);
  [[nodiscard]] bool Visible(std::uint32_t node) const {
    return nodes_[node].changed ? nodes_[node].was_there : nodes_[node].refs > 0;
  }
  /// `node` or the first of those after it among its siblings that the walk shows.
  [[nodiscard]] std::uint32_t FirstVisible(std::uint32_t node) const;
  void Enter(std::uint32_t node);
  void Reset();

  std::vector<Node> nodes_;
  std::vector<std::uint32_t> unused_;
  HashIndex index_;
  std::size_t present_ = 0;
  std::uint64_t overflowed_ = 0, orphans_ = 0;

  bool walking_ = false, walk_broken_ = false;
  std::uint32_t cursor_ = kNone;
  std::vector<std::uint32_t> branches_;  ///< siblings to go on with
  std::vector<std::uint32_t> changed_;
};

}  // namespace understudy::worker
