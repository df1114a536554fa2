// How many draft tokens are accepted.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace understudy::mocker {

/// The random stream of one rank: for the same seed the same bursts as the original, which draws
/// from ChaCha with 12 rounds, its key expanded from a 64-bit seed, and compares 64-bit draws with
/// a threshold. Source: rand 0.9 StdRng and Bernoulli; golden vector mtp_rng.json.
class AcceptStream {
 public:
  /// `accept_rates`: one per draft token, each in [0, 1].
  AcceptStream(const std::vector<double>& accept_rates, std::uint64_t seed);

  /// Tokens of one step of one request: one, and the drafts up to the first that is not accepted,
  /// at most `left`. Draws once per draft looked at, except for rate 1; nothing when `left` is 0.
  [[nodiscard]] std::uint64_t Burst(std::uint64_t left);

  /// The next 64 bits of the stream.
  [[nodiscard]] std::uint64_t Next();

 private:
  void Refill();

  struct Draft {
    bool certain = false;
    std::uint64_t threshold = 0;  ///< accepted when the draw is below
  };
  std::vector<Draft> drafts_;
  std::array<std::uint32_t, 8> key_{};
  std::uint64_t block_ = 0;
  std::array<std::uint32_t, 16> words_{};
  std::size_t next_ = 16;
};

}  // namespace understudy::mocker
