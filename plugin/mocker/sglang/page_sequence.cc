#include "plugin/mocker/sglang/page_sequence.h"

#include "plugin/mocker/kv_cache/block_hash.h"

#include <algorithm>
#include <span>
#include <utility>

namespace understudy::mocker {

namespace {
/// Output pages for which room is made ahead; a longer request grows its list as it goes.
constexpr std::uint64_t kPagesReservedMax = 1024;
/// Output tokens for which room is made ahead when they are kept.
constexpr std::uint64_t kTokensReservedMax = 65536;
/// Longer lists, of pages and of tokens, are given back when a request ends.
constexpr std::size_t kPagesKeptMax = 64;
constexpr std::size_t kTokensKeptMax = 256;
}  // namespace

void PageSequence::Assign(std::vector<std::uint32_t> prompt,
                          std::uint32_t page_size,
                          bool keep_tokens) {
  tokens_ = std::move(prompt);
  page_size_ = page_size;
  keeps_tokens_ = keep_tokens;
  made_ = false;
  pages_.clear();
  tail_.clear();
}

void PageSequence::MakePages(std::uint64_t output_max) {
  if (made_) {
    return;
  }
  made_ = true;
  const std::span<const std::uint32_t> prompt(tokens_);
  const std::size_t complete = prompt.size() / page_size_;
  pages_.reserve(complete + std::min(output_max / page_size_ + 1, kPagesReservedMax));
  tail_.reserve(page_size_);
  for (std::size_t i = 0; i < complete; ++i) {
    const TokensHash tokens = HashTokens(prompt.subspan(i * page_size_, page_size_));
    pages_.push_back({ChainHash(i == 0 ? nullptr : &pages_.back().hash, tokens), tokens, kNoIndex});
  }
  const auto rest = prompt.subspan(complete * page_size_);
  tail_.assign(rest.begin(), rest.end());
  if (keeps_tokens_) {
    tokens_.reserve(tokens_.size() + std::min(output_max, kTokensReservedMax));
  } else {
    tokens_ = {};
  }
}

void PageSequence::CompletePage() {
  const TokensHash tokens = HashTokens(tail_);
  pages_.push_back(
      {ChainHash(pages_.empty() ? nullptr : &pages_.back().hash, tokens), tokens, kNoIndex});
  tail_.clear();
}

void PageSequence::Clear() {
  tokens_ = {};
  if (pages_.capacity() > kPagesKeptMax) {
    pages_ = {};
  }
  pages_.clear();
  if (tail_.capacity() > kTokensKeptMax) {
    tail_ = {};
  }
  tail_.clear();
}

}  // namespace understudy::mocker
