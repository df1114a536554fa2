#include "plugin/mocker/kv_cache/block_hash.h"

#include <array>
#include <bit>

#include <xxhash.h>

namespace understudy::mocker {

namespace {
constexpr std::uint64_t kHashSeed = 1337;
}  // namespace

// The hashes are defined over little-endian numbers; we hash memory as it is.
static_assert(std::endian::native == std::endian::little);

TokensHash HashTokens(std::span<const std::uint32_t> tokens) {
  return TokensHash{XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), kHashSeed)};
}

BlockHash ChainHash(const BlockHash* parent, TokensHash tokens) {
  if (parent == nullptr) {
    return BlockHash{Value(tokens)};
  }
  const std::array<std::uint64_t, 2> pair{Value(*parent), Value(tokens)};
  return BlockHash{XXH3_64bits_withSeed(pair.data(), sizeof(pair), kHashSeed)};
}

}  // namespace understudy::mocker
