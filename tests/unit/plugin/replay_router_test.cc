// The in-process KV router: costs, ties, queue.
#include "plugin/mocker/kv_cache/block_hash.h"
#include "plugin/mocker/replay/kv_router.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

constexpr std::uint32_t kBlock = 4;

std::vector<std::uint32_t> Prompt(std::uint32_t first, std::size_t tokens) {
  std::vector<std::uint32_t> prompt(tokens);
  std::iota(prompt.begin(), prompt.end(), first);
  return prompt;
}

/// The event that a worker sends when it has cached all full blocks of `prompt`.
std::vector<engine::KvEvent> Stored(const std::vector<std::uint32_t>& prompt,
                                    engine::KvEvent::Kind kind = engine::KvEvent::Kind::kStored) {
  engine::KvEvent event;
  event.kind = kind;
  BlockHash parent{};
  for (std::size_t at = 0; at + kBlock <= prompt.size(); at += kBlock) {
    const TokensHash tokens =
        HashTokens(std::span<const std::uint32_t>(prompt).subspan(at, kBlock));
    parent = ChainHash(at == 0 ? nullptr : &parent, tokens);
    event.blocks.push_back({parent, tokens});
  }
  return {event};
}

KvRouter::Config Config(std::uint32_t workers, KvRouterOptions options = {}) {
  return {.options = options,
          .block_size = kBlock,
          .max_batched_tokens = 100,
          .workers = workers,
          .seed = 1};
}

/// Where the request goes at once; -1 if it waits.
int Route(KvRouter& router,
          std::uint64_t id,
          const std::vector<std::uint32_t>& prompt,
          double now_ms = 0.0,
          std::int32_t priority = 0,
          std::uint32_t strict = 0) {
  std::vector<RouterAdmission> admissions;
  router.OnArrival({RequestId{id}, prompt, priority, strict}, now_ms, admissions);
  return admissions.empty() ? -1 : static_cast<int>(admissions.front().worker);
}

std::vector<std::uint64_t> Complete(KvRouter& router, std::uint64_t id) {
  std::vector<RouterAdmission> admissions;
  router.OnCompleted(RequestId{id}, admissions);
  std::vector<std::uint64_t> ids;
  for (const RouterAdmission& admission : admissions) {
    ids.push_back(Value(admission.id));
  }
  return ids;
}

TEST(KvRouter, PrefersTheWorkerThatHasThePrefix) {
  KvRouter router(Config(3));
  const auto prompt = Prompt(1, 18);
  router.OnEvents(2, Stored(prompt));
  std::vector<RouterAdmission> admissions;

  router.OnArrival({RequestId{0}, prompt, 0, 0}, 0.0, admissions);

  ASSERT_EQ(admissions.size(), 1U);
  EXPECT_EQ(admissions[0].worker, 2U);
  EXPECT_EQ(admissions[0].overlap.blocks, 4U) << "full blocks only";
  EXPECT_EQ(router.prefill_tokens(2), 2U) << "what is not cached";
  EXPECT_EQ(router.active_blocks(2), 4U);
}

TEST(KvRouter, ForgetsBlocksThatWereRemoved) {
  KvRouter router(Config(2));
  const auto prompt = Prompt(1, 16);
  router.OnEvents(0, Stored(prompt));
  router.OnEvents(1, Stored(Prompt(1, 8)));
  router.OnEvents(0, Stored(prompt, engine::KvEvent::Kind::kRemoved));
  EXPECT_EQ(Route(router, 0, prompt), 1);
}

TEST(KvRouter, LoadOutweighsAShortPrefix) {
  KvRouter router(Config(2));
  router.OnEvents(0, Stored(Prompt(1, 4)));
  EXPECT_EQ(Route(router, 0, Prompt(1, 40)), 0);
  EXPECT_EQ(Route(router, 1, Prompt(1, 40)), 1) << "ten active blocks against one cached";
}

