#include "plugin/mocker/speculative/accept_stream.h"

#include <algorithm>
#include <bit>

namespace understudy::mocker {

namespace {

constexpr int kRounds = 12;
constexpr std::array<std::uint32_t, 4> kSigma = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
constexpr double kTwoTo64 = 18446744073709551616.0;

void QuarterRound(
    std::array<std::uint32_t, 16>& x, std::size_t a, std::size_t b, std::size_t c, std::size_t d) {
  x[a] += x[b];
  x[d] = std::rotl(x[d] ^ x[a], 16);
  x[c] += x[d];
  x[b] = std::rotl(x[b] ^ x[c], 12);
  x[a] += x[b];
  x[d] = std::rotl(x[d] ^ x[a], 8);
  x[c] += x[d];
  x[b] = std::rotl(x[b] ^ x[c], 7);
}

}  // namespace

AcceptStream::AcceptStream(const std::vector<double>& accept_rates, std::uint64_t seed) {
  for (const double rate : accept_rates) {
    drafts_.push_back({rate >= 1.0, rate >= 1.0 ? 0 : static_cast<std::uint64_t>(rate * kTwoTo64)});
  }
  std::uint64_t state = seed;
  for (std::uint32_t& word : key_) {  // PCG-XSH-RR, one output a word
    state = state * 6364136223846793005ULL + 11634580027462260723ULL;
    const auto mixed = static_cast<std::uint32_t>(((state >> 18U) ^ state) >> 27U);
    word = std::rotr(mixed, static_cast<int>(state >> 59U));
  }
}

void AcceptStream::Refill() {
  std::array<std::uint32_t, 16> start{};
  std::copy(kSigma.begin(), kSigma.end(), start.begin());
  std::copy(key_.begin(), key_.end(), start.begin() + 4);
  start[12] = static_cast<std::uint32_t>(block_);
  start[13] = static_cast<std::uint32_t>(block_ >> 32U);
  ++block_;
  words_ = start;
  for (int round = 0; round < kRounds; round += 2) {
    for (std::size_t i = 0; i < 4; ++i) {
      QuarterRound(words_, i, 4 + i, 8 + i, 12 + i);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      QuarterRound(words_, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
    }
  }
  for (std::size_t i = 0; i < words_.size(); ++i) {
    words_[i] += start[i];
  }
  next_ = 0;
}

std::uint64_t AcceptStream::Next() {
  if (next_ == words_.size()) {
    Refill();
  }
  const std::uint64_t low = words_[next_];
  const std::uint64_t high = words_[next_ + 1];
  next_ += 2;
  return high << 32U | low;
}

std::uint64_t AcceptStream::Burst(std::uint64_t left) {
  if (left == 0) {
    return 0;
  }
  std::uint64_t tokens = 1;
  for (const Draft& draft : drafts_) {
    if (!draft.certain && Next() >= draft.threshold) {
      break;
    }
    ++tokens;
  }
  return std::min(tokens, left);
}

}  // namespace understudy::mocker
