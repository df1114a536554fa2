#include "understudy/transport/token_hash.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include <xxhash.h>

namespace understudy::transport {
namespace {

constexpr std::uint64_t kSeed = 1337;
constexpr std::uint64_t kSaltSeed = 1;

}  // namespace

// The hashes are defined over little-endian numbers; we hash memory as it is.
static_assert(std::endian::native == std::endian::little);

std::uint64_t TokenHashSeed(std::string_view lora_name, std::string_view cache_salt) {
  std::uint64_t seed = kSeed;
  if (!lora_name.empty()) {
    seed += XXH3_64bits(lora_name.data(), lora_name.size());
  }
  if (!cache_salt.empty()) {
    seed += XXH3_64bits_withSeed(cache_salt.data(), cache_salt.size(), kSaltSeed);
  }
  return seed;
}

TokensHash HashWindow(std::span<const std::uint32_t> tokens,
                      std::span<std::uint64_t> mm_hashes,
                      std::uint64_t seed) {
  if (mm_hashes.empty()) {
    return TokensHash{XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), seed)};
  }
  std::sort(mm_hashes.begin(), mm_hashes.end());
  std::vector<std::byte> bytes(tokens.size_bytes() + mm_hashes.size_bytes());
  std::memcpy(bytes.data(), tokens.data(), tokens.size_bytes());
  std::memcpy(bytes.data() + tokens.size_bytes(), mm_hashes.data(), mm_hashes.size_bytes());
  return TokensHash{XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed)};
}

BlockHash ChainBlockHash(const BlockHash* parent, TokensHash tokens) {
  if (parent == nullptr) {
    return BlockHash{Value(tokens)};
  }
  const std::array<std::uint64_t, 2> pair{Value(*parent), Value(tokens)};
  return BlockHash{XXH3_64bits_withSeed(pair.data(), sizeof(pair), kSeed)};
}

}  // namespace understudy::transport
