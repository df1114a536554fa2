// Random hand-offs beside ordinary requests on one rank; the parameter that gtest prints is the
// seed to run one again.
#include "tests/unit/plugin/random_load.h"
#include "tests/unit/plugin/rank.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using engine::OutputKind;

constexpr int kPassesMax = 20000;
constexpr std::uint64_t kRequests = 60;

enum class Role { kPlain, kSource, kDestination };
enum class Stage { kQueued, kReserved, kActive, kHeld, kOver };

struct Track {
  Role role = Role::kPlain;
  Stage stage = Stage::kQueued;
};

class Handoffs {
 public:
  Handoffs(const SchedulerConfig& config, RandomSource& random) : rank_(config), random_(random) {}

  void Run() {
    for (int pass = 0; !::testing::Test::HasFailure(); ++pass) {
      ASSERT_LT(pass, kPassesMax) << "somebody waits for ever";
      for (std::uint32_t commands = random_.Below(6); commands > 0; --commands) {
        Command();
      }
      if (rank_.any().HasWork()) {
        Pass();
      } else if (submitted_ == kRequests && AllOver()) {
        break;
      }
    }
    EXPECT_EQ(rank_.any().blocks().used, 0U);
    EXPECT_EQ(rank_.any().unadmitted(), 0U);
    const engine::Load load = rank_.load();
    EXPECT_EQ(load.requests_running + load.requests_waiting, 0U);
  }

 private:
  [[nodiscard]] bool AllOver() const {
    return std::all_of(tracks_.begin(), tracks_.end(), [](const auto& entry) {
      return entry.second.stage == Stage::kOver;
    });
  }

  void Command() {
    CommandOutput output;
    if (submitted_ < kRequests && random_.Chance(50)) {
      Arrive(output);
    } else if (submitted_ > 0) {
      const RequestId id{random_.Below(static_cast<std::uint32_t>(submitted_))};
      Move(id, tracks_[id], output);
    }
    Hear(output.events, output.notices);
    ASSERT_EQ(rank_.any().CheckConsistency(), "");
  }

  void Arrive(CommandOutput& output) {
    engine::Request request = MakeRequest(
        submitted_, random_.Below(3) * 1000, 1 + random_.Below(30), 1 + random_.Below(20));
    const RequestId id = request.id;
    ++submitted_;
    Track& track = tracks_[id];
    track.role = static_cast<Role>(random_.Below(3));
    if (track.role == Role::kPlain) {
      rank_.any().Submit(std::move(request));
    } else if (track.role == Role::kSource) {
      rank_.any().SubmitSource(std::move(request));
    } else if (!rank_.any().ReserveDestination(std::move(request), random_.Chance(30), output)) {
      track.stage = Stage::kOver;
    }
  }

  /// The next step of a hand-off, or the end of a request.
  void Move(RequestId id, Track& track, CommandOutput& output) {
    const bool cancel = random_.Chance(15);
    if (track.role == Role::kDestination && cancel) {
      EXPECT_EQ(rank_.any().CancelDestination(id, output), track.stage != Stage::kOver);
      track.stage = Stage::kOver;
    } else if (cancel) {
      EXPECT_EQ(rank_.any().Cancel(id), track.stage != Stage::kOver);
      track.stage = Stage::kOver;
    } else if (track.role == Role::kSource) {
      EXPECT_EQ(rank_.any().ReleaseSource(id, output), track.stage == Stage::kHeld);
      track.stage = track.stage == Stage::kHeld ? Stage::kOver : track.stage;
    } else if (track.role == Role::kDestination) {
      EXPECT_EQ(rank_.any().ActivateDestination(id, output), track.stage == Stage::kReserved);
      track.stage = track.stage == Stage::kReserved ? Stage::kActive : track.stage;
    }
  }

  void Pass() {
    const PassOutput& pass = rank_.Pass();
    for (const engine::Output& out : pass.outputs) {
      Track& track = tracks_[out.id];
      EXPECT_NE(track.stage, Stage::kOver) << "output after the end";
      if (out.kind != OutputKind::kToken) {
        const bool held = track.role == Role::kSource && out.kind == OutputKind::kLastToken;
        track.stage = held ? Stage::kHeld : Stage::kOver;
      }
    }
    Hear(pass.events, pass.notices);
    ASSERT_EQ(rank_.any().CheckConsistency(), "");
    CommandOutput output;
    rank_.any().RetryDestination(output);
    Hear(output.events, output.notices);
  }

  void Hear(const std::vector<engine::KvEvent>& events, const std::vector<HandoffNotice>& notices) {
    for (const engine::KvEvent& event : events) {
      listener_.Hear(event);
    }
    for (const HandoffNotice& notice : notices) {
      if (notice.kind == HandoffNotice::Kind::kSourceHeld) {
        EXPECT_EQ(tracks_[notice.id].stage, Stage::kHeld);
      } else if (tracks_[notice.id].stage == Stage::kQueued) {
        tracks_[notice.id].stage = Stage::kReserved;
      }
    }
  }

  TestRank rank_;
  RandomSource& random_;
  std::uint64_t submitted_ = 0;
  std::map<RequestId, Track> tracks_;
  Listener listener_;
};

class HandoffProperty : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(HandoffProperty, EveryHandoffEndsAndNoBlockIsLost) {
  RandomSource random(GetParam());
  SchedulerConfig config;
  config.block_size = 2 + random.Below(5);
  config.blocks_total = 16 + random.Below(40);
  config.running_max = random.Chance(30) ? 0 : 1 + random.Below(6);
  config.budget = random.Chance(30) ? 0 : 8 + random.Below(60);
  config.preemption = random.Chance(50) ? PreemptionMode::kFifo : PreemptionMode::kLifo;
  if (random.Chance(30)) {
    config.speculative = SpeculativeOptions{.accept_rates = {0.5, 0.5}, .seed = GetParam()};
  }
  Handoffs(config, random).Run();
}

INSTANTIATE_TEST_SUITE_P(Seeds, HandoffProperty, ::testing::Range(0U, 300U));

}  // namespace
}  // namespace understudy::mocker
