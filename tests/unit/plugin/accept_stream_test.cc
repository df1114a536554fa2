// The random stream of speculative decoding against draws recorded with rand 0.9:
// tests/vectors/engine/mtp_rng.json.
#include "plugin/mocker/speculative/accept_stream.h"

#include "tests/unit/plugin/golden_case.h"

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

TEST(AcceptStream, DrawsTheOriginalsNumbers) {
  const nlohmann::json golden = LoadGoldenCase("mtp_rng");
  for (const nlohmann::json& want : golden["cases"]) {
    AcceptStream stream({}, want["seed"].get<std::uint64_t>());
    for (const nlohmann::json& draw : want["first_next_u64"]) {
      EXPECT_EQ(std::to_string(stream.Next()), draw);
    }
  }
}

TEST(AcceptStream, AcceptsAsManyDraftsAsTheOriginal) {
  const nlohmann::json golden = LoadGoldenCase("mtp_rng");
  for (const nlohmann::json& want : golden["cases"]) {
    AcceptStream stream(want["conditional_accept_rates"].get<std::vector<double>>(),
                        want["seed"].get<std::uint64_t>());
    std::size_t step = 0;
    for (const nlohmann::json& burst : want["first_256_bursts"]) {
      EXPECT_EQ(stream.Burst(want["remaining_each_time"].get<std::uint64_t>()), burst)
          << "step " << step;
      ++step;
    }
  }
}

TEST(AcceptStream, NeitherExceedsWhatIsLeftNorDrawsForNothing) {
  AcceptStream stream({0.5, 0.5}, 7);
  AcceptStream untouched({0.5, 0.5}, 7);
  EXPECT_EQ(stream.Burst(0), 0U);
  EXPECT_EQ(stream.Next(), untouched.Next());
  AcceptStream certain({1.0, 1.0, 1.0}, 7);
  EXPECT_EQ(certain.Burst(2), 2U);
  EXPECT_EQ(certain.Burst(10), 4U);
}

}  // namespace
}  // namespace understudy::mocker
