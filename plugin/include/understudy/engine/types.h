// What crosses the border between the worker and an engine.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/base/ids.h"
#include "understudy/base/storage_tier.h"
#include "understudy/engine/handoff_types.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace understudy::engine {

/// A request that passed the worker's admission. Token ids are the frontend's.
struct Request {
  RequestId id{};
  RankIndex rank{};
  std::vector<std::uint32_t> prompt;
  std::uint32_t output_tokens_max = 0;  ///< >= 1; the request ends after exactly this many tokens
  std::vector<std::uint32_t> planned_tokens;  ///< empty = the engine draws; else output_tokens_max
                                              ///< ids, emitted as they are
};

enum class OutputKind : std::uint8_t {
  kToken,      ///< one token, more follow
  kLastToken,  ///< one token, the request is complete and forgotten by the engine
  kDone,       ///< no token: none was asked for, and the prompt is computed; forgotten
  kRejected,   ///< no token: the request can never fit (Dynamo: "request rejected"); forgotten
  kFailed,     ///< no token: the engine gave up; PassBatch::failures holds the text; forgotten
};

/// One signal for one request. Outputs of a request arrive in order, over all batches.
struct Output {
  RequestId id{};
  std::uint32_t token = 0;
  OutputKind kind = OutputKind::kToken;
};

/// A request got its first (or, after a preemption, another) slot. `cached_tokens`: prompt tokens
/// found in the cache; `host_tokens`: those of them that were read back from host memory, absent
/// without a host tier.
struct Admission {
  RequestId id{};
  std::uint32_t cached_tokens = 0;
  std::optional<std::uint32_t> host_tokens{};
};

struct Failure {
  RequestId id{};
  std::string message;
};

/// Load of one rank after a pass or a command. Source: dynamo-mocker 1.3.0 MockerMetrics
/// (engine.md 6.2).
struct Load {
  RankIndex rank{};
  /// Used by requests; shared blocks count once, cached ones do not. SGLang: cached ones do, and it
  /// may exceed the total for a pass (engine.md 4.7).
  std::uint64_t blocks_active = 0;
  std::uint64_t blocks_total = 0;
  std::uint32_t requests_running = 0;
  std::uint32_t requests_waiting = 0;
  std::uint64_t preemptions_total = 0;
  std::uint64_t passes_total = 0;
  /// Of the latest pass, SGLang only: prompt tokens found in the cache, and those plus the computed
  /// ones.
  std::uint64_t cache_hit_tokens = 0;
  std::uint64_t cache_total_tokens = 0;
  /// Tokens whose request got its previous one in the pass before, and the sum of their modelled
  /// distances: what a client would measure between tokens if nothing came late.
  std::uint64_t token_gaps_total = 0;
  std::uint64_t token_gap_ns_total = 0;
  friend bool operator==(const Load&, const Load&) = default;
};

/// Population statistics of some lengths, in tokens.
struct LengthStats {
  std::uint64_t count = 0;
  std::uint64_t sum = 0;
  double variance = 0.0;
};

/// What one pass of a rank did. Source: dynamo-mocker 1.3.0 forward-pass snapshot (events.md 6).
struct ForwardPass {
  RankIndex rank{};
  Nanoseconds duration{0};  ///< modelled
  LengthStats prefill;      ///< full prompt lengths of requests with prompt tokens in the pass
  std::uint64_t prefill_tokens = 0;     ///< computed in the pass for them
  std::uint64_t prefill_kv_tokens = 0;  ///< of their prompts, what was there before
  LengthStats decode;                   ///< the others, by sequence length
  LengthStats queued_prefill;           ///< waiting after the pass, by prompt length
  LengthStats queued_decode;            ///< preempted, by sequence length
};

struct KvBlock {
  BlockHash block_hash{};
  TokensHash tokens_hash{};
};

/// A change of a rank's prefix cache, in the order in which it happened. `event_id` counts from 0
/// per rank, over all tiers. kCleared: all of it is gone; no blocks are named.
struct KvEvent {
  enum class Kind : std::uint8_t { kStored, kRemoved, kCleared };
  RankIndex rank{};
  std::uint64_t event_id = 0;
  Kind kind = Kind::kStored;
  StorageTier tier = StorageTier::kDevice;
  std::optional<BlockHash> parent;  ///< kStored: the block before the first one
  /// kStored on the host: place of the first block in its sequence.
  std::optional<std::uint64_t> start_position;
  std::vector<KvBlock> blocks;  ///< kRemoved: tokens_hash is not set
  /// kStored, when the engine was asked for them: the tokens of all `blocks`, in order. Else
  /// empty.
  std::vector<std::uint32_t> tokens;
};

/// What is in a rank now; a pass under way counts as over.
struct RankStatus {
  RankIndex rank{};
  std::uint32_t requests_running = 0;
  std::uint32_t requests_waiting = 0;
  std::uint64_t blocks_used = 0;  ///< by requests; shared ones count once
  std::uint64_t blocks_cached = 0;
  std::uint64_t blocks_total = 0;
  std::uint64_t handoffs = 0;  ///< requests of hand-offs
};

/// What to do with a rank's cache while requests use some of it.
enum class InUse : std::uint8_t {
  kKeep,    ///< what they use stays
  kRefuse,  ///< all stays, as in the real engines (vLLM: a block is in use; SGLang: a request is
            ///< there)
};
struct CacheCleared {
  RankIndex rank{};
  std::uint64_t blocks_cleared = 0;
  std::uint64_t blocks_in_use = 0;
  bool refused = false;
};

/// All that one engine thread has to say since its last batch: one or more passes of one or more
/// ranks.
struct PassBatch {
  std::vector<Admission> admissions;  ///< before any output of the same request
  std::vector<Output> outputs;
  std::vector<Failure> failures;
  std::vector<Load> loads;              ///< the latest value of each rank that changed
  std::vector<ForwardPass> passes;      ///< only when the engine was asked for them
  std::vector<HandoffSignal> handoffs;  ///< each between two outputs: outputs_before
  /// Destroyed with the batch: tells the engine that its outputs were dealt with. An engine that
  /// runs ahead of its reader pauses when too many outputs are under way. May be null.
  std::shared_ptr<const void> credit;
};

}  // namespace understudy::engine
