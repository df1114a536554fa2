#include "plugin/mocker/kv_cache/sequence.h"

#include "plugin/mocker/kv_cache/block_hash.h"

#include <algorithm>

namespace understudy::mocker {

namespace {
/// Blocks for which room is made ahead; a longer request grows its list as it goes.
constexpr std::uint64_t kBlocksReservedMax = 1024;
/// Output tokens for which room is made ahead when they are kept.
constexpr std::uint64_t kTokensReservedMax = 65536;
/// Longer lists, of blocks and of tokens, are given back when a request ends.
constexpr std::size_t kBlocksKeptMax = 64;
constexpr std::size_t kTokensKeptMax = 256;
}  // namespace

void Sequence::Assign(std::vector<std::uint32_t> prompt,
                      std::uint32_t block_size,
                      bool hashed,
                      bool keep_tokens) {
  tokens_ = std::move(prompt);
  block_size_ = block_size;
  hashed_ = hashed;
  keeps_tokens_ = keep_tokens;
  made_ = false;
  blocks_.clear();
}

void Sequence::MakeBlocks(std::uint64_t output_max) {
  if (made_) {
    return;
  }
  made_ = true;
  const std::span<const std::uint32_t> prompt(tokens_);
  const std::size_t full = prompt.size() / block_size_;
  blocks_.reserve(full + std::min(output_max / block_size_ + 2, kBlocksReservedMax));
  blocks_.resize(full);
  for (std::size_t i = 0; i < full; ++i) {
    LogicalBlock& block = blocks_[i];
    block.full = true;
    if (hashed_) {
      block.tokens_hash = HashTokens(prompt.subspan(i * block_size_, block_size_));
      block.hash = ChainHash(i == 0 ? nullptr : &blocks_[i - 1].hash, block.tokens_hash);
    }
  }
  const auto rest = prompt.subspan(full * block_size_);
  fill_ = rest.empty() ? block_size_ : static_cast<std::uint32_t>(rest.size());
  if (!rest.empty()) {
    OpenBlock();
  }
  if (hashed_) {
    tail_.resize(block_size_);
    std::copy(rest.begin(), rest.end(), tail_.begin());
  }
  if (keeps_tokens_) {
    tokens_.reserve(tokens_.size() + std::min(output_max, kTokensReservedMax));
  } else {
    tokens_ = {};
  }
}

bool Sequence::CompleteLast() {
  if (blocks_.empty() || blocks_.back().full || !NextOpensBlock()) {
    return false;
  }
  LogicalBlock& last = blocks_.back();
  last.full = true;
  if (hashed_) {
    last.tokens_hash = HashTokens(tail_);
    last.hash = ChainHash(blocks_.size() == 1 ? nullptr : &blocks_[blocks_.size() - 2].hash,
                          last.tokens_hash);
  }
  return true;
}

void Sequence::Clear() {
  tokens_ = {};
  if (blocks_.capacity() > kBlocksKeptMax) {
    blocks_ = {};
  }
  blocks_.clear();
  if (tail_.capacity() > kTokensKeptMax) {
    tail_ = {};
  }
}

}  // namespace understudy::mocker
