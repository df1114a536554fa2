// In which order waiting requests are admitted.
#pragma once

#include "plugin/mocker/sglang/radix_cache.h"
#include "plugin/mocker/sglang/request_queue.h"
#include "understudy/mocker/mocker_options.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace understudy::mocker {

/// One object per rank: it may keep buffers between passes.
class QueuePolicy {
 public:
  virtual ~QueuePolicy() = default;

  /// Before admission: may reorder `waiting`, and may make pages of its requests; nothing else.
  virtual void Order(RequestQueue& waiting,
                     RequestQueue::Requests& requests,
                     const RadixCache& cache) = 0;
};

/// `page_size` in tokens. Source: dynamo-mocker 1.3.0 scheduler/sglang/policy.rs (engine.md 4.3).
[[nodiscard]] std::unique_ptr<QueuePolicy> NewQueuePolicy(SglangPolicy kind,
                                                          std::uint32_t page_size);

}  // namespace understudy::mocker
