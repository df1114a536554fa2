// Random hand-offs beside ordinary requests on one rank, whatever engine it simulates.
#pragma once

#include "tests/unit/plugin/random_load.h"
#include "tests/unit/plugin/rank.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

namespace understudy::mocker {

constexpr int kHandoffPassesMax = 20000;
constexpr std::uint64_t kHandoffRequests = 60;

enum class HandoffRole { kPlain, kSource, kDestination };
enum class HandoffStage { kQueued, kReserved, kActive, kHeld, kOver };

struct HandoffTrack {
  HandoffRole role = HandoffRole::kPlain;
  HandoffStage stage = HandoffStage::kQueued;
};

/// Sources, destinations and ordinary requests take their steps, or are cancelled, at random.
class Handoffs {
 public:
  Handoffs(const SchedulerConfig& config, RandomSource& random)
      : rank_(NamingTokens(config)), random_(random), listener_(config.block_size) {}

  void Run() {
    for (int pass = 0; !::testing::Test::HasFailure(); ++pass) {
      ASSERT_LT(pass, kHandoffPassesMax) << "somebody waits for ever";
      for (std::uint32_t commands = random_.Below(6); commands > 0; --commands) {
        Command();
      }
      if (rank_.any().HasWork()) {
        Pass();
      } else if (CommandOutput output; rank_.AwaitTransfer(0, output)) {
        rank_.any().RetryDestination(output);
        Hear(output.events, output.notices);
      } else if (submitted_ == kHandoffRequests && AllOver()) {
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
      return entry.second.stage == HandoffStage::kOver;
    });
  }

  void Command() {
    CommandOutput output;
    if (submitted_ < kHandoffRequests && random_.Chance(50)) {
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
    HandoffTrack& track = tracks_[id];
    track.role = static_cast<HandoffRole>(random_.Below(3));
    if (track.role == HandoffRole::kPlain) {
      rank_.any().Submit(std::move(request));
    } else if (track.role == HandoffRole::kSource) {
      rank_.any().SubmitSource(std::move(request));
    } else if (!rank_.any().ReserveDestination(std::move(request), random_.Chance(30), output)) {
      track.stage = HandoffStage::kOver;
    }
  }

  /// The next step of a hand-off, or the end of a request.
  void Move(RequestId id, HandoffTrack& track, CommandOutput& output) {
    const bool cancel = random_.Chance(15);
    if (track.role == HandoffRole::kDestination && cancel) {
      EXPECT_EQ(rank_.any().CancelDestination(id, output), track.stage != HandoffStage::kOver);
      track.stage = HandoffStage::kOver;
    } else if (cancel) {
      EXPECT_EQ(rank_.any().Cancel(id, output), track.stage != HandoffStage::kOver);
      track.stage = HandoffStage::kOver;
    } else if (track.role == HandoffRole::kSource) {
      EXPECT_EQ(rank_.any().ReleaseSource(id, output), track.stage == HandoffStage::kHeld);
      track.stage = track.stage == HandoffStage::kHeld ? HandoffStage::kOver : track.stage;
    } else if (track.role == HandoffRole::kDestination) {
      EXPECT_EQ(rank_.any().ActivateDestination(id, output),
                track.stage == HandoffStage::kReserved);
      track.stage = track.stage == HandoffStage::kReserved ? HandoffStage::kActive : track.stage;
    }
  }

  void Pass() {
    const PassOutput& pass = rank_.Pass();
    for (const engine::Output& out : pass.outputs) {
      HandoffTrack& track = tracks_[out.id];
      EXPECT_NE(track.stage, HandoffStage::kOver) << "output after the end";
      if (out.kind != engine::OutputKind::kToken) {
        const bool held =
            track.role == HandoffRole::kSource && out.kind == engine::OutputKind::kLastToken;
        track.stage = held ? HandoffStage::kHeld : HandoffStage::kOver;
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
        EXPECT_EQ(tracks_[notice.id].stage, HandoffStage::kHeld);
      } else if (tracks_[notice.id].stage == HandoffStage::kQueued) {
        tracks_[notice.id].stage = HandoffStage::kReserved;
      }
    }
  }

  TestRank rank_;
  RandomSource& random_;
  std::uint64_t submitted_ = 0;
  std::map<RequestId, HandoffTrack> tracks_;
  Listener listener_;
};

}  // namespace understudy::mocker
