#include "transport/codec/blake3.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <vector>

namespace understudy::transport {
namespace {

constexpr std::size_t kBlockBytes = 64;
constexpr std::size_t kChunkBytes = 1024;
constexpr std::uint32_t kChunkStart = 1U << 0U;
constexpr std::uint32_t kChunkEnd = 1U << 1U;
constexpr std::uint32_t kParent = 1U << 2U;
constexpr std::uint32_t kRoot = 1U << 3U;

using Words8 = std::array<std::uint32_t, 8>;
using Words16 = std::array<std::uint32_t, 16>;

constexpr Words8 kInitial = {
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
constexpr std::array<std::uint8_t, 16> kPermutation = {
    2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};

/// What one compression takes. The chaining value is only computed when it is known whether this is
/// the root.
struct Node {
  Words8 chain = kInitial;
  Words16 block{};
  std::uint64_t counter = 0;
  std::uint32_t block_bytes = kBlockBytes;
  std::uint32_t flags = 0;
};

void Mix(Words16& v,
         std::size_t a,
         std::size_t b,
         std::size_t c,
         std::size_t d,
         std::uint32_t x,
         std::uint32_t y) {
  v[a] += v[b] + x;
  v[d] = std::rotr(v[d] ^ v[a], 16);
  v[c] += v[d];
  v[b] = std::rotr(v[b] ^ v[c], 12);
  v[a] += v[b] + y;
  v[d] = std::rotr(v[d] ^ v[a], 8);
  v[c] += v[d];
  v[b] = std::rotr(v[b] ^ v[c], 7);
}

Words8 Compress(const Node& node, std::uint32_t more_flags = 0) {
  constexpr int kRounds = 7;
  Words16 v = {node.chain[0],
               node.chain[1],
               node.chain[2],
               node.chain[3],
               node.chain[4],
               node.chain[5],
               node.chain[6],
               node.chain[7],
               kInitial[0],
               kInitial[1],
               kInitial[2],
               kInitial[3],
               static_cast<std::uint32_t>(node.counter),
               static_cast<std::uint32_t>(node.counter >> 32U),
               node.block_bytes,
               node.flags | more_flags};
  Words16 m = node.block;
  for (int round = 0; round < kRounds; ++round) {
    Mix(v, 0, 4, 8, 12, m[0], m[1]);
    Mix(v, 1, 5, 9, 13, m[2], m[3]);
    Mix(v, 2, 6, 10, 14, m[4], m[5]);
    Mix(v, 3, 7, 11, 15, m[6], m[7]);
    Mix(v, 0, 5, 10, 15, m[8], m[9]);
    Mix(v, 1, 6, 11, 12, m[10], m[11]);
    Mix(v, 2, 7, 8, 13, m[12], m[13]);
    Mix(v, 3, 4, 9, 14, m[14], m[15]);
    Words16 next;
    for (std::size_t i = 0; i < next.size(); ++i) {
      next[i] = m[kPermutation[i]];
    }
    m = next;
  }
  Words8 out;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = v[i] ^ v[i + 8];
  }
  return out;
}

Words16 LoadBlock(std::string_view bytes) {
  std::array<unsigned char, kBlockBytes> padded{};
  std::memcpy(padded.data(), bytes.data(), bytes.size());
  Words16 words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const unsigned char* at = padded.data() + 4 * i;
    words[i] = std::uint32_t{at[0]} | std::uint32_t{at[1]} << 8U | std::uint32_t{at[2]} << 16U |
               std::uint32_t{at[3]} << 24U;
  }
  return words;
}

/// The last block of one chunk (at most kChunkBytes), with all before it compressed into `chain`.
Node ChunkNode(std::string_view chunk, std::uint64_t index) {
  Node node;
  node.counter = index;
  node.flags = kChunkStart;
  while (chunk.size() > kBlockBytes) {
    node.block = LoadBlock(chunk.substr(0, kBlockBytes));
    node.chain = Compress(node);
    node.flags = 0;
    chunk.remove_prefix(kBlockBytes);
  }
  node.block = LoadBlock(chunk);
  node.block_bytes = static_cast<std::uint32_t>(chunk.size());
  node.flags |= kChunkEnd;
  return node;
}

Node ParentNode(const Words8& left, const Words8& right) {
  Node node;
  std::copy(left.begin(), left.end(), node.block.begin());
  std::copy(right.begin(), right.end(), node.block.begin() + 8);
  node.flags = kParent;
  return node;
}

}  // namespace

Blake3Digest Blake3(std::string_view bytes) {
  // Whole subtrees to the left, largest first: after n chunks one for each 1 in n's binary form.
  std::vector<Words8> subtrees;
  std::uint64_t chunks = 0;
  while (bytes.size() > kChunkBytes) {
    Words8 value = Compress(ChunkNode(bytes.substr(0, kChunkBytes), chunks));
    bytes.remove_prefix(kChunkBytes);
    ++chunks;
    for (std::uint64_t count = chunks; (count & 1U) == 0; count >>= 1U) {
      value = Compress(ParentNode(subtrees.back(), value));
      subtrees.pop_back();
    }
    subtrees.push_back(value);
  }
  Node node = ChunkNode(bytes, chunks);
  for (; !subtrees.empty(); subtrees.pop_back()) {
    node = ParentNode(subtrees.back(), Compress(node));
  }
  node.counter = 0;
  const Words8 root = Compress(node, kRoot);
  Blake3Digest digest;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<std::uint8_t>(root[i / 4] >> (8U * (i % 4)) & 0xffU);
  }
  return digest;
}

std::string Blake3Hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const std::uint8_t byte : Blake3(bytes)) {
    hex += kDigits[byte >> 4U];
    hex += kDigits[byte & 0x0FU];
  }
  return hex;
}

}  // namespace understudy::transport
