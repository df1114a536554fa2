#include "plugin/mocker/perf_model/interpolated_model.h"

#include "plugin/mocker/config/engine_setup.h"
#include "tests/unit/plugin/allocation_count.h"
#include "tests/unit/plugin/npz_writer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using Mode = InterpolatedModel::Mode;

/// Prefill 10 ms at 100 tokens, 20 at 200, 80 at 400; decode ms[active][context].
PlannerProfile Small() {
  return {.prefill_isl = {100.0, 200.0, 400.0},
          .prefill_ttft_ms = {10.0, 20.0, 80.0},
          .decode_active_kv_tokens = {0.0, 1000.0, 3000.0},
          .decode_context_length = {100.0, 300.0},
          .decode_itl = {4.0, 6.0, 8.0, 12.0, 16.0, 24.0},
          .decode_itl_rows = 3,
          .decode_itl_columns = 2};
}

std::unique_ptr<PerfModel> Model(PlannerProfile profile, Mode mode = Mode::kOurs) {
  auto model = InterpolatedModel::New(std::move(profile), mode);
  EXPECT_TRUE(model) << model.error().message;
  return model ? std::move(*model) : nullptr;
}

TEST(InterpolatedModel, PrefillIsALineInTheTokensOfTheWholeBatch) {
  const auto model = Model(Small());
  EXPECT_EQ(model->PrefillMs({1, 200, 0}), 20.0);
  EXPECT_EQ(model->PrefillMs({2, 300, 0}), 50.0);
  EXPECT_EQ(model->PrefillMs({2, 600, 300}), 50.0) << "only what is computed counts";
  EXPECT_EQ(model->PrefillMs({2, 601, 300}), 50.0) << "means are rounded down";
}

TEST(InterpolatedModel, PrefillGoesOnBeyondItsEndsButNotBelowZero) {
  const auto model = Model(Small());
  EXPECT_DOUBLE_EQ(model->PrefillMs({1, 500, 0}), 110.0);
  EXPECT_DOUBLE_EQ(model->PrefillMs({1, 50, 0}), 5.0);
  PlannerProfile steep = Small();
  steep.prefill_ttft_ms = {10.0, 90.0, 100.0};
  EXPECT_EQ(Model(std::move(steep))->PrefillMs({1, 50, 0}), 0.0);
}

TEST(InterpolatedModel, NothingToDoTakesNoTime) {
  const auto model = Model(Small());
  EXPECT_EQ(model->PrefillMs({0, 0, 0}), 0.0);
  EXPECT_EQ(model->PrefillMs({1, 128, 128}), 0.0);
  EXPECT_EQ(model->DecodeMs({0, 100, 100, 1000}), 0.0);
}

TEST(InterpolatedModel, DecodeIsBilinear) {
  const auto model = Model(Small());
  EXPECT_EQ(model->DecodeMs({1, 0, 100, 0}), 4.0);
  EXPECT_EQ(model->DecodeMs({1, 1000, 300, 0}), 12.0);
  EXPECT_EQ(model->DecodeMs({4, 500, 200, 0}), 7.5);
  EXPECT_EQ(model->DecodeMs({4, 2000, 200, 9}), 15.0) << "the pool's size plays no part";
  EXPECT_DOUBLE_EQ(model->DecodeMs({1, 5000, 100, 0}), 24.0);
  EXPECT_DOUBLE_EQ(model->DecodeMs({1, 1000, 500, 0}), 16.0);
}

TEST(InterpolatedModel, DecodeTakesAMillisecondAtLeast) {
  PlannerProfile fast = Small();
  fast.decode_itl = {0.1, 0.1, 0.1, 0.1, 0.1, 0.1};
  EXPECT_EQ(Model(std::move(fast))->DecodeMs({1, 100, 100, 0}), kDecodeMsMin);
}

TEST(InterpolatedModel, LookingUpAllocatesNothing) {
  const auto model = Model(Small());
  const std::uint64_t before = AllocationCount();
  double sum = 0.0;
  for (std::uint64_t tokens = 1; tokens < 1000; ++tokens) {
    sum += model->PrefillMs({2, 2 * tokens, 0}) + model->DecodeMs({2, 2 * tokens, tokens, 4096});
  }
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_GT(sum, 0.0);
}

