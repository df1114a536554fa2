// Random workloads; the parameter that gtest prints is the seed to run one again.
#include "tests/unit/plugin/rank.h"

#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using engine::OutputKind;
using Kind = engine::KvEvent::Kind;

/// Passes after which a workload of this size must be over: every request recomputed several times.
constexpr int kPassesMax = 20000;

class RandomSource {
 public:
  explicit RandomSource(std::uint32_t seed) : engine_(seed) {}
  /// 0 .. below - 1.
  std::uint32_t Below(std::uint32_t below) { return static_cast<std::uint32_t>(engine_() % below); }
  bool Chance(std::uint32_t percent) { return Below(100) < percent; }

 private:
  std::mt19937 engine_;
};

SchedulerConfig RandomConfig(RandomSource& random) {
  SchedulerConfig config;
  config.block_size = 2 + random.Below(7);
  config.blocks_total = 6 + random.Below(60);
  config.running_max = random.Chance(30) ? 0 : 1 + random.Below(8);
  config.budget = random.Chance(30) ? 0 : 1 + random.Below(60);
  config.prefix_caching = !random.Chance(15);
  config.chunked_prefill = !random.Chance(30);
  config.preemption = random.Chance(50) ? PreemptionMode::kFifo : PreemptionMode::kLifo;
  config.speedup_ratio = random.Chance(50) ? 0.0 : 1.0;
  config.seed = random.Below(1000);
  return config;
}

/// Prompts start with one of a few prefixes, so that blocks are shared, and differ afterwards.
engine::Request RandomRequest(RandomSource& random, std::uint64_t id) {
  engine::Request request =
      MakeRequest(id, random.Below(3) * 1000, random.Below(40), 1 + random.Below(40));
  const std::uint32_t tail = random.Below(10);
  for (std::uint32_t i = 0; i < tail; ++i) {
    request.prompt.push_back(100000 + random.Below(1000));
  }
  if (random.Chance(30)) {
    for (std::uint32_t i = 0; i < request.output_tokens_max; ++i) {
      request.planned_tokens.push_back(i);
    }
  }
  return request;
}

/// What a router knows from the events alone.
class Listener {
 public:
  void Hear(const engine::KvEvent& event) {
    EXPECT_EQ(event.event_id, next_id_++);
    if (event.kind == Kind::kRemoved) {
      for (const engine::KvBlock& block : event.blocks) {
        EXPECT_EQ(present_.erase(block.block_hash), 1U) << "removed a block that was not stored";
      }
      return;
    }
    EXPECT_TRUE(!event.parent.has_value() || present_.contains(*event.parent))
        << "stored after an unknown parent";
    for (const engine::KvBlock& block : event.blocks) {
      EXPECT_TRUE(present_.insert(block.block_hash).second) << "stored twice";
    }
  }
  [[nodiscard]] std::size_t size() const { return present_.size(); }

 private:
  std::set<BlockHash> present_;
  std::uint64_t next_id_ = 0;
};

/// What became of a request.
struct Fate {
  std::uint32_t asked = 0;
  std::uint32_t tokens = 0;
  bool admitted = false;
  bool ended = false;
  bool cancelled = false;
};

class Workload {
 public:
  Workload(const SchedulerConfig& config, RandomSource& random, bool cancels)
      : caching_(config.prefix_caching), rank_(config), random_(random), cancels_(cancels) {}

  void Run() {
    for (int pass = 0; !::testing::Test::HasFailure(); ++pass) {
      Arrive();
      if (!rank_.scheduler().HasWork()) {
        break;
      }
      ASSERT_LT(pass, kPassesMax) << "somebody waits for ever";
      Check(rank_.Pass());
      Leave();
      ASSERT_EQ(rank_.scheduler().CheckConsistency(), "");
    }
    for (const auto& [id, fate] : fates_) {
      EXPECT_TRUE(fate.ended || fate.cancelled) << Value(id);
    }
    const engine::Load load = rank_.load();
    EXPECT_EQ(load.blocks_active + load.requests_running + load.requests_waiting, 0U);
    EXPECT_EQ(rank_.scheduler().unadmitted(), 0U);
  }

