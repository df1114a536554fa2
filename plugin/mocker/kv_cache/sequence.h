// The tokens of one request, as far as the cache needs them: a list of blocks and the tokens of the
// last, partial one.
#pragma once

#include "plugin/mocker/kv_cache/kv_pool.h"

#include <cstdint>
#include <span>
#include <vector>

namespace understudy::mocker {

/// Prompt tokens are kept until they are hashed, output tokens until their block is promoted: after
/// that only the hashes matter, unless events are to name the tokens. Source: dynamo-mocker 1.3.0
/// sequence.rs, `push`.
class Sequence {
 public:
  /// Starts over with `prompt`. `hashed` false: prefix caching is off, blocks need no names.
  void Assign(std::vector<std::uint32_t> prompt,
              std::uint32_t block_size,
              bool hashed,
              bool keep_tokens = false);

  /// Makes the prompt's blocks, with room for `output_max` more tokens. Once; later calls do
  /// nothing. Apart from Assign because a request that only waits should not cost more than its
  /// prompt.
  void MakeBlocks(std::uint64_t output_max);

  /// True if the next token is the first of a new block.
  [[nodiscard]] bool NextOpensBlock() const { return fill_ == block_size_; }

  /// The last block holds all its tokens and is still partial: makes it a full one, with its
  /// hashes, for KvPool::Publish. Returns false if there is nothing to complete.
  bool CompleteLast();

  /// Appends a partial block without a slot / takes it back.
  void OpenBlock() { blocks_.emplace_back(); }
  void DropBlock() { blocks_.pop_back(); }

  /// Appends an output token; if it opens a block, that block is there already.
  void Append(std::uint32_t token) {
    fill_ = NextOpensBlock() ? 1 : fill_ + 1;
    if (hashed_) {
      tail_[fill_ - 1] = token;
    }
    if (keeps_tokens_) {
      tokens_.push_back(token);
    }
  }

  [[nodiscard]] std::vector<LogicalBlock>& blocks() { return blocks_; }
  [[nodiscard]] const std::vector<LogicalBlock>& blocks() const { return blocks_; }
  /// All of them with `keep_tokens`, else none.
  [[nodiscard]] std::span<const std::uint32_t> tokens() const {
    return keeps_tokens_ ? std::span<const std::uint32_t>(tokens_)
                         : std::span<const std::uint32_t>();
  }

  /// Gives back memory when the request is over; keeps small buffers for the next one.
  void Clear();

 private:
  std::vector<LogicalBlock> blocks_;
  std::vector<std::uint32_t> tokens_;  ///< the prompt, until MakeBlocks; all if they are kept
  std::vector<std::uint32_t>
      tail_;  ///< tokens of the last block, block_size_ places; unused when not hashed_
  std::uint32_t block_size_ = 0;
  std::uint32_t fill_ = 0;  ///< tokens in the last block; block_size_ also when there is no block
  bool hashed_ = true;
  bool keeps_tokens_ = false;
  bool made_ = false;
};

}  // namespace understudy::mocker
