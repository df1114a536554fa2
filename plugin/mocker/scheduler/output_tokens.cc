#include "plugin/mocker/scheduler/output_tokens.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <xxhash.h>

namespace understudy::mocker {

namespace {
// What a client sees of a drawn token, and how many kinds. Source: dynamo-llm 1.3.0 mocker.rs.
constexpr std::uint32_t kVisibleTokenFirst = 1000;
constexpr std::uint64_t kVisibleTokenKinds = 1000;
constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ULL;
}  // namespace

std::uint64_t OutputTokens::Mix(std::uint64_t value) {  // SplitMix64
  value += kGolden;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31U);
}

std::uint64_t OutputTokens::ThinkingLength(std::uint64_t output_max, double ratio) {
  if (output_max < 2) {
    return 0;
  }
  const double share = std::floor(static_cast<double>(output_max) * ratio);
  if (!(share >= 1.0)) {
    return 0;
  }
  if (share >= static_cast<double>(output_max)) {
    return output_max;
  }
  return std::max<std::uint64_t>(static_cast<std::uint64_t>(share), 2);
}

void OutputTokens::Assign(std::uint64_t seed,
                          std::vector<std::uint32_t> planned,
                          std::uint64_t output_max,
                          const std::optional<ReasoningOptions>& reasoning) {
  random_ = seed;
  name_.reset();
  planned_ = std::move(planned);
  thinking_length_ = 0;
  if (reasoning) {
    thinking_length_ = ThinkingLength(output_max, reasoning->thinking_ratio);
    start_token_ = reasoning->start_token;
    end_token_ = reasoning->end_token;
  }
}

void OutputTokens::NameHidden(std::uint64_t name) {
  name_ = name;
}

std::uint32_t OutputTokens::NamedHidden(std::size_t index) const {
  std::array<std::uint8_t, 24> bytes{};
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[15 - i] = static_cast<std::uint8_t>(*name_ >> (8 * i));
    bytes[16 + i] = static_cast<std::uint8_t>(std::uint64_t{index} >> (8 * i));
  }
  return static_cast<std::uint32_t>(XXH3_64bits(bytes.data(), bytes.size()));
}

OutputTokens::Token OutputTokens::Next(std::size_t index) {
  if (!planned_.empty()) {
    return {planned_[index], planned_[index]};
  }
  const std::uint64_t drawn = Mix(random_);
  random_ += kGolden;
  Token token{
      kVisibleTokenFirst + static_cast<std::uint32_t>(((drawn >> 32U) * kVisibleTokenKinds) >> 32U),
      static_cast<std::uint32_t>(drawn)};
  if (name_) {
    token.hidden = NamedHidden(index);
  }
  if (thinking_length_ > 0 && (index == 0 || index + 1 == thinking_length_)) {
    token.visible = index == 0 ? start_token_ : end_token_;
  }
  return token;
}

}  // namespace understudy::mocker
