#include "worker/kv_relay/engine_batch_order.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

/// Writes down what it is told: "0 1 (lost 2) 4", "restart", "ask 3".
class Journal final : public EngineBatchOrder::Sink {
 public:
  void OnBatch(std::string_view payload, bool replayed) override {
    lines.push_back(std::string(payload) + (replayed ? "r" : ""));
  }
  void OnLost(std::uint64_t batches) override { lines.push_back("lost" + std::to_string(batches)); }
  void OnRestart() override { lines.push_back("restart"); }
  bool RequestReplay(std::uint64_t start) override {
    if (can_ask) {
      lines.push_back("ask" + std::to_string(start));
    }
    return can_ask;
  }
  void AbandonReplay() override { lines.push_back("abandon"); }

  std::string Take() {
    std::string all;
    for (const std::string& line : lines) {
      all += (all.empty() ? "" : " ") + line;
    }
    lines.clear();
    return all;
  }

  bool can_ask = true;
  std::vector<std::string> lines;
};

class BatchOrder : public ::testing::Test {
 protected:
  void Live(std::initializer_list<std::uint64_t> sequences, const std::string& life = "") {
    for (const std::uint64_t sequence : sequences) {
      order_.Live(sequence, life + std::to_string(sequence));
    }
  }
  bool Replayed(std::uint64_t sequence, const std::string& life = "") {
    return order_.Replayed(sequence, life + std::to_string(sequence));
  }

  Journal journal_;
  EngineBatchOrder order_{journal_, {16, 1024}};
};

TEST_F(BatchOrder, HandsOnWhatComesInOrder) {
  Live({0, 1, 2});
  EXPECT_EQ(journal_.Take(), "0 1 2");
  EXPECT_EQ(order_.counters().applied, 3U);
  EXPECT_EQ(order_.counters().gaps, 0U);
}

TEST_F(BatchOrder, AFirstNumberAboveZeroIsAGap) {
  Live({7});
  EXPECT_EQ(journal_.Take(), "ask0");
  for (std::uint64_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(Replayed(i));
  }
  order_.ReplayEnded();
  EXPECT_EQ(journal_.Take(), "0r 1r 2r 3r 4r 5r 6r 7");
  EXPECT_EQ(order_.counters().lost, 0U);
}

TEST_F(BatchOrder, WhoBeginsWithAReplayKnowsASilentEngineToo) {
  order_.Begin();
  EXPECT_EQ(journal_.Take(), "ask0");
  Replayed(4);  // the engine keeps no more
  Replayed(5);
  Live({6});
  order_.ReplayEnded();
  EXPECT_EQ(journal_.Take(), "lost4 4r 5r 6");
  Live({7});
  EXPECT_EQ(journal_.Take(), "7");
  EXPECT_EQ(order_.counters().gaps, 0U);
}

TEST_F(BatchOrder, LiveBatchesWaitForTheBeginning) {
  order_.Begin();
  Live({2, 3});
  EXPECT_EQ(journal_.Take(), "ask0");
  for (std::uint64_t i = 0; i < 4; ++i) {
    Replayed(i);
  }
  order_.ReplayEnded();
  EXPECT_EQ(journal_.Take(), "0r 1r 2 3");
  EXPECT_EQ(order_.counters().lost, 0U);
}

TEST_F(BatchOrder, WithoutAReplaySocketAGapIsCountedAndLeftBehind) {
  journal_.can_ask = false;
  Live({0, 3, 4, 9});
  EXPECT_EQ(journal_.Take(), "0 lost2 3 4 lost4 9");
  EXPECT_EQ(order_.counters().lost, 6U);
  EXPECT_EQ(order_.counters().gaps, 2U);
}

TEST_F(BatchOrder, LiveBatchesWaitWhileAGapIsRepaired) {
  Live({0, 1, 4, 5});
  EXPECT_EQ(journal_.Take(), "0 1 ask1");
  EXPECT_EQ(order_.waiting(), 2U);
  Replayed(1);
  Replayed(2);
  EXPECT_EQ(journal_.Take(), "2r");
  Replayed(3);
  EXPECT_EQ(journal_.Take(), "3r 4 5");
  Live({6});  // in order, though the replay has not ended
  EXPECT_EQ(journal_.Take(), "6");
  Replayed(4);
  Replayed(5);
  order_.ReplayEnded();
  EXPECT_EQ(journal_.Take(), "");
  EXPECT_FALSE(order_.is_replaying());
}