  [[nodiscard]] const std::string& transcript() const { return transcript_; }

 private:
  void Arrive() {
    while (submitted_ < 40 && random_.Chance(40)) {
      engine::Request request = RandomRequest(random_, submitted_);
      fates_[request.id].asked = request.output_tokens_max;
      rank_.scheduler().Submit(std::move(request));
      ++submitted_;
    }
    if (submitted_ == 0) {
      Arrive();
    }
  }

  void Leave() {
    if (cancels_ && submitted_ > 0 && random_.Chance(20)) {
      const RequestId id{random_.Below(submitted_)};
      Fate& fate = fates_[id];
      EXPECT_EQ(rank_.scheduler().Cancel(id), !fate.ended && !fate.cancelled);
      fate.cancelled = !fate.ended;
    }
  }

  void Check(const PassOutput& pass) {
    EXPECT_TRUE(pass.progressed) << "a pass with work that does nothing";
    for (const engine::KvEvent& event : pass.events) {
      listener_.Hear(event);
      transcript_ += "e" + std::to_string(event.event_id) + ":" +
                     std::to_string(Value(event.blocks[0].block_hash));
    }
    for (const engine::Admission& admission : pass.admissions) {
      fates_[admission.id].admitted = true;
    }
    for (const engine::Output& output : pass.outputs) {
      CheckOutput(output, pass);
      transcript_ += " " + std::to_string(Value(output.id)) + ":" + std::to_string(output.token);
    }
    transcript_ += " " + std::to_string(pass.duration().count()) + "\n";
    if (caching_) {
      EXPECT_LE(listener_.size(), rank_.scheduler().pool().total());
    } else {
      EXPECT_TRUE(pass.events.empty());
    }
  }

  void CheckOutput(const engine::Output& output, const PassOutput& pass) {
    Fate& fate = fates_[output.id];
    EXPECT_FALSE(fate.ended || fate.cancelled) << "output after the end";
    const bool token = output.kind == OutputKind::kToken || output.kind == OutputKind::kLastToken;
    fate.tokens += token ? 1U : 0U;
    EXPECT_TRUE(fate.admitted || !token);
    fate.ended = output.kind != OutputKind::kToken;
    if (output.kind == OutputKind::kLastToken) {
      EXPECT_EQ(fate.tokens, fate.asked);
    }
    if (output.kind == OutputKind::kToken) {
      EXPECT_LT(fate.tokens, fate.asked);
    }
    if (output.kind == OutputKind::kFailed) {
      EXPECT_FALSE(pass.failures.empty());
    }
  }

  const bool caching_;
  TestRank rank_;
  RandomSource& random_;
  const bool cancels_;
  std::uint32_t submitted_ = 0;
  std::map<RequestId, Fate> fates_;
  Listener listener_;
  std::string transcript_;
};

class SchedulerProperty : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(SchedulerProperty, EveryRequestEndsAndNoBlockIsLost) {
  RandomSource random(GetParam());
  Workload(RandomConfig(random), random, /*cancels=*/false).Run();
}

TEST_P(SchedulerProperty, CancelAtAnyMomentFreesEverything) {
  RandomSource random(GetParam() + 1000000);
  Workload(RandomConfig(random), random, /*cancels=*/true).Run();
}

TEST_P(SchedulerProperty, SameSeedSameBytes) {
  const auto run = [] {
    RandomSource random(GetParam());
    Workload workload(RandomConfig(random), random, /*cancels=*/true);
    workload.Run();
    return workload.transcript();
  };
  const std::string first = run();
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(run(), first);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SchedulerProperty, ::testing::Range(0U, 100U));

}  // namespace
}  // namespace understudy::mocker
