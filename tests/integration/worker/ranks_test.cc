// Which rank serves a request, and what its id may be. Source: mission.md A.8, M-059 to M-063,
// M-079.
#include "tests/integration/worker/worker_test.h"

#include <map>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

class Ranks : public WorkerTest {
 protected:
  /// dp rank of each running request, as the state dump tells.
  static std::map<std::string, int> RankOfEach(const WorkerProcess& worker) {
    std::map<std::string, int> ranks;
    const auto dump = nlohmann::json::parse(worker.DumpState(), nullptr, false);
    for (const auto& stream : dump.value("streams", nlohmann::json::array())) {
      ranks[stream.value("request_id", "")] = stream.value("dp_rank", -1);
    }
    return ranks;
  }
};

TEST_F(Ranks, RequestsWithoutOneGoRoundFromZeroAndExplicitOnesDoNotCount) {
  const auto worker = Start(kCrawling + Arguments{"--data-parallel-size", "3"});
  const std::vector<std::optional<std::uint32_t>> asked = {
      std::nullopt, std::nullopt, 0, std::nullopt, 1, std::nullopt};
  std::vector<CallPtr> calls;
  for (const auto rank : asked) {
    auto spec = Spec(*worker, 5, kEndless);
    spec.request.dp_rank = rank;
    calls.push_back(frontend().Send(spec));
    ASSERT_EQ(calls.back()->WaitAck(), "");
  }
  const auto ranks = RankOfEach(*worker);
  std::vector<int> served;
  for (const auto& call : calls) {
    served.push_back(ranks.contains(call->id()) ? ranks.at(call->id()) : -1);
  }
  EXPECT_EQ(served, (std::vector<int>{0, 1, 0, 2, 1, 0}));
}

TEST_F(Ranks, OneOutOfRangeIsRefusedInBandAndTheWorkerGoesOn) {
  const auto worker = Start(kFree + Arguments{"--data-parallel-size", "3"});
  for (const auto codec : {PayloadCodec::kJson, PayloadCodec::kMsgpack}) {
    for (const std::uint32_t rank : {3U, 0xFFFF'FFFFU}) {
      auto spec = Spec(*worker, 5, 5, codec);
      spec.request.dp_rank = rank;
      const auto call = frontend().Send(spec);
      ASSERT_TRUE(call->WaitClosed());
      EXPECT_EQ(call->WhyNotRefusedInBand(), "");
      EXPECT_NE(
          call->error().find("dp_rank " + std::to_string(rank) + " is out of bounds for dp_size 3"),
          std::string::npos)
          << call->error();
    }
  }
  EXPECT_EQ(WhyNotServing(*worker), "");
}

TEST_F(Ranks, ABadRankIsReportedBeforeABadBudget) {
  const auto worker = Start(kFree);
  auto spec = Spec(*worker, 5, 0);
  spec.request.dp_rank = 9;
  const auto call = frontend().Send(spec);
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_NE(call->error().find("out of bounds"), std::string::npos) << call->error();
}

class Ids : public WorkerTest {};

TEST_F(Ids, ASecondRequestWithALiveIdIsRefusedAndTheFirstGoesOn) {
  const auto worker = Start();
  auto spec = Spec(*worker, 5, 60);
  spec.id = "5f0f6a52-0c5b-4f0e-9d4e-1f6f3f6a0001";
  const auto first = frontend().Send(spec);
  ASSERT_TRUE(first->WaitTokens(1));
  const auto second = frontend().Send(spec);
  ASSERT_TRUE(second->WaitClosed());
  EXPECT_EQ(second->WhyNotRefusedInBand(), "");
  EXPECT_NE(second->error().find("request " + spec.id + " is already active"), std::string::npos);
  ASSERT_TRUE(first->WaitClosed());
  EXPECT_EQ(first->WhyNotWhole(60), "");
  const auto third = frontend().Send(spec);
  ASSERT_TRUE(third->WaitClosed());
  EXPECT_EQ(third->WhyNotWhole(60), "") << "the id is free again";
}

TEST_F(Ids, ThatAreNoUuidsAreServed) {
  const auto worker = Start(kFree);
  for (const std::string id : {"1", "not a uuid", "\xc3\xa9t\xc3\xa9", "a\"b\\c\nd"}) {
    auto spec = Spec(*worker, 5, 5);
    spec.id = id;
    const auto call = frontend().Send(spec);
    ASSERT_TRUE(call->WaitClosed()) << id;
    EXPECT_EQ(call->WhyNotWhole(5), "");
  }
}

TEST_F(Ids, OfACancelledRequestMayBeUsedAgain) {
  const auto worker = Start();
  auto spec = Spec(*worker, 5, kEndless);
  spec.id = "again";
  const auto first = frontend().Send(spec);
  ASSERT_TRUE(first->WaitTokens(1));
  frontend().Control(*first, StreamControl::kKill);
  ASSERT_TRUE(first->WaitClosed());
  spec.request.max_tokens = 5;
  const auto second = frontend().Send(spec);
  ASSERT_TRUE(second->WaitClosed());
  EXPECT_EQ(second->WhyNotWhole(5), "");
}

}  // namespace
}  // namespace understudy::worker
