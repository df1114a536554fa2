// Hashes that routers look prompts up by, in their general form. Identical in both releases, except
// that only 1.6 knows cache salts. Source: events.md 2; vectors/events/hashes.json.
#pragma once

#include "understudy/base/ids.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace understudy::transport {

/// What separates equal tokens: seed 1337, plus XXH3-64 of the LoRA name (seed 0), plus XXH3-64 of
/// the cache salt (seed 1), modulo 2^64. An empty text adds nothing.
[[nodiscard]] std::uint64_t TokenHashSeed(std::string_view lora_name = {},
                                          std::string_view cache_salt = {});

/// Hash of one window: XXH3-64 with `seed` over the tokens as little-endian u32, then the sorted
/// `mm_hashes` as little-endian u64. `mm_hashes` is sorted in place.
[[nodiscard]] TokensHash HashWindow(std::span<const std::uint32_t> tokens,
                                    std::span<std::uint64_t> mm_hashes,
                                    std::uint64_t seed);

/// The windows of a sequence: blocks, or with `is_eagle` blocks with the token that follows.
/// A ragged tail gives none, nor does a block size of 0.
class TokenWindows {
 public:
  TokenWindows(std::span<const std::uint32_t> tokens, std::size_t block_size, bool is_eagle)
      : tokens_(tokens), stride_(block_size), window_(block_size + (is_eagle ? 1 : 0)) {}

  [[nodiscard]] std::size_t size() const {
    return stride_ == 0 || tokens_.size() < window_ ? 0 : (tokens_.size() - window_) / stride_ + 1;
  }
  [[nodiscard]] std::span<const std::uint32_t> operator[](std::size_t index) const {
    return tokens_.subspan(index * stride_, window_);
  }

 private:
  std::span<const std::uint32_t> tokens_;
  std::size_t stride_;
  std::size_t window_;
};

/// Hash of a block with all that stands before it (Dynamo: sequence hash). Without `parent` the
/// tokens' hash itself, else XXH3-64, seed 1337, over both as little-endian u64.
[[nodiscard]] BlockHash ChainBlockHash(const BlockHash* parent, TokensHash tokens);

/// The token id that stands for a medium in a prompt, so that engines and frontends hash alike.
[[nodiscard]] constexpr std::uint32_t MmPadToken(std::uint64_t mm_hash) {
  return 1'000'000 + static_cast<std::uint32_t>(mm_hash & 0x3fffffffU);
}

}  // namespace understudy::transport
