// What a simulated engine is made of: the engine arguments of dynamo-mocker 1.3.0 and ours.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace understudy::mocker {

/// The engine whose scheduler and cache are simulated.
enum class EngineType : std::uint8_t { kVllm, kSglang, kTrtllm };

/// The Dynamo release whose engine is simulated.
enum class SemanticsRelease : std::uint8_t { k13, k16 };

enum class PreemptionMode : std::uint8_t { kLifo, kFifo };

/// What a worker does with a request: everything, only the prompt (no decode time), or only the
/// decode (no prefill time).
enum class WorkerType : std::uint8_t { kAggregated, kPrefill, kDecode };

/// Which tokens a hand-off is charged for: the whole prompt, or what the destination did not have.
enum class TransferTiming : std::uint8_t { kFullPrompt, kDestinationMissing };

enum class SglangPolicy : std::uint8_t { kFifo, kLpm };

/// Only for EngineType::kSglang. Source: dynamo-mocker 1.3.0 SglangArgs (engine.md 1.1).
struct SglangOptions {
  SglangPolicy schedule_policy = SglangPolicy::kFifo;
  std::uint64_t max_prefill_tokens = 16384;
  std::uint64_t chunked_prefill_size = 8192;
  std::uint64_t clip_max_new_tokens = 4096;
  double schedule_conservativeness = 1.0;
};

/// Speculative decoding (multi-token prediction): draft i of a step is accepted with probability
/// accept_rates[i], up to the first that is not. Source: dynamo-mocker 1.3.0 aic_nextn
/// (engine.md 3.10).
struct SpeculativeOptions {
  std::vector<double> accept_rates;  ///< one per draft token, 1..5 of them, each in [0, 1]
  std::uint64_t seed = 42;           ///< of the first rank of the first worker

  /// Seed of a rank's draws: one more for each rank of a worker, and one more for each worker.
  [[nodiscard]] std::uint64_t SeedOf(std::uint32_t rank, std::uint32_t ranks_per_worker) const {
    return seed + rank / ranks_per_worker + rank % ranks_per_worker;
  }
};

/// Thinking spans: the first token of a response is `start_token`, and after a share of the output
/// budget comes `end_token` (engine.md 3.9).
struct ReasoningOptions {
  std::uint32_t start_token = 0;
  std::uint32_t end_token = 0;
  double thinking_ratio = 0.0;
};

/// A second place for the blocks of prompts, in the memory of the host; one for each rank, only for
/// vLLM of release 1.6. Source: aisimulate-core 0.13.0 native_host_offload (engine-1.6.md 7).
struct HostOffloadOptions {
  std::uint64_t num_host_blocks = 0;
  double d2h_bandwidth_gbps = 32.0;  ///< GB/s (1e9 bytes) from the device; 0 = unlimited
  double h2d_bandwidth_gbps = 32.0;  ///< and to it
  double latency_to_first_byte_ms = 0.0;
};

/// Bound of requests that a rank holds before their first admission.
inline constexpr std::uint32_t kWaitingRequestsMax = 65536;

/// Configuration of all ranks of one engine. Names and defaults: dynamo-mocker 1.3.0 MockEngineArgs
/// (vLLM style), and ours at the end. Every rank has its own blocks, queues, event ids and random
/// numbers.
struct MockerOptions {
  EngineType engine_type = EngineType::kVllm;
  SemanticsRelease semantics = SemanticsRelease::k13;
  /// Tokens of prompt and output together; longer prompts are rejected, outputs end there. None =
  /// no limit.
  std::optional<std::uint64_t> max_model_len{};
  std::uint32_t rank_count = 1;
  /// Data-parallel ranks of one worker: numbers k * ranks_per_worker and up. In 1.6 they share
  /// passes. 0 = all are one worker's; else it divides rank_count.
  std::uint32_t ranks_per_worker = 0;
  std::uint64_t num_gpu_blocks = 16384;  ///< per rank
  /// Tokens. Defaults per engine: vLLM 64, SGLang 1 (its page), TensorRT-LLM 32; at least 2 but for
  /// SGLang.
  std::uint32_t block_size = 64;
  /// Running requests of a rank; none = unlimited, 0 is refused.
  std::optional<std::uint32_t> max_num_seqs = 256;
  /// Token budget of a pass; none = unlimited, 0 is refused.
  std::optional<std::uint64_t> max_num_batched_tokens = 8192;
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
  /// vLLM of 1.6 with several ranks: a busy rank begins new prompts only in every so-maniest pass.
  std::uint32_t prefill_schedule_interval = 1;
  /// SGLang of 1.6: passes without prompts after each one with some.
  std::uint32_t prefill_decode_interval = 0;
  PreemptionMode preemption_mode = PreemptionMode::kLifo;
  WorkerType worker_type = WorkerType::kAggregated;
  /// Divides all times. 0 = no delay at all (in the reference, and with strict_reference: like 1).
  double speedup_ratio = 1.0;
  /// Multiplies speedup_ratio for decode.
  double decode_speedup_ratio = 1.0;
  SglangOptions sglang{};
  std::optional<SpeculativeOptions> speculative{};
  std::optional<ReasoningOptions> reasoning{};
  /// Planner profile: an .npz file or a folder with profiling results (engine.md 5.2, 5.3); empty =
  /// none.
  std::string planner_profile_data{};
  /// A table (.json, .npz) or a shared object (.so) that tells how long passes take; empty = none.
  /// Takes precedence over planner_profile_data.
  std::string latency_model{};
  /// Of a hand-off: none = no delay.
  std::optional<std::uint64_t> kv_bytes_per_token{};
  std::optional<double> kv_transfer_bandwidth{};  ///< GB/s (1e9 bytes)
  TransferTiming kv_transfer_timing = TransferTiming::kFullPrompt;
  /// None = no tier in the host's memory.
  std::optional<HostOffloadOptions> host_offload{};
  std::optional<std::uint64_t> kv_cache_bytes_per_token{};  ///< host_offload needs it
  /// Requests wait until it has passed since Start.
  std::chrono::duration<double> startup_time{0};

  /// Deliver OnKvEvents. Without prefix caching and on a decode worker there are none anyway.
  bool kv_events = true;
  /// Fill engine::KvEvent::tokens.
  bool kv_event_tokens = false;
  /// Fill engine::PassBatch::passes.
  bool pass_stats = false;
  /// Token ids of a run: the same seed and the same arrivals per rank give the same ids.
  std::uint64_t seed = 42;
  /// The reference's behaviour where ours differs on purpose: table in plugin/README.md.
  bool strict_reference = false;
  /// Per rank; beyond it Submit says kOverloaded.
  std::uint32_t waiting_requests_max = kWaitingRequestsMax;
  std::uint32_t thread_count = 0;  ///< 0 = min(cores, ranks)
};

}  // namespace understudy::mocker