TEST_F(BatchOrder, LiveCopiesOfReplayedBatchesAreDropped) {
  Live({0, 3});
  Replayed(0);
  for (std::uint64_t i = 1; i < 7; ++i) {
    Replayed(i);
  }
  order_.ReplayEnded();
  journal_.Take();
  Live({4, 5, 6, 7});
  EXPECT_EQ(journal_.Take(), "7");
  EXPECT_EQ(order_.counters().duplicates, 3U);
  EXPECT_EQ(order_.counters().restarts, 0U);
}

TEST_F(BatchOrder, WhatTheEngineKeptNoMoreIsLost) {
  Live({0, 9});
  journal_.Take();
  Replayed(5);
  Replayed(6);
  EXPECT_EQ(journal_.Take(), "lost4 5r 6r");
  Replayed(8);
  EXPECT_EQ(journal_.Take(), "lost1 8r 9");
  EXPECT_EQ(order_.counters().lost, 5U);
}

TEST_F(BatchOrder, AReplayThatSkipsWhatWaitsDoesNotSkipIt) {
  Live({0, 4, 5, 7});
  journal_.Take();
  Replayed(0);
  Replayed(6);  // 1 to 3 are gone, 4 and 5 came live
  EXPECT_EQ(journal_.Take(), "lost3 4 5 6r 7");
}

TEST_F(BatchOrder, AnEndMarkWritesOffWhatIsMissingAndAsksForTheNextHole) {
  Live({0, 3, 6});
  EXPECT_EQ(journal_.Take(), "0 ask0");
  order_.ReplayEnded();
  EXPECT_EQ(journal_.Take(), "lost2 3 ask3");
  order_.ReplayEnded();
  EXPECT_EQ(journal_.Take(), "lost2 6");
  EXPECT_EQ(order_.counters().lost, 4U);
  order_.ReplayEnded();
  EXPECT_EQ(journal_.Take(), "");
}

TEST_F(BatchOrder, ANumberThatDoesNotRiseIsANewLife) {
  Live({0, 1, 2});
  journal_.Take();
  Live({0, 1}, "b");
  EXPECT_EQ(journal_.Take(), "restart b0 b1");
  Live({1}, "c");
  EXPECT_EQ(journal_.Take(), "restart ask0");
  EXPECT_EQ(order_.counters().restarts, 2U);
}

TEST_F(BatchOrder, ANewLifeDuringARepairVoidsWhatWaited) {
  Live({0, 5, 6});
  journal_.Take();
  Live({0}, "b");
  EXPECT_EQ(journal_.Take(), "abandon restart b0");
  EXPECT_EQ(order_.counters().voided, 2U);
  EXPECT_TRUE(Replayed(1));  // late: belongs to nothing
  EXPECT_EQ(journal_.Take(), "");
}

TEST_F(BatchOrder, ANewLifeBehindAGapShowsInTheBatchBeforeIt) {
  Live({0, 1, 2});
  Live({6}, "b");  // 0 to 5 of the new life were sent while nobody was connected
  EXPECT_EQ(journal_.Take(), "0 1 2 ask2");
  Replayed(2, "b");
  EXPECT_EQ(journal_.Take(), "abandon restart ask0");
  for (std::uint64_t i = 0; i < 7; ++i) {
    Replayed(i, "b");
  }
  order_.ReplayEnded();
  EXPECT_EQ(journal_.Take(), "b0r b1r b2r b3r b4r b5r b6");
  EXPECT_EQ(order_.counters().lost, 0U);
}

TEST_F(BatchOrder, AServerThatEncodesAnewIsMistakenOnceAtMost) {
  Live({0, 2});
  journal_.Take();
  Replayed(0, "other");
  EXPECT_EQ(journal_.Take(), "abandon restart ask0");
  Replayed(0, "other");
  Replayed(1, "other");
  Live({3});
  Replayed(2, "other");
  Replayed(3, "other");
  order_.ReplayEnded();
  EXPECT_EQ(journal_.Take(), "other0r other1r 2 3");
}

