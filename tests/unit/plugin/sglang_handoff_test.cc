// Both ends of a hand-off on SGLang-style ranks: pages stay until they are released, and room is
// made before a prompt arrives.
#include "tests/unit/plugin/rank.h"

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using engine::OutputKind;
using Kind = HandoffNotice::Kind;

class SglangHandoffTest : public ::testing::Test {
 protected:
  static SchedulerConfig Config(WorkerType type, std::uint64_t pages = 16) {
    SchedulerConfig config = SmallRank();
    config.engine_type = EngineType::kSglang;
    config.worker_type = type;
    config.blocks_total = pages;
    return config;
  }

  void Reserve(TestRank& rank, engine::Request request, bool in_pass = false) {
    command_.Clear();
    EXPECT_TRUE(rank.any().ReserveDestination(std::move(request), in_pass, command_).has_value());
  }

  /// The command said that `id` has room, short of `tokens`; nothing else.
  void ExpectReserved(std::uint64_t id, std::uint64_t tokens) {
    ASSERT_EQ(command_.notices.size(), 1U);
    EXPECT_EQ(command_.notices[0].kind, Kind::kDestinationReserved);
    EXPECT_EQ(command_.notices[0].id, RequestId{id});
    EXPECT_EQ(command_.notices[0].tokens, tokens);
  }

  static void ExpectBlocks(TestRank& rank, std::uint64_t used, std::uint64_t cached) {
    EXPECT_EQ(rank.any().blocks().used, used);
    EXPECT_EQ(rank.any().blocks().cached, cached);
    EXPECT_EQ(rank.any().CheckConsistency(), "");
  }

  bool Activate(TestRank& rank, std::uint64_t id) {
    command_.Clear();
    return rank.any().ActivateDestination(RequestId{id}, command_);
  }

  bool CancelDestination(TestRank& rank, std::uint64_t id) {
    command_.Clear();
    return rank.any().CancelDestination(RequestId{id}, command_);
  }

  CommandOutput command_;
};

TEST_F(SglangHandoffTest, M203_SourceKeepsItsPagesButNotItsSlotUntilItIsReleased) {
  TestRank rank(Config(WorkerType::kPrefill));
  rank.any().SubmitSource(MakeRequest(1, 0, 11, 1));

  const PassOutput& pass = rank.Pass();

  ASSERT_EQ(pass.outputs.size(), 1U);
  EXPECT_EQ(pass.outputs[0].kind, OutputKind::kLastToken);
  ASSERT_EQ(pass.notices.size(), 1U);
  EXPECT_EQ(pass.notices[0].kind, Kind::kSourceHeld);
  EXPECT_EQ(pass.notices[0].tokens, 11U);
  EXPECT_EQ(rank.load().requests_running, 0U);
  EXPECT_FALSE(rank.any().HasWork());
  ExpectBlocks(rank, 3, 0);

  EXPECT_TRUE(rank.any().ReleaseSource(RequestId{1}, command_));
  ExpectBlocks(rank, 0, 3);
  ASSERT_EQ(command_.events.size(), 1U) << "the page that the token completed";
  EXPECT_TRUE(command_.events[0].parent.has_value());
  EXPECT_FALSE(rank.any().ReleaseSource(RequestId{1}, command_));
}

TEST_F(SglangHandoffTest, CancelFreesASourceInEveryState) {
  TestRank rank(Config(WorkerType::kPrefill));
  rank.any().SubmitSource(MakeRequest(1, 0, 10, 1));
  EXPECT_FALSE(rank.any().ReleaseSource(RequestId{1}, command_)) << "it has not even begun";
  EXPECT_TRUE(rank.Cancel(RequestId{1}));
  ExpectBlocks(rank, 0, 0);
  rank.any().SubmitSource(MakeRequest(2, 0, 11, 1));
  rank.Pass();
  EXPECT_TRUE(rank.Cancel(RequestId{2}));
  ExpectBlocks(rank, 0, 3);

  EXPECT_EQ(rank.command().events.size(), 1U) << "the last page is cached";
  EXPECT_FALSE(rank.any().HasWork());
}

