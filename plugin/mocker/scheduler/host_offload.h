// What a rank keeps about the host tier.
#pragma once

#include "plugin/mocker/kv_cache/host_tier.h"
#include "plugin/mocker/scheduler/waiting_queue.h"
#include "understudy/base/clock.h"

#include <cstdint>
#include <vector>

namespace understudy::mocker {

/// One request's part in it.
struct HostRequest {
  std::uint64_t stored = 0;        ///< leading prompt blocks that need no storing any more
  HostTier::TransferId store = 0;  ///< the latest one
  HostTier::TransferId load = 0;   ///< under way
  std::uint64_t base = 0;          ///< blocks before the loaded ones
  std::uint64_t loaded = 0;        ///< it holds so many leading blocks for the load; 0 = none
  std::uint64_t tail = 0;          ///< and will need so many more
  bool aside = false;              ///< in HostOffload::aside
  bool asleep = false;             ///< until a transfer is over
};

/// Requests that wait for a transfer stand aside and let others pass; woken, they come first.
struct HostOffload {
  explicit HostOffload(const HostTier::Options& options) : tier(options) {}

  HostTier tier;
  std::vector<HostRequest> requests;  ///< by index of the request table
  WaitingQueue aside;
  std::uint32_t awake = 0;      ///< of those aside
  Nanoseconds compute_from{0};  ///< no pass computes before: blocks it uses are still being read
};

}  // namespace understudy::mocker
