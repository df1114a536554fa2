// Folders of profiling results against what the original's converter makes of them:
// tests/vectors/engine/profile_results, made by tests/data/make_profile_results.py.
#include "plugin/mocker/perf_model/profile_results.h"

#include "plugin/mocker/config/engine_setup.h"
#include "plugin/mocker/perf_model/least_squares.h"
#include "tests/unit/plugin/npz_writer.h"

#include <cmath>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::mocker {
namespace {

using Json = nlohmann::json;

/// Relative. The sums are taken in another order than the original's.
constexpr double kTolerance = 1e-9;

void ExpectAlmost(const std::vector<double>& got, const Json& want, const char* name) {
  ASSERT_EQ(got.size(), want.size()) << name;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double value = want[i];
    EXPECT_NEAR(got[i], value, kTolerance * std::abs(value)) << name << " " << i;
  }
}

class ProfileResultsVectors : public ::testing::TestWithParam<const char*> {};

TEST_P(ProfileResultsVectors, BecomeTheProfileThatTheOriginalMakes) {
  const std::string folder =
      std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/vectors/engine/profile_results/" + GetParam();
  std::ifstream file(folder + "/expected.json");
  const Json want = Json::parse(file);
  ASSERT_TRUE(IsProfileResults(folder));

  const auto got = ConvertProfileResults(folder);

  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(Json(got->prefill_isl), want["prefill_isl"]);
  EXPECT_EQ(Json(got->decode_active_kv_tokens), want["decode_active_kv_tokens"]);
  ExpectAlmost(got->decode_context_length, want["decode_context_length"], "context");
  ExpectAlmost(got->prefill_ttft_ms, want["prefill_ttft_ms"], "ttft");
  const std::size_t every = want["decode_itl_every"];
  ASSERT_EQ(got->decode_itl.size(), kProfileResolution * kProfileResolution);
  for (std::size_t row = 0; row < want["decode_itl"].size(); ++row) {
    std::vector<double> values;
    for (std::size_t column = 0; column < kProfileResolution; column += every) {
      values.push_back(got->decode_itl[row * every * kProfileResolution + column]);
    }
    ExpectAlmost(values, want["decode_itl"][row], "itl");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Recorded,
    ProfileResultsVectors,
    ::testing::Values(
        "npz", "compressed", "json", "weak_slope", "floor", "one_request", "one_context"),
    [](const auto& p) { return std::string(p.param); });

TEST(LeastSquares, FindsThePlaneThroughItsPoints) {
  const std::vector<double> x0{1.0, 2.0, 3.0, 4.0};
  const std::vector<double> x1{1000.0, 500.0, 700.0, 100.0};
  std::vector<double> y;
  for (std::size_t i = 0; i < x0.size(); ++i) {
    y.push_back(3.0 * x0[i] - 0.5 * x1[i] + 7.0);
  }
  const Plane plane = FitPlane(x0, x1, y);
  EXPECT_NEAR(plane.coefficient[0], 3.0, 1e-9);
  EXPECT_NEAR(plane.coefficient[1], -0.5, 1e-12);
  EXPECT_NEAR(plane.intercept, 7.0, 1e-9);
}

TEST(LeastSquares, TakesTheSmallestCoefficientsWhenPointsLieOnALine) {
  const std::vector<double> x{1.0, 2.0, 3.0};
  const Plane plane = FitPlane(x, x, std::vector<double>{2.0, 4.0, 6.0});
  EXPECT_NEAR(plane.coefficient[0], 1.0, 1e-12);
  EXPECT_NEAR(plane.coefficient[1], 1.0, 1e-12);
  const std::vector<double> same{5.0, 5.0, 5.0};
  const Plane flat = FitPlane(same, x, std::vector<double>{2.0, 4.0, 6.0});
  EXPECT_EQ(flat.coefficient[0], 0.0);
  EXPECT_NEAR(flat.coefficient[1], 2.0, 1e-12);
  EXPECT_EQ(FitPlane(same, same, x).intercept, 2.0);
}

/// A folder of JSON results.
class RawFolder {
 public:
  Json prefill = {{"prefill_isl", {100, 200, 300}}, {"prefill_ttft", {10.0, 20.0, 30.0}}};
  Json decode = {{"x_kv_usage", {0.1, 0.5, 0.9, 0.5}},
                 {"y_context_length", {100, 100, 100, 1000}},
                 {"z_itl", {5.0, 7.0, 9.0, 6.0}},
                 {"max_kv_tokens", 100000}};

  /// What an engine that is to use it says; "" when it starts.
  std::string Refusal(bool strict = false) {
    static_cast<void>(scratch_.Write("prefill_raw_data.json", prefill.dump()));
    static_cast<void>(scratch_.Write("decode_raw_data.json", decode.dump()));
    MockerOptions options;
    options.planner_profile_data = scratch_.path();
    options.strict_reference = strict;
    const auto setup = EngineSetup::New(options);
    if (setup) {
      return "";
    }
    const std::string text = setup.error().message;
    const std::string start = "planner_profile_data: " + scratch_.path();
    EXPECT_EQ(text.substr(0, start.size()), start);
    return text.substr(std::min(text.size(), start.size()));
  }

 private:
  ScratchFolder scratch_;
};

TEST(ProfileResults, AreLoadedByAnEngine) {
  EXPECT_EQ(RawFolder().Refusal(), "");
  EXPECT_EQ(RawFolder().Refusal(true), "");
}

TEST(ProfileResults, AreRefusedWhenMoreWorkTakesLessTime) {
  RawFolder raw;
  raw.prefill["prefill_ttft"] = {30.0, 20.0, 10.0};
  EXPECT_EQ(raw.Refusal(),
            "/prefill_raw_data.json: Failed to fit prefill regression from profiling data: "
            "prefill_ttft falls as prefill_isl grows");
  EXPECT_NE(raw.Refusal(true), "") << "the original's converter ends its start as well";
}

TEST(ProfileResults, AreRefusedWhenTheyContradictThemselves) {
  const auto refusal = [](const std::function<void(RawFolder&)>& spoil) {
    RawFolder raw;
    spoil(raw);
    return raw.Refusal();
  };
  EXPECT_EQ(
      refusal([](auto& raw) {
        raw.decode["z_itl"] = {9.0, 8.0, 1.0, 8.0};
      }),
      "/decode_raw_data.json: Failed to fit decode regression from profiling data: z_itl falls "
      "as the number of active tokens grows");
  EXPECT_EQ(
      refusal([](auto& raw) {
        raw.decode["z_itl"] = {0, 0, 0, 0};
      }),
      "/decode_raw_data.json: Failed to fit decode regression from profiling data: every time "
      "in z_itl is 0");
  EXPECT_EQ(refusal([](auto& raw) { raw.decode["z_itl"].erase(0); }),
            "/decode_raw_data.json: z_itl has 3 points, the first array has 4");
  EXPECT_EQ(refusal([](auto& raw) { raw.decode["x_kv_usage"][1] = -0.5; }),
            "/decode_raw_data.json: x_kv_usage[1] is -0.5, allowed is 0 to 10");
  EXPECT_EQ(refusal([](auto& raw) { raw.decode["max_kv_tokens"] = 0; }),
            "/decode_raw_data.json: max_kv_tokens is 0, allowed is 1 to 9.0072e+15");
  EXPECT_EQ(refusal([](auto& raw) { raw.prefill.erase("prefill_ttft"); }),
            "/prefill_raw_data.json: prefill_ttft is missing");
  EXPECT_EQ(refusal([](auto& raw) {
              raw.prefill["prefill_isl"] = {1, "two"};
            }),
            "/prefill_raw_data.json: prefill_isl[1] is no number");
  EXPECT_EQ(refusal([](auto& raw) {
              raw.prefill["prefill_isl"] = {100, 100};
              raw.prefill["prefill_ttft"] = {1.0, 2.0};
            }),
            ": prefill_isl[1] is 100 after 100, it must increase");
  EXPECT_NE(refusal([](auto& raw) { raw.prefill = "no object"; }).find("no JSON object at the top"),
            std::string::npos);
}

TEST(ProfileResults, TellWhereTheirJsonIsBroken) {
  const ScratchFolder scratch;
  static_cast<void>(scratch.Write("decode_raw_data.json", "{}"));
  static_cast<void>(scratch.Write("prefill_raw_data.json", "{\"prefill_isl\": [1, NaN]}"));
  const auto profile = ConvertProfileResults(scratch.path());
  ASSERT_FALSE(profile);
  EXPECT_NE(profile.error().message.find("/prefill_raw_data.json: no JSON: "), std::string::npos);
  EXPECT_NE(profile.error().message.find("line 1, column 21"), std::string::npos)
      << profile.error().message;
}

}  // namespace
}  // namespace understudy::mocker