TEST_F(SglangHandoffTest, M198_DestinationGetsRoomForThePagesItHasNotCached) {
  SchedulerConfig config = Config(WorkerType::kDecode);
  config.block_size = 16;
  TestRank rank(config);
  Reserve(rank, MakeRequest(1, 0, 60, 4));
  ExpectReserved(1, 64);
  EXPECT_TRUE(command_.events.empty());
  ExpectBlocks(rank, 4, 0);
  EXPECT_EQ(rank.load().requests_waiting, 1U);
  EXPECT_EQ(rank.load().blocks_active, 4U);
  EXPECT_FALSE(rank.any().HasWork());

  EXPECT_TRUE(Activate(rank, 1));
  ASSERT_EQ(command_.events.size(), 1U);
  EXPECT_EQ(command_.events[0].blocks.size(), 3U);
  EXPECT_EQ(rank.load().blocks_active, 4U);
  Reserve(rank, MakeRequest(2, 0, 60, 4));
  ExpectReserved(2, 16);

  const PassOutput& pass = rank.Pass();
  EXPECT_EQ(pass.prefill.count(), 0);
  ASSERT_EQ(pass.admissions.size(), 1U);
  EXPECT_EQ(pass.admissions[0].cached_tokens, 0U);
  ASSERT_EQ(pass.outputs.size(), 1U);
  EXPECT_EQ(pass.outputs[0].id, RequestId{1});
  EXPECT_EQ(rank.any().CheckConsistency(), "");
}

TEST_F(SglangHandoffTest, NobodyOvertakesADestinationThatWaitsForRoom) {
  TestRank rank(Config(WorkerType::kDecode, 4));
  rank.any().Submit(MakeRequest(1, 0, 4, 6));
  rank.Pass();
  Reserve(rank, MakeRequest(2, 100, 12, 1));
  EXPECT_TRUE(command_.notices.empty());
  rank.any().Submit(MakeRequest(3, 200, 1, 1));

  for (int pass = 0; pass < 5; ++pass) {
    EXPECT_TRUE(rank.Pass().admissions.empty());
    command_.Clear();
    rank.any().RetryDestination(command_);
  }
  ExpectReserved(2, 12);  // the first one is over
  EXPECT_TRUE(Activate(rank, 2));
  EXPECT_EQ(rank.Pass().outputs.at(0).id, RequestId{2});
  EXPECT_EQ(rank.any().CheckConsistency(), "");
}

TEST_F(SglangHandoffTest, ActivatedDestinationsTakeSlotsBeforeNewRequests) {
  SchedulerConfig config = Config(WorkerType::kDecode);
  config.running_max = 1;
  TestRank rank(config);
  rank.any().Submit(MakeRequest(1, 0, 4, 2));
  rank.any().Submit(MakeRequest(2, 100, 4, 1));
  Reserve(rank, MakeRequest(3, 200, 4, 1));
  Activate(rank, 3);

  EXPECT_EQ(rank.Pass().outputs.at(0).id, RequestId{3});
  EXPECT_EQ(rank.Pass().outputs.at(0).id, RequestId{1});
  EXPECT_EQ(rank.Pass().outputs.at(0).id, RequestId{1});
  EXPECT_EQ(rank.Pass().outputs.at(0).id, RequestId{2});
}

TEST_F(SglangHandoffTest, WhatWasSetAsideBeyondThePromptIsFreeWhenItArrives) {
  TestRank rank(Config(WorkerType::kDecode, 3));
  Reserve(rank, MakeRequest(1, 0, 5, 2));
  ExpectReserved(1, 8);
  Reserve(rank, MakeRequest(2, 100, 8, 2));
  EXPECT_TRUE(command_.notices.empty());

  EXPECT_TRUE(Activate(rank, 1));
  EXPECT_TRUE(command_.notices.empty()) << "7 are free, it needs 8";
  EXPECT_TRUE(CancelDestination(rank, 2));
  Reserve(rank, MakeRequest(3, 100, 4, 2));
  ExpectReserved(3, 4);
  EXPECT_EQ(rank.any().CheckConsistency(), "");
}

TEST_F(SglangHandoffTest, M201_DestinationsAreReservedInOrderOneAtATimeWhenRoomHasCome) {
  TestRank rank(Config(WorkerType::kDecode, 4));
  Reserve(rank, MakeRequest(1, 0, 16, 2));
  Reserve(rank, MakeRequest(2, 100, 4, 1));
  Reserve(rank, MakeRequest(3, 200, 4, 1));
  EXPECT_TRUE(command_.notices.empty());

  EXPECT_TRUE(CancelDestination(rank, 1));
  ExpectReserved(2, 4);
  command_.Clear();
  rank.any().RetryDestination(command_);
  ExpectReserved(3, 4);
}

