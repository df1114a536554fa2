// The promise between the worker and an engine compiled with it. (The C ABI for separate binaries
// adapts to this.)
#pragma once

#include "understudy/base/result.h"
#include "understudy/engine/handoff.h"
#include "understudy/engine/types.h"

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace understudy::engine {

/// Receives what an engine produces. Called on engine threads, one at a time per rank; must neither
/// block nor throw.
class EngineSink {
 public:
  virtual ~EngineSink() = default;
  /// At the start of a pass, before the tokens that caused the events. Never called when
  /// Traits::kv_events is false.
  virtual void OnKvEvents(std::vector<KvEvent> events) = 0;
  /// At the end of a pass (free running: of several passes).
  virtual void OnPassBatch(PassBatch batch) = 0;
};

/// What registration needs to know about an engine.
struct Traits {
  std::uint32_t rank_count = 1;
  std::uint64_t blocks_total = 0;  ///< per rank
  std::uint32_t block_size = 0;    ///< tokens
  bool kv_events = false;
};

class Engine {
 public:
  virtual ~Engine() = default;

  [[nodiscard]] virtual const Traits& traits() const = 0;

  /// Starts the engine's threads. `sink` must live until Stop returned. Once per engine.
  [[nodiscard]] virtual Status Start(EngineSink& sink) = 0;

  /// Any thread, does not block. kOverloaded: the rank holds as many requests as it may (the
  /// request is not taken); kMalformed: rank out of range, output_tokens_max 0, or planned_tokens
  /// of another length; kUnavailable: not running. After success every outcome comes through the
  /// sink.
  [[nodiscard]] virtual Status Submit(Request request) = 0;

  /// Like Submit, for bursts: the engine may sleep until Wake, which must follow. Default: Submit.
  [[nodiscard]] virtual Status SubmitQuietly(Request request) { return Submit(std::move(request)); }
  /// Any thread: starts what SubmitQuietly left.
  virtual void Wake() {}

  /// Any thread, does not block, idempotent; an unknown id is fine. The request's blocks are free
  /// before the rank's next pass begins. Outputs that were under way may still arrive.
  virtual void Cancel(RequestId id, RankIndex rank) = 0;

  /// Both ends of hand-offs, for engines that have them; null: none. At most once, before Start.
  /// `post` outlives the engine. Lives as long as the engine, which is destroyed on the thread that
  /// `post` reaches; Stop ends the hand-offs first.
  [[nodiscard]] virtual Handoffs* OpenHandoffs(Post /*post*/) { return nullptr; }

  /// Any thread, does not block. `done` comes once, on any thread, from inside or later: the ranks
  /// `first` .. `first + count - 1`, ordered, without those that the engine does not have or that
  /// have stopped. Default: none.
  virtual void ReadRanks(RankIndex /*first*/,
                         std::uint32_t /*count*/,
                         std::function<void(std::vector<RankStatus>)> done) {
    done({});
  }
  /// As ReadRanks. Forgets the cached blocks that no request uses; a rank whose pass is under way
  /// does it at the end of the pass. The events are handed over before `done`. Default: none.
  virtual void ClearCache(RankIndex /*first*/,
                          std::uint32_t /*count*/,
                          InUse /*in_use*/,
                          std::function<void(std::vector<CacheCleared>)> done) {
    done({});
  }

  /// A snapshot for people, as JSON text (ranks, queues, blocks). Any thread, may wait for a pass
  /// to end (bounded by 1 s).
  [[nodiscard]] virtual std::string DumpState() = 0;

  /// Ends the threads; no sink call after it returns. Idempotent. Requests still in the engine end
  /// without an output.
  virtual void Stop() = 0;
};

}  // namespace understudy::engine
