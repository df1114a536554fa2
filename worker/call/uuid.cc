#include "worker/call/uuid.h"

#include <array>
#include <cstdint>
#include <random>

namespace understudy::worker {

std::string NewUuid() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::random_device device;
  std::string text;
  text.reserve(36);
  std::array<std::uint32_t, 4> words{device(), device(), device(), device()};
  words[1] = (words[1] & 0xFFFF0FFFU) | 0x00004000U;  // version 4
  words[2] = (words[2] & 0x3FFFFFFFU) | 0x80000000U;  // variant 1
  for (const auto word : words) {
    for (int shift = 28; shift >= 0; shift -= 4) {
      if (text.size() == 8 || text.size() == 13 || text.size() == 18 || text.size() == 23) {
        text.push_back('-');
      }
      text.push_back(kDigits[word >> shift & 0xFU]);
    }
  }
  return text;
}

}  // namespace understudy::worker