TEST_F(SglangHandoffTest, DestinationsAreReservedOnlyWhenNoPassRuns) {
  TestRank rank(Config(WorkerType::kDecode));
  Reserve(rank, MakeRequest(1, 0, 8, 1), /*in_pass=*/true);
  EXPECT_TRUE(command_.notices.empty());

  rank.any().RetryDestination(command_);
  ExpectReserved(1, 8);
}

TEST_F(SglangHandoffTest, CancelGivesBackAReservationInEveryState) {
  TestRank rank(Config(WorkerType::kDecode, 4));
  Reserve(rank, MakeRequest(1, 0, 10, 5));
  Reserve(rank, MakeRequest(2, 100, 10, 5));
  EXPECT_TRUE(CancelDestination(rank, 2)) << "without room";
  EXPECT_TRUE(CancelDestination(rank, 1)) << "with room";
  ExpectBlocks(rank, 0, 0);
  Reserve(rank, MakeRequest(3, 0, 10, 5));
  Activate(rank, 3);
  EXPECT_TRUE(CancelDestination(rank, 3)) << "prebuilt";
  ExpectBlocks(rank, 0, 2);
  Reserve(rank, MakeRequest(4, 0, 10, 5));
  ExpectReserved(4, 4);
  Activate(rank, 4);
  rank.Pass();
  EXPECT_TRUE(CancelDestination(rank, 4)) << "running";
  EXPECT_FALSE(CancelDestination(rank, 4));
  ExpectBlocks(rank, 0, 2);
  EXPECT_FALSE(rank.any().HasWork());
  EXPECT_EQ(rank.any().unadmitted(), 0U);
}

TEST_F(SglangHandoffTest, AFullyCachedPromptIsReservedWithoutTokens) {
  TestRank rank(Config(WorkerType::kDecode));
  rank.any().Submit(MakeRequest(1, 0, 8, 1));
  rank.Pass();
  Reserve(rank, MakeRequest(2, 0, 8, 1));
  ExpectReserved(2, 0);
  ExpectBlocks(rank, 2, 0);
  EXPECT_TRUE(CancelDestination(rank, 2));
  ExpectBlocks(rank, 0, 2);
}

TEST_F(SglangHandoffTest, PagesThatAppearedMeanwhileAreKeptOnce) {
  TestRank rank(Config(WorkerType::kDecode));
  Reserve(rank, MakeRequest(1, 0, 8, 1));
  rank.any().Submit(MakeRequest(2, 0, 8, 1));
  rank.Pass();

  EXPECT_TRUE(Activate(rank, 1));
  EXPECT_TRUE(command_.events.empty()) << "routers know these pages";
  rank.Pass();
  ExpectBlocks(rank, 0, 2);
}

TEST_F(SglangHandoffTest, WaitingForRoomIsNoDeadEnd) {
  TestRank rank(Config(WorkerType::kDecode, 2));
  Reserve(rank, MakeRequest(1, 0, 8, 1));
  rank.any().Submit(MakeRequest(2, 100, 4, 1));

  EXPECT_FALSE(rank.Pass().progressed);
  EXPECT_EQ(rank.load().requests_waiting, 2U);
  EXPECT_TRUE(CancelDestination(rank, 1));
  EXPECT_EQ(rank.Pass().outputs.at(0).id, RequestId{2});
}

TEST_F(SglangHandoffTest, M196_RefusesAPromptBeyondThePool) {
  TestRank rank(Config(WorkerType::kDecode, 4));
  const Status status = rank.any().ReserveDestination(MakeRequest(1, 0, 17, 1), false, command_);

  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Errc::kOverloaded);
  EXPECT_EQ(status.error().message, "destination prompt exceeds the KV pool capacity");
  EXPECT_FALSE(CancelDestination(rank, 1));
}

TEST_F(SglangHandoffTest, DestinationsCountAsQueuedDecodes) {
  SchedulerConfig config = Config(WorkerType::kDecode);
  config.collect_stats = true;
  config.running_max = 1;
  TestRank rank(config);
  rank.any().Submit(MakeRequest(1, 0, 4, 9));
  rank.Pass();
  Reserve(rank, MakeRequest(2, 100, 9, 1));
  Reserve(rank, MakeRequest(3, 200, 5, 1));
  Activate(rank, 3);

  const PassOutput& pass = rank.Pass();

  EXPECT_EQ(pass.stats.queued_decode.count, 2U);
  EXPECT_EQ(pass.stats.queued_decode.sum, 14U);
  EXPECT_EQ(pass.stats.queued_prefill.count, 0U);
  EXPECT_EQ(rank.load().requests_waiting, 2U);
}

}  // namespace
}  // namespace understudy::mocker
