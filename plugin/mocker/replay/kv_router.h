// The router in front of simulated workers: sends a request where its prefix and the load make it
// cheapest.
#pragma once

#include "plugin/mocker/replay/block_workers.h"
#include "plugin/mocker/replay/flat_map.h"
#include "understudy/base/ids.h"
#include "understudy/engine/types.h"
#include "understudy/mocker/replay.h"

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace understudy::mocker {

struct RouterRequest {
  RequestId id{};  ///< a small number: the router keeps a table
  std::span<const std::uint32_t> prompt;
  std::int32_t priority = 0;  ///< seconds by which it may overtake; below 0 is 0
  std::uint32_t strict_priority = 0;
};

struct RouterAdmission {
  RequestId id{};
  std::uint32_t worker = 0;
  OverlapChoice overlap{};
};

/// The cost of a worker is, in blocks: the prompt tokens it has yet to compute, with this request's
/// ones less the credit for cached blocks, and the blocks of active requests with this one's new
/// ones. The cheapest worker wins, one of several by lot (seeded); with a temperature workers are
/// drawn by softmax. While all workers are above the queue threshold requests wait here. Source:
/// dynamo-kv-router 1.3.0 scheduling/selector.rs, dynamo-mocker 1.3.0
/// replay/offline/components/router.rs; golden replay_*_kv_*.json. Not thread safe.
class KvRouter {
 public:
  struct Config {
    KvRouterOptions options;
    std::uint32_t block_size = 1;
    std::uint64_t max_batched_tokens = 0;  ///< of a worker; 0 = unlimited
    std::uint32_t workers = 1;
    std::uint64_t seed = 0;
  };

  explicit KvRouter(const Config& config);

  /// Appends to `admissions` where the request goes, unless it waits.
  void OnArrival(const RouterRequest& request,
                 double now_ms,
                 std::vector<RouterAdmission>& admissions);
  /// What a worker's cache holds from now on.
  void OnEvents(std::uint32_t worker, const std::vector<engine::KvEvent>& events);
  /// The request has its first token; appends requests that waited.
  void OnPrefillCompleted(RequestId id, std::vector<RouterAdmission>& admissions);
  /// The request is over; as above.
  void OnCompleted(RequestId id, std::vector<RouterAdmission>& admissions);
  /// Forgets a request that waits. False: it does not.
  bool CancelPending(RequestId id);

  [[nodiscard]] std::size_t pending() const { return pending_.size(); }
  /// For tests: load of a worker.
  [[nodiscard]] std::uint64_t prefill_tokens(std::uint32_t worker) const {
    return loads_[worker].prefill_tokens;
  }
  [[nodiscard]] std::uint64_t active_blocks(std::uint32_t worker) const {
    return loads_[worker].blocks;
  }

 private:
  /// What is known about a request when it arrives.
  struct Query {
    RequestId id{};
    std::uint32_t prompt_tokens = 0;
    std::vector<std::uint64_t> blocks;    ///< names of its full blocks
    std::vector<std::uint32_t> overlaps;  ///< cached leading blocks, one a worker
  };
  struct Pending {
    std::uint32_t strict_priority = 0;
    double score = 0.0;
    std::uint64_t number = 0;
    Query query;
  };
  /// What an admitted request counts for until it is over.
  struct Booking {
    std::uint32_t worker = 0;
    std::uint32_t prefill_tokens = 0;
    std::uint64_t own_blocks = 0;       ///< not named: reuse is not assumed
    std::vector<std::uint64_t> blocks;  ///< named
    bool used = false;
  };
  struct Load {
    std::uint64_t prefill_tokens = 0;
    std::uint64_t blocks = 0;  ///< named ones count once
    FlatMap<std::uint32_t> uses;
  };

  static bool Behind(const Pending& a, const Pending& b);
  void NameBlocks(std::span<const std::uint32_t> prompt);
  [[nodiscard]] bool AllBusy() const;
  [[nodiscard]] double Score(const RouterRequest& request, double now_ms) const;
  RouterAdmission Admit(Query& query);
  [[nodiscard]] std::uint32_t Select(const Query& query);
  [[nodiscard]] double CostOf(const Query& query, std::uint32_t worker, double floor_tokens) const;
  [[nodiscard]] std::uint32_t DrawCheapest();
  [[nodiscard]] std::uint32_t DrawSoftmax();
  void Book(Query& query, std::uint32_t worker);
  void DropPrefill(RequestId id);
  void Drain(std::vector<RouterAdmission>& admissions);
  [[nodiscard]] double Uniform() { return static_cast<double>(random_() >> 11U) * 0x1p-53; }

  const Config config_;
  BlockWorkers cached_;
  BlockWorkers active_;
  std::vector<Load> loads_;
  std::vector<Booking> bookings_;  ///< by request
  std::vector<Pending> pending_;   ///< a heap
  std::uint64_t arrivals_ = 0;
  std::mt19937_64 random_;

  // Of the selection under way.
  Query query_;
  std::vector<std::uint32_t> active_depths_;
  std::vector<double> costs_;
};

}  // namespace understudy::mocker