TEST(KvRouter, SharedActiveBlocksCountOnce) {
  KvRouter router(Config(1));
  Route(router, 0, Prompt(1, 16));
  Route(router, 1, Prompt(1, 16));
  EXPECT_EQ(router.active_blocks(0), 4U);
  Complete(router, 0);
  EXPECT_EQ(router.active_blocks(0), 4U);
  Complete(router, 1);
  EXPECT_EQ(router.active_blocks(0), 0U);
  EXPECT_EQ(router.prefill_tokens(0), 0U);
}

TEST(KvRouter, WithoutAssumedReuseEveryBlockCounts) {
  KvRouterOptions options;
  options.router_assume_kv_reuse = false;
  KvRouter router(Config(1, options));
  Route(router, 0, Prompt(1, 16));
  Route(router, 1, Prompt(1, 16));
  EXPECT_EQ(router.active_blocks(0), 8U);
  Complete(router, 1);
  EXPECT_EQ(router.active_blocks(0), 4U);
}

TEST(KvRouter, PromptTokensCountUntilTheFirstToken) {
  KvRouter router(Config(1));
  Route(router, 0, Prompt(1, 30));
  EXPECT_EQ(router.prefill_tokens(0), 30U);
  std::vector<RouterAdmission> admissions;
  router.OnPrefillCompleted(RequestId{0}, admissions);
  EXPECT_EQ(router.prefill_tokens(0), 0U);
  EXPECT_EQ(router.active_blocks(0), 7U);
}

TEST(KvRouter, TiesFallByLotAndTheLotFollowsTheSeed) {
  std::vector<int> hits(5);
  std::vector<int> order;
  std::vector<int> again;
  for (std::vector<int>* list : {&order, &again}) {
    KvRouter router(Config(5));
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const int worker = Route(router, 0, Prompt(1, 8));
      list->push_back(worker);
      Complete(router, 0);  // all are idle and equal again
    }
  }
  for (const int worker : order) {
    ++hits[static_cast<std::size_t>(worker)];
  }
  EXPECT_EQ(order, again);
  for (const int count : hits) {
    EXPECT_NEAR(count, 400, 100);
  }
}

TEST(KvRouter, ATemperatureSpreadsByCost) {
  KvRouterOptions options;
  options.router_temperature = 0.5;
  KvRouter router(Config(2, options));
  router.OnEvents(1, Stored(Prompt(1, 40)));
  int cheap = 0;
  for (int i = 0; i < 4000; ++i) {
    cheap += Route(router, 0, Prompt(1, 40));
    Complete(router, 0);
  }
  // Costs apart by the whole range: softmax of 0 and -1/0.5.
  EXPECT_NEAR(cheap / 4000.0, 1.0 / (1.0 + std::exp(-2.0)), 0.03);
}

KvRouterOptions Queueing(RouterQueuePolicy policy) {
  KvRouterOptions options;
  options.router_queue_threshold = 0.1;  // 10 of 100 tokens
  options.router_queue_policy = policy;
  return options;
}

TEST(KvRouter, RequestsWaitWhileAllWorkersAreBusy) {
  KvRouter router(Config(2, Queueing(RouterQueuePolicy::kFcfs)));
  EXPECT_GE(Route(router, 0, Prompt(100, 11)), 0);
  EXPECT_GE(Route(router, 1, Prompt(200, 11)), 0);
  EXPECT_EQ(Route(router, 2, Prompt(300, 4), 5.0), -1);
  EXPECT_EQ(Route(router, 3, Prompt(400, 4), 6.0), -1) << "nobody overtakes who waits";
  EXPECT_EQ(router.pending(), 2U);
  EXPECT_EQ(Complete(router, 0), (std::vector<std::uint64_t>{2, 3}));
}

