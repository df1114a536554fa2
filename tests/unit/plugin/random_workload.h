// A random workload on one rank, whatever engine it simulates.
#pragma once

#include "tests/unit/plugin/random_load.h"
#include "tests/unit/plugin/rank.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::mocker {

/// Passes after which a workload of this size must be over: every request recomputed several times.
constexpr int kWorkloadPassesMax = 20000;

/// Prompts start with one of a few prefixes, so that blocks are shared, and differ afterwards.
inline engine::Request RandomRequest(RandomSource& random, std::uint64_t id) {
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

/// What became of a request.
struct Fate {
  std::size_t rank = 0;
  std::uint32_t asked = 0;
  std::uint32_t tokens = 0;
  bool admitted = false;
  bool ended = false;
  bool cancelled = false;
};

/// Requests arrive, run and (if wanted) are cancelled at random, until all are over.
class Workload {
 public:
  Workload(const SchedulerConfig& config,
           RandomSource& random,
           bool cancels,
           std::uint32_t ranks = 1)
      : caching_(config.prefix_caching),
        may_be_cut_(config.engine_type == EngineType::kTrtllm || config.model_len_max != 0),
        rank_(NamingTokens(config), 0, ranks),
        random_(random),
        cancels_(cancels),
        listeners_(ranks, Listener(config.block_size)) {}

  void Run() {
    for (int pass = 0; !::testing::Test::HasFailure(); ++pass) {
      Arrive();
      if (!rank_.HasWork() && !AwaitTransfers()) {
        break;
      }
      ASSERT_LT(pass, kWorkloadPassesMax) << "somebody waits for ever";
      if (rank_.HasWork()) {
        rank_.Pass();
        for (std::size_t i = 0; i < rank_.count(); ++i) {
          Check(i, rank_.output(i));
        }
        EXPECT_TRUE(rank_.progressed() || AwaitTransfers()) << "a pass with work that does nothing";
      }
      Leave();
      for (std::size_t i = 0; i < rank_.count(); ++i) {
        ASSERT_EQ(rank_.any(i).CheckConsistency(), "");
        CheckKnown(i);
      }
    }
    CheckEnd();
  }

  [[nodiscard]] const std::string& transcript() const { return transcript_; }

 private:
  void Arrive() {
    while (submitted_ < 40 && random_.Chance(40)) {
      engine::Request request = RandomRequest(random_, submitted_);
      Fate& fate = fates_[request.id];
      fate.asked = request.output_tokens_max;
      fate.rank = random_.Below(static_cast<std::uint32_t>(rank_.count()));
      rank_.any(fate.rank).Submit(std::move(request));
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
      EXPECT_EQ(rank_.Cancel(id, fate.rank), !fate.ended && !fate.cancelled);
      Hear(fate.rank, rank_.command().events);
      rank_.command().Clear();
      fate.cancelled = !fate.ended;
    }
  }

  /// False: there are none.
  bool AwaitTransfers() {
    bool any = false;
    for (std::size_t i = 0; i < rank_.count(); ++i) {
      CommandOutput output;
      any = rank_.AwaitTransfer(i, output) || any;
      Hear(i, output.events);
    }
    return any;
  }

  void Hear(std::size_t rank, const std::vector<engine::KvEvent>& events) {
    for (const engine::KvEvent& event : events) {
      listeners_[rank].Hear(event);
      transcript_ += "e" + std::to_string(event.event_id) + ":" +
                     std::to_string(Value(event.blocks[0].block_hash));
    }
  }

  /// The events say what there is.
  void CheckKnown(std::size_t rank) {
    for (const StorageTier tier : {StorageTier::kDevice, StorageTier::kHostPinned}) {
      if (caching_) {
        EXPECT_EQ(listeners_[rank].blocks(tier), rank_.any(rank).KnownBlocks(tier));
      }
    }
  }

  void CheckEnd() {
    for (const auto& [id, fate] : fates_) {
      EXPECT_TRUE(fate.ended || fate.cancelled) << Value(id);
    }
    for (std::size_t i = 0; i < rank_.count(); ++i) {
      EXPECT_EQ(rank_.any(i).blocks().used, 0U);
      const engine::Load load = rank_.any(i).load();
      EXPECT_EQ(load.requests_running + load.requests_waiting, 0U);
      EXPECT_EQ(rank_.any(i).unadmitted(), 0U);
    }
  }

  void Check(std::size_t rank, const PassOutput& pass) {
    EXPECT_EQ(pass.duration(), rank_.output(0).duration()) << "the ranks end together";
    Hear(rank, pass.events);
    for (const engine::Admission& admission : pass.admissions) {
      fates_[admission.id].admitted = true;
    }
    for (const engine::Output& output : pass.outputs) {
      CheckOutput(output, pass);
      transcript_ += " " + std::to_string(Value(output.id)) + ":" + std::to_string(output.token);
    }
    transcript_ += " " + std::to_string(pass.duration().count()) + "\n";
    EXPECT_TRUE(caching_ || pass.events.empty());
  }

  void CheckOutput(const engine::Output& output, const PassOutput& pass) {
    Fate& fate = fates_[output.id];
    EXPECT_FALSE(fate.ended || fate.cancelled) << "output after the end";
    const bool token =
        output.kind == engine::OutputKind::kToken || output.kind == engine::OutputKind::kLastToken;
    fate.tokens += token ? 1U : 0U;
    EXPECT_TRUE(fate.admitted || !token);
    fate.ended = output.kind != engine::OutputKind::kToken;
    if (output.kind == engine::OutputKind::kLastToken) {
      if (may_be_cut_) {  // to what the pool can hold
        EXPECT_LE(fate.tokens, fate.asked);
      } else {
        EXPECT_EQ(fate.tokens, fate.asked);
      }
    }
    if (output.kind == engine::OutputKind::kToken) {
      EXPECT_LT(fate.tokens, fate.asked);
    }
    if (output.kind == engine::OutputKind::kFailed) {
      EXPECT_FALSE(pass.failures.empty());
    }
  }

  const bool caching_;
  const bool may_be_cut_;
  TestRank rank_;
  RandomSource& random_;
  const bool cancels_;
  std::uint32_t submitted_ = 0;
  std::map<RequestId, Fate> fates_;
  std::vector<Listener> listeners_;  ///< by rank
  std::string transcript_;
};

}  // namespace understudy::mocker