TEST_F(BatchOrder, TooMuchWaitingEndsTheRepair) {
  Live({0});
  for (std::uint64_t i = 2; i < 2 + 17; ++i) {
    Live({i});
  }
  EXPECT_EQ(order_.waiting(), 0U);
  EXPECT_EQ(order_.counters().overflows, 1U);
  EXPECT_EQ(order_.counters().lost, 1U);
  EXPECT_EQ(order_.counters().applied, 18U);
  EXPECT_FALSE(order_.is_replaying());
}

TEST_F(BatchOrder, TooManyBytesWaitingEndTheRepairToo) {
  Live({0});
  order_.Live(2, std::string(1000, 'x'));
  EXPECT_TRUE(order_.is_replaying());
  order_.Live(3, std::string(100, 'x'));
  EXPECT_FALSE(order_.is_replaying());
  EXPECT_EQ(order_.counters().applied, 3U);
}

TEST_F(BatchOrder, ANumberFromNowhereInAReplayIsRefused) {
  Live({0, 2});
  EXPECT_FALSE(Replayed(2 + EngineBatchOrder::kAheadMax + 1));
  EXPECT_TRUE(Replayed(1));
  order_.ReplayEnded();
  EXPECT_EQ(order_.counters().lost, 0U);
}

/// An engine that loses live batches, restarts, and answers requests from a ring; everything that
/// was sent must be applied once and in order, or be counted as lost.
class BatchOrderModel : public ::testing::TestWithParam<std::uint32_t> {};

class Model final : public EngineBatchOrder::Sink {
 public:
  explicit Model(std::uint32_t seed) : random_(seed) {}

  void Run() {
    for (int step = 0; step < 2000; ++step) {
      const auto dice = random_() % 100;
      if (dice < 60) {
        sent_.push_back(std::to_string(life_) + ":" + std::to_string(sent_.size()));
        if (random_() % 10 != 0) {
          order_.Live(sent_.size() - 1, sent_.back());
        }
      } else if (dice < 95) {
        Answer();
      } else if (dice < 96 && sent_.size() > 20) {
        Restart();
      }
    }
    sent_.push_back(std::to_string(life_) + ":" + std::to_string(sent_.size()));
    order_.Live(sent_.size() - 1, sent_.back());
    while (order_.is_replaying()) {
      Answer();
    }
    EXPECT_EQ(next_, sent_.size());
    EXPECT_EQ(order_.counters().lost, lost_);
    EXPECT_EQ(order_.waiting(), 0U);
  }

 private:
  void Restart() {
    // The first batch of a life comes through: a new life that stays behind unseen numbers is what
    // the fingerprint is for, and has a test of its own.
    ++life_;
    sent_.assign(1, std::to_string(life_) + ":0");
    order_.Live(0, sent_[0]);
  }

  void Answer() {
    if (!order_.is_replaying()) {
      return;
    }
    const std::uint64_t ring_begin = sent_.size() > 40 ? sent_.size() - 40 : 0;
    asked_ = std::max(asked_, ring_begin);
    if (asked_ >= end_ || random_() % 50 == 0) {
      order_.ReplayEnded();
      return;
    }
    const std::uint64_t sequence = asked_++;
    EXPECT_TRUE(order_.Replayed(sequence, sent_[sequence]));
  }

  void OnBatch(std::string_view payload, bool /*replayed*/) override {
    EXPECT_EQ(payload, std::to_string(life_) + ":" + std::to_string(next_));
    ++next_;
  }
  void OnLost(std::uint64_t batches) override {
    next_ += batches;
    lost_ += batches;
  }
  void OnRestart() override { next_ = 0; }
  bool RequestReplay(std::uint64_t start) override {
    asked_ = start;
    end_ = sent_.size();
    return random_() % 5 != 0;
  }
  void AbandonReplay() override {}

  std::mt19937 random_;
  std::uint32_t life_ = 0;
  std::vector<std::string> sent_;
  std::uint64_t next_ = 0, lost_ = 0, asked_ = 0, end_ = 0;
  EngineBatchOrder order_{*this, {}};
};

TEST_P(BatchOrderModel, EachBatchIsAppliedInOrderOrCountedAsLost) {
  Model(GetParam()).Run();
}

INSTANTIATE_TEST_SUITE_P(Seeds, BatchOrderModel, ::testing::Range(0U, 100U));

}  // namespace
}  // namespace understudy::worker
