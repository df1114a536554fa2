#include "worker/kv_relay/mm_keys.h"

#include <algorithm>
#include <charconv>

namespace understudy::worker {
namespace {

constexpr std::size_t kKeyDigits = 64;
constexpr std::size_t kHashDigits = 16;

bool IsHexDigit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

std::optional<std::uint64_t> MmHashOfKey(std::string_view key, bool padded) {
  if (key.size() != kKeyDigits || !std::all_of(key.begin(), key.end(), IsHexDigit)) {
    return std::nullopt;
  }
  if (padded && key.find_first_not_of('0', kHashDigits) != std::string_view::npos) {
    return std::nullopt;
  }
  std::uint64_t hash = 0;
  std::from_chars(key.data(), key.data() + kHashDigits, hash, 16);
  return hash;
}

std::vector<transport::BlockMmInfo> MmInfosOfKeys(std::span<const transport::KvExtraKey> keys,
                                                  bool padded) {
  std::vector<transport::BlockMmInfo> infos;
  for (const auto& key : keys) {
    const auto hash = MmHashOfKey(key.text, padded);
    if (!hash) {
      continue;
    }
    if (infos.empty() || infos.back().block != key.block) {
      infos.push_back({key.block, {}});
    }
    infos.back().objects.push_back({*hash, {}});
  }
  return infos;
}

}  // namespace understudy::worker