std::string Refusal(const std::function<void(PlannerProfile&)>& spoil, Mode mode = Mode::kOurs) {
  PlannerProfile profile = Small();
  spoil(profile);
  const auto model = InterpolatedModel::New(std::move(profile), mode);
  return model ? "" : model.error().message;
}

TEST(InterpolatedModel, RefusesArraysThatDoNotFitTogether) {
  EXPECT_EQ(Refusal([](auto& p) { p.prefill_isl.push_back(500.0); }),
            "Prefill array length mismatch: isl=4, ttft=3");
  EXPECT_EQ(Refusal([](auto& p) { p.decode_itl_rows = 2; }),
            "Decode array dimension mismatch: itl shape=(2, 2), active_kv=3, context=2");
  EXPECT_EQ(Refusal([](auto& p) {
              p.prefill_isl = {1.0};
              p.prefill_ttft_ms = {1.0};
            }),
            "prefill_isl has 1 points, at least 2 are needed");
}

TEST(InterpolatedModel, RefusesAxesThatDoNotIncrease) {
  for (const Mode mode : {Mode::kOurs, Mode::kReference}) {
    EXPECT_EQ(Refusal(
                  [](auto& p) {
                    p.prefill_isl = {100.0, 200.0, 200.0};
                  },
                  mode),
              "prefill_isl[2] is 200 after 200, it must increase");
    EXPECT_EQ(Refusal(
                  [](auto& p) {
                    p.decode_context_length = {300.0, 100.0};
                  },
                  mode),
              "decode_context_length[1] is 100 after 300, it must increase");
  }
  EXPECT_EQ(Refusal([](auto& p) { p.prefill_isl[1] = std::nan(""); }, Mode::kReference),
            "prefill_isl[1] is nan after 100, it must increase");
}

TEST(InterpolatedModel, RefusesNumbersThatAreNoTimesOrTokens) {
  EXPECT_EQ(Refusal([](auto& p) { p.prefill_ttft_ms[1] = std::nan(""); }),
            "prefill_ttft_ms[1] is nan, allowed is 0 to 1e+08 ms");
  EXPECT_EQ(Refusal([](auto& p) { p.decode_itl[3] = -1.0; }),
            "decode_itl[1][1] is -1, allowed is 0 to 1e+08 ms");
  EXPECT_EQ(Refusal([](auto& p) { p.decode_itl[4] = 1e30; }),
            "decode_itl[2][0] is 1e+30, allowed is 0 to 1e+08 ms");
  EXPECT_EQ(Refusal([](auto& p) { p.prefill_isl[0] = -1.0; }),
            "prefill_isl[0] is -1, allowed is 0 to 9.0072e+15");
}

TEST(InterpolatedModel, TakesAnyNumberInTheStrictReferenceAndFloorsTheAnswer) {
  PlannerProfile odd = Small();
  odd.prefill_ttft_ms = {-5.0, std::nan(""), 1e30};
  odd.decode_itl[0] = std::nan("");
  const auto model = Model(std::move(odd), Mode::kReference);
  EXPECT_EQ(model->PrefillMs({1, 150, 0}), 0.0);
  EXPECT_EQ(model->DecodeMs({1, 10, 150, 0}), kDecodeMsMin);
}

/// A whole profile file, each array spoiled or left out as the test likes.
std::string ProfileFile(const ScratchFolder& scratch, std::vector<ZipEntry> entries) {
  const std::vector<ZipEntry> all{
      {.name = "prefill_isl.npy", .bytes = Npy("(2,)", {100.0, 200.0})},
      {.name = "prefill_ttft_ms.npy", .bytes = Npy("(2,)", {10.0, 20.0})},
      {.name = "decode_active_kv_tokens.npy", .bytes = Npy("(2,)", {0.0, 1000.0})},
      {.name = "decode_context_length.npy", .bytes = Npy("(2,)", {1.0, 100.0})},
      {.name = "decode_itl.npy", .bytes = Npy("(2, 2)", {5.0, 6.0, 7.0, 8.0})}};
  for (const ZipEntry& entry : all) {
    if (std::none_of(entries.begin(), entries.end(), [&](const ZipEntry& given) {
          return given.name == entry.name;
        })) {
      entries.push_back(entry);
    }
  }
  std::erase_if(entries, [](const ZipEntry& entry) { return entry.bytes.empty(); });
  return scratch.Write("profile.npz", Zip(entries));
}

