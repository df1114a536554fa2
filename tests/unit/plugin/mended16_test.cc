// Scenarios in which release 1.6's engine waits for ever, with a core busy: how ours goes on. That
// the strict reference stays where the original does is in pass16_vectors_test.cc.
#include "tests/unit/plugin/golden16.h"
#include "tests/unit/plugin/golden_case.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kPassesMax = 500;

/// The recorded requests and commands, and then as many passes as it takes.
class Mended16 : public ::testing::Test {
 protected:
  void Play(const std::string& name) {
    case_ = LoadGoldenCase("pass_" + name, "engine-1.6");
    Golden16Worker worker(case_["engine_args"], /*strict=*/false);
    RankScheduler& rank = worker.rank(0);
    PassOutput pass;
    for (std::size_t number = 0;; ++number) {
      ASSERT_LT(number, kPassesMax) << "somebody waits for ever";
      Arrive(rank, number);
      if (!rank.HasWork()) {
        if (number > LastArrival()) {
          break;
        }
        continue;
      }
      rank.RunPass(pass);
      ASSERT_TRUE(pass.progressed);
      for (const engine::Output& output : pass.outputs) {
        ends_[Name(output.id)] = output.kind;
      }
      ASSERT_EQ(rank.CheckConsistency(), "");
    }
    EXPECT_EQ(rank.blocks().used, 0U);
  }

  std::map<std::string, engine::OutputKind> ends_;

 private:
  [[nodiscard]] std::string Name(RequestId id) const {
    return case_["requests"][Value(id) - 1]["id"];
  }

  [[nodiscard]] std::size_t LastArrival() const {
    std::size_t last = 0;
    for (const Json& row : case_["requests"]) {
      last = std::max(last, row.value("visible_from_pass", std::size_t{0}));
    }
    for (const Json& command : case_.value("commands", Json::array())) {
      last = std::max(last, command.value("before_pass", std::size_t{0}));
    }
    return last;
  }

  void Arrive(RankScheduler& rank, std::size_t pass) {
    for (std::size_t i = 0; i < case_["requests"].size(); ++i) {
      const Json& row = case_["requests"][i];
      if (!row.contains("submitted_by_command") &&
          row.value("visible_from_pass", std::size_t{0}) == pass) {
        rank.Submit(GoldenRequest(case_, i));
      }
    }
    for (const Json& command : case_.value("commands", Json::array())) {
      if (command.value("before_pass", kPassesMax) == pass) {
        Apply(rank, command);
      }
    }
  }

  void Apply(RankScheduler& rank, const Json& command) {
    std::size_t index = 0;
    while (case_["requests"][index]["id"] != command["id"]) {
      ++index;
    }
    CommandOutput output;
    if (command["command"] == "reserve_destination") {
      ASSERT_TRUE(rank.ReserveDestination(GoldenRequest(case_, index), false, output));
    } else {
      ASSERT_EQ(command["command"], "activate_destination");
      ASSERT_TRUE(rank.ActivateDestination(RequestId{index + 1}, output));
    }
  }

  Json case_;
};

using engine::OutputKind;

TEST_F(Mended16, ARequestThatOutgrowsThePoolAloneFails) {
  Play("vllm_outgrown");
  EXPECT_EQ(ends_["a"], OutputKind::kFailed);
  EXPECT_EQ(ends_["b"], OutputKind::kLastToken) << "it came later";
}

TEST_F(Mended16, AnSglangPromptThatNeverFitsIsRejectedAndHoldsNobodyUp) {
  Play("sglang_never_fits");
  EXPECT_EQ(ends_["a"], OutputKind::kRejected);
  EXPECT_EQ(ends_["b"], OutputKind::kLastToken);
}

TEST_F(Mended16, APromptThatWasHandedOverPassesAHeadThatWaitsForItsBlocks) {
  Play("vllm_handoff_destination_deadlock");
  EXPECT_GE(ends_.size(), 2U);
  for (const auto& [name, end] : ends_) {
    EXPECT_EQ(end, OutputKind::kLastToken) << name;
  }
}

}  // namespace
}  // namespace understudy::mocker