TEST(KvRouter, ThresholdIsMoreThanNotAtLeast) {
  KvRouter router(Config(1, Queueing(RouterQueuePolicy::kFcfs)));
  EXPECT_EQ(Route(router, 0, Prompt(100, 10)), 0);
  EXPECT_EQ(Route(router, 1, Prompt(200, 10)), 0);
  EXPECT_EQ(Route(router, 2, Prompt(300, 10)), -1);
}

TEST(KvRouter, WithoutAThresholdNobodyWaits) {
  KvRouterOptions options;
  options.router_queue_threshold.reset();
  KvRouter router(Config(1, options));
  for (std::uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(Route(router, i, Prompt(1, 90)), 0);
  }
}

std::vector<std::uint64_t> OrderOf(RouterQueuePolicy policy) {
  KvRouter router(Config(1, Queueing(policy)));
  Route(router, 0, Prompt(1, 50));
  Route(router, 1, Prompt(100, 40), 1000.0);
  Route(router, 2, Prompt(200, 20), 2000.0);
  Route(router, 3, Prompt(300, 30), 3000.0);
  Route(router, 4, Prompt(400, 40), 4000.0, /*priority=*/2);
  Route(router, 5, Prompt(500, 40), 5000.0, /*priority=*/0, /*strict=*/1);
  std::vector<std::uint64_t> order;
  for (std::uint64_t over = 0;;) {
    const std::vector<std::uint64_t> next = Complete(router, over);
    if (next.empty()) {
      return order;
    }
    EXPECT_EQ(next.size(), 1U);
    over = next.front();
    order.push_back(over);
  }
}

TEST(KvRouter, FirstComeFirstServedCountsAPriorityAsSeconds) {
  EXPECT_EQ(OrderOf(RouterQueuePolicy::kFcfs), (std::vector<std::uint64_t>{5, 1, 2, 4, 3}));
}

TEST(KvRouter, LastComeFirstServed) {
  EXPECT_EQ(OrderOf(RouterQueuePolicy::kLcfs), (std::vector<std::uint64_t>{5, 4, 3, 2, 1}));
}

TEST(KvRouter, ShortestFirstWeighsWithThePriority) {
  EXPECT_EQ(OrderOf(RouterQueuePolicy::kWspt), (std::vector<std::uint64_t>{5, 4, 2, 3, 1}));
}

TEST(KvRouter, ACancelledRequestNoLongerWaits) {
  KvRouter router(Config(1, Queueing(RouterQueuePolicy::kFcfs)));
  Route(router, 0, Prompt(1, 50));
  Route(router, 1, Prompt(100, 8));
  Route(router, 2, Prompt(200, 8));
  EXPECT_TRUE(router.CancelPending(RequestId{1}));
  EXPECT_FALSE(router.CancelPending(RequestId{1}));
  EXPECT_EQ(Complete(router, 0), std::vector<std::uint64_t>{2});
}

TEST(BlockWorkers, DepthsAreRightForMoreWorkersThanBitsInAWord) {
  BlockWorkers index(150);
  const std::vector<std::uint64_t> blocks{11, 22, 33};
  for (std::uint32_t w = 0; w < 150; ++w) {
    for (std::uint32_t i = 0; i < w % 4; ++i) {
      index.Add(blocks[i], w);
    }
  }
  index.Remove(22, 67);  // had all three
  std::vector<std::uint32_t> depths;
  index.Depths(blocks, depths);
  ASSERT_EQ(depths.size(), 150U);
  for (std::uint32_t w = 0; w < 150; ++w) {
    EXPECT_EQ(depths[w], w == 67 ? 1U : w % 4) << w;
  }
}

TEST(BlockWorkers, HoldsNothingForBlocksThatNobodyHas) {
  BlockWorkers index(3);
  index.Add(7, 0);
  index.Add(7, 2);
  index.Remove(7, 0);
  EXPECT_EQ(index.blocks(), 1U);
  index.Remove(7, 2);
  index.Remove(7, 1);
  EXPECT_EQ(index.blocks(), 0U);
}

}  // namespace
}  // namespace understudy::mocker