Result<std::unique_ptr<EngineSetup>> LoadSetup(const std::string& profile, bool strict) {
  MockerOptions options;
  options.planner_profile_data = profile;
  options.strict_reference = strict;
  return EngineSetup::New(options);
}

TEST(PlannerProfileData, LoadsAProfileFile) {
  const ScratchFolder scratch;
  const auto setup = LoadSetup(ProfileFile(scratch, {}), false);
  ASSERT_TRUE(setup) << setup.error().message;
  EXPECT_TRUE((*setup)->warnings().empty());
  EXPECT_DOUBLE_EQ((*setup)->config().perf_model->PrefillMs({1, 150, 0}), 15.0);
}

TEST(PlannerProfileData, RefusesAtStartWithFileAndArray) {
  const ScratchFolder scratch;
  const auto text = [&scratch](std::vector<ZipEntry> entries) {
    const auto setup = LoadSetup(ProfileFile(scratch, std::move(entries)), false);
    EXPECT_FALSE(setup);
    return setup ? "" : setup.error().message;
  };
  const std::string place = "planner_profile_data: " + scratch.path() + "/profile.npz: ";
  EXPECT_EQ(text({{.name = "decode_itl.npy"}}), place + "array 'decode_itl': is missing");
  EXPECT_EQ(text({{.name = "prefill_isl.npy", .bytes = Npy("(1, 2)", {1.0, 2.0})}}),
            place + "array 'prefill_isl': shape (1, 2), expected 1 dimension");
  EXPECT_EQ(text({{.name = "prefill_isl.npy", .bytes = Npy("(3,)", {1.0, 2.0, 3.0})}}),
            place + "Prefill array length mismatch: isl=3, ttft=2");
  EXPECT_EQ(text({{.name = "decode_itl.npy", .bytes = Npy("(1, 4)", {1.0, 2.0, 3.0, 4.0})}}),
            place + "Decode array dimension mismatch: itl shape=(1, 4), active_kv=2, context=2");
  EXPECT_EQ(text({{.name = "prefill_ttft_ms.npy", .bytes = Npy("(2,)", {1.0, -2.0})}}),
            place + "prefill_ttft_ms[1] is -2, allowed is 0 to 1e+08 ms");
}

TEST(PlannerProfileData, RefusesAPathThatIsNeitherFileNorResults) {
  const ScratchFolder scratch;
  for (const std::string& path : {scratch.path(), scratch.path() + "/none.npz"}) {
    const auto setup = LoadSetup(path, false);
    ASSERT_FALSE(setup);
    EXPECT_EQ(setup.error().code, Errc::kInvalidConfig);
    EXPECT_EQ(setup.error().message.find("planner_profile_data: Path '" + path +
                                         "' is neither a mocker-format NPZ file nor a valid "
                                         "profiler results directory"),
              0U);
  }
}

TEST(PlannerProfileData, FallsBackToThePolynomialWithAWarningInTheStrictReference) {
  const ScratchFolder scratch;
  const std::string path = ProfileFile(scratch, {{.name = "decode_itl.npy"}});
  const auto setup = LoadSetup(path, true);
  ASSERT_TRUE(setup) << setup.error().message;
  EXPECT_EQ((*setup)->warnings(),
            std::vector<std::string>{"Failed to load performance model: " + path +
                                     ": array 'decode_itl': is missing. Falling back to polynomial "
                                     "model."});
  EXPECT_EQ((*setup)->config().perf_model->DecodeMs({1, 512, 0, 1024}),
            PolynomialModel().DecodeMs({1, 512, 0, 1024}));
}

TEST(PlannerProfileData, ConvertsOtherNumberTypesButNotInTheStrictReference) {
  const ScratchFolder scratch;
  const std::string i4("\x64\x00\x00\x00\xc8\x00\x00\x00", 8);  // 100, 200
  const std::string path = ProfileFile(
      scratch,
      {{.name = "prefill_isl.npy",
        .bytes = Npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }\n", i4)}});
  const auto ours = LoadSetup(path, false);
  ASSERT_TRUE(ours) << ours.error().message;
  EXPECT_DOUBLE_EQ((*ours)->config().perf_model->PrefillMs({1, 150, 0}), 15.0);
  const auto strict = LoadSetup(path, true);
  ASSERT_TRUE(strict) << strict.error().message;
  EXPECT_EQ((*strict)->warnings().size(), 1U);
}

}  // namespace
}  // namespace understudy::mocker
