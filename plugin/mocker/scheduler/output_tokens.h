// The ids of a request's output tokens.
#pragma once

#include "understudy/mocker/mocker_options.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace understudy::mocker {

/// Planned ids, or random ones with a thinking span around the first of them. A client sees ids in
/// 1000..1999 while the cache is told others, as in the original: a follow-up prompt does not match
/// generated blocks. Planned ids are both. The draws of one request don't depend on others.
/// Source: dynamo-llm 1.3.0 mocker.rs (engine.md 3.9).
class OutputTokens {
 public:
  struct Token {
    std::uint32_t visible = 0;
    std::uint32_t hidden = 0;
  };

  /// Starts over for a request of `output_max` tokens. `planned` is empty or holds that many.
  void Assign(std::uint64_t seed,
              std::vector<std::uint32_t> planned,
              std::uint64_t output_max,
              const std::optional<ReasoningOptions>& reasoning);

  /// The hidden ids follow from `name`, release 1.6's rule: the low half of XXH3-64 over the 16
  /// bytes of a UUID with these low bits and the token's number. After Assign.
  void NameHidden(std::uint64_t name);

  /// Token number `index`, counted from 0. Draws: to be called once for each, in order.
  [[nodiscard]] Token Next(std::size_t index);

  void Clear() { planned_ = {}; }

  /// Tokens of a thinking span with both ends, or 0: too short for one.
  [[nodiscard]] static std::uint64_t ThinkingLength(std::uint64_t output_max, double ratio);

  /// A well mixed 64-bit value of another.
  [[nodiscard]] static std::uint64_t Mix(std::uint64_t value);

 private:
  [[nodiscard]] std::uint32_t NamedHidden(std::size_t index) const;

  std::uint64_t random_ = 0;
  std::optional<std::uint64_t> name_;
  std::vector<std::uint32_t> planned_;
  std::uint64_t thinking_length_ = 0;
  std::uint32_t start_token_ = 0;
  std::uint32_t end_token_ = 0;
};

}  // namespace understudy::mocker
