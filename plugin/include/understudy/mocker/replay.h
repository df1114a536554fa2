// Offline replay: a workload against simulated workers in virtual time, as fast as the machine
// computes it.
#pragma once

#include "understudy/base/result.h"
#include "understudy/mocker/mocker_options.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace understudy::mocker {

/// Names a later turn of a session to the source that gave it out.
using TurnToken = std::uint64_t;
inline constexpr TurnToken kNoTurn = ~TurnToken{0};

/// One request of a workload. A prompt is `input_length` tokens: every hash id stands for a block
/// of the source's block_size() tokens, all of value id mod 2^32, so that equal ids are an equal
/// prefix. Source: dynamo-mocker 1.3.0 loadgen (engine.md 9).
struct ReplayRow {
  std::string request_id;  ///< empty = a UUID made of the seed and the number of the request
  /// Empty = none. With sessions in the workload every row has one, its own if it names none.
  std::string session_id;
  /// Of its session, in the order of the workload: decides between sessions that are ready at the
  /// same time.
  std::uint64_t ordinal = 0;
  std::uint32_t turn = 0;           ///< within the session, from 0
  double timestamp_ms = 0.0;        ///< first turns: since the earliest one of the workload
  std::uint32_t input_length = 0;   ///< >= 1, at most hash_ids.size() * block_size()
  std::uint32_t output_length = 0;  ///< >= 1
  std::vector<std::uint64_t> hash_ids;
  std::vector<std::uint32_t> output_token_ids;  ///< empty, or output_length planned tokens
  std::int32_t priority = 0;
  std::uint32_t strict_priority = 0;
  TurnToken next = kNoTurn;    ///< the turn after this one
  double next_delay_ms = 0.0;  ///< from the end of this turn to the arrival of that one
};

/// In which order first turns come: by time (equal times in the order of the workload), or as the
/// workload lists them (closed loop, times are not used).
enum class ReplayOrder : std::uint8_t { kByTime, kAsListed };

/// Where requests come from. Holds as little of the workload as its order allows; rows are read
/// when they are due. One reader, one thread.
class ReplaySource {
 public:
  virtual ~ReplaySource() = default;

  /// Before the first row, once: checks what can be checked without running. Errors: the first bad
  /// row (file, line, field, value), or a workload without rows.
  [[nodiscard]] virtual Status Open(ReplayOrder order) = 0;

  /// Fills `row` (its buffers are reused) with the next first turn. False: there is none. Errors:
  /// the input changed or cannot be read any more.
  [[nodiscard]] virtual Result<bool> Next(ReplayRow& row) = 0;

  /// Fills `row` with the turn that an earlier row named as `next`, but for `ordinal` and `turn`,
  /// which follow from that row.
  [[nodiscard]] virtual Status ReadTurn(TurnToken token, ReplayRow& row) = 0;

  /// Tokens that a hash id stands for.
  [[nodiscard]] virtual std::uint32_t block_size() const = 0;
  /// Some session has a second turn. After Open.
  [[nodiscard]] virtual bool has_sessions() const = 0;
  /// Rows of the workload, all turns. After Open.
  [[nodiscard]] virtual std::uint64_t rows_total() const = 0;
  /// Rows, or places of rows, held in memory now: what "bounded" means in tests.
  [[nodiscard]] virtual std::uint64_t rows_held() const = 0;
};

/// Bounds of one trace line.
inline constexpr std::uint64_t kTraceLineBytesMax = 16ULL << 20;
inline constexpr std::uint32_t kReplayTokensMax = 1U << 24;  ///< of a prompt, and of an output
inline constexpr double kReplayTimeMaxMs = 1e12;             ///< of a timestamp or delay: 31 years
inline constexpr std::uint32_t kTraceBlockSizeDefault = 512;

/// A Mooncake trace: a JSON object a line. Nothing is opened before Open. A file whose first turns
/// are in order of time costs no memory for rows without a session; other rows cost 24 bytes each.
/// Source: dynamo-mocker 1.3.0 (engine.md 9).
[[nodiscard]] std::unique_ptr<ReplaySource> NewMooncakeReader(
    std::string path, std::uint32_t trace_block_size = kTraceBlockSizeDefault);

/// A workload made of numbers.
struct SyntheticOptions {
  std::uint64_t request_count = 1;  ///< with turns_per_session > 1: sessions
  std::uint32_t input_tokens = 512;
  std::uint32_t output_tokens = 64;
  double arrival_interval_ms = 1.0;
  /// Exponentially distributed distances of this mean instead of equal ones; 1.6 draws the same.
  bool poisson_arrivals = false;
  std::uint32_t turns_per_session = 1;
  double inter_turn_delay_ms = 0.0;
  /// Share of the leading blocks that come from a group's prefix, [0, 1].
  double shared_prefix_ratio = 0.0;
  std::uint64_t num_prefix_groups = 0;
  /// Sessions of one turn have names as well, as in the reference's release 1.6 when prompts share
  /// prefixes.
  bool names_sessions = false;
  /// All groups have the same tokens, as in the reference, which keeps 32 bits of the ids in which
  /// it distinguishes them.
  bool merge_prefix_groups = false;
  std::uint32_t block_size = 64;  ///< of the engine; a prefix is whole blocks
  std::uint64_t seed = 42;
};
[[nodiscard]] std::unique_ptr<ReplaySource> NewSyntheticSource(const SyntheticOptions& options);

enum class ReplayRouterMode : std::uint8_t { kRoundRobin, kKv };
/// Order of requests that wait in the router because every worker is busy.
enum class RouterQueuePolicy : std::uint8_t { kFcfs, kLcfs, kWspt };

/// Of ReplayRouterMode::kKv. Names and defaults: dynamo-kv-router 1.3.0 KvRouterConfig.
struct KvRouterOptions {
  double overlap_score_credit = 1.0;        ///< [0, 1]
  double overlap_score_credit_decay = 0.0;  ///< >= 0
  double prefill_load_scale = 1.0;          ///< >= 0
  double router_temperature = 0.0;          ///< >= 0; 0 = the cheapest worker
  bool router_track_active_blocks = true;
  bool router_assume_kv_reuse = true;
  bool router_track_prefill_tokens = true;
  /// Requests wait in the router when all workers have more prefill tokens than this share of
  /// max_num_batched_tokens; none = never.
  std::optional<double> router_queue_threshold = 16.0;
  RouterQueuePolicy router_queue_policy = RouterQueuePolicy::kFcfs;
};

/// What makes a completed request count as goodput; none of them set = no goodput in the report.
struct ReplaySla {
  std::optional<double> ttft_ms;
  std::optional<double> itl_ms;  ///< mean of the request
  std::optional<double> e2e_ms;
  [[nodiscard]] bool is_set() const { return ttft_ms || itl_ms || e2e_ms; }
};

/// Either `engine`, or both of `prefill_engine` and `decode_engine` (disaggregated); none of them =
/// an aggregated engine with the defaults. Their `semantics` are one release, whose report a run
/// gives. rank_count is the ranks of a worker: 1 in 1.3; in 1.6 they share passes.
struct ReplayOptions {
  std::optional<MockerOptions> engine;
  std::optional<MockerOptions> prefill_engine;
  std::optional<MockerOptions> decode_engine;
  std::uint32_t num_workers = 1;
  std::uint32_t num_prefill_workers = 1;
  std::uint32_t num_decode_workers = 1;
  std::uint32_t gpus_per_worker = 1;  ///< aggregated or decode
  std::uint32_t gpus_per_prefill_worker = 1;
  ReplayRouterMode router_mode = ReplayRouterMode::kRoundRobin;
  KvRouterOptions router{};
  /// Closed loop: so many requests (with sessions: sessions) at once, times of arrival ignored.
  std::optional<std::uint32_t> replay_concurrency;
  double arrival_speedup_ratio = 1.0;  ///< divides timestamps and delays; not in a closed loop
  ReplaySla sla{};
  std::optional<double> max_sim_time_ms;  ///< no pass starts after it; what is under way is left
  std::uint64_t seed = 42;
};

enum class ReplayStatus : std::uint8_t { kCompleted, kRejected, kCanceled, kFailed };

enum class ReplayStage : std::uint8_t { kAggregated, kPrefill, kDecode };

/// Leading blocks of a prompt that are cached where it goes, and most of any worker.
struct OverlapChoice {
  std::uint32_t blocks = 0;
  std::uint32_t best_blocks = 0;

  /// Of a prompt, in what is cached where it goes.
  [[nodiscard]] std::uint32_t Tokens(std::uint32_t block_size, std::size_t prompt_tokens) const {
    return static_cast<std::uint32_t>(std::min(std::size_t{blocks} * block_size, prompt_tokens));
  }
};

/// A worker got the request.
struct ReplayRouting {
  ReplayStage stage = ReplayStage::kAggregated;
  /// When it began to wait in the router; none = a worker got it at once.
  std::optional<double> queued_ms{};
  double routed_ms = 0.0;
  std::uint32_t worker = 0;
  std::uint32_t rank = 0;       ///< within the worker
  std::uint32_t scheduler = 0;  ///< the rank, numbered through all workers
  std::uint32_t overlap_tokens = 0;
  std::optional<OverlapChoice> choice{};  ///< of a router that looks at caches
};

/// A scheduler took the request up, again after each preemption.
struct ReplayAdmission {
  ReplayStage stage = ReplayStage::kAggregated;
  double at_ms = 0.0;
  std::uint32_t reused_tokens = 0;
  std::optional<std::uint32_t> host_tokens{};  ///< of these, from host memory; only with a tier
};

/// What release 1.6 tells of a request beyond what 1.3 does.
struct ReplayHistory {
  std::uint32_t requested_output_length = 0;
  std::optional<double> terminal_time_ms;
  std::vector<ReplayRouting> routings;
  std::vector<ReplayAdmission> admissions;
};

/// What became of one request. Times are ms since the start; an absent one did not happen. Source:
/// dynamo-mocker 1.3.0 per-request JSONL. References are valid during the call.
struct ReplayRecord {
  std::string session_id;             ///< empty = none
  std::optional<std::uint32_t> turn;  ///< only with a session
  std::string uuid;
  double arrival_time_ms = 0.0;
  std::optional<double> first_admit_ms;
  std::optional<double> first_token_ms;
  std::optional<double> last_token_ms;
  std::optional<double> ttft_ms;
  std::optional<double> ttst_ms;
  std::optional<double> e2e_latency_ms;
  std::optional<double> itl_ms;  ///< mean of its gaps
  std::uint32_t input_length = 0;
  std::uint32_t output_length = 0;        ///< 1.3: as asked for; 1.6: as it came
  std::uint32_t reused_input_tokens = 0;  ///< most of its admissions
  std::optional<std::uint32_t> prefill_worker_idx;
  std::optional<std::uint32_t> decode_worker_idx;
  // Disaggregated only.
  std::optional<double> prefill_admit_ms;
  std::optional<double> source_held_ms;
  std::optional<double> destination_reserved_ms;
  std::optional<double> destination_activated_ms;
  std::optional<double> decode_admit_ms;
  std::optional<double> source_released_ms;
  std::optional<std::uint32_t> decode_reused_input_tokens;
  std::optional<std::uint32_t> prefill_route_overlap_tokens;
  std::optional<std::uint32_t> decode_route_overlap_tokens;
  ReplayStatus status = ReplayStatus::kCompleted;
  std::optional<ReplayHistory> history;  ///< 1.6
};

/// Percentiles are the value at index round((n - 1) * p / 100) of the sorted samples; std is the
/// population's. All 0 without a sample.
struct Distribution {
  std::uint64_t count = 0;
  double mean = 0.0;
  double min = 0.0;
  double max = 0.0;
  double median = 0.0;
  double p75 = 0.0;
  double p90 = 0.0;
  double p95 = 0.0;
  double p99 = 0.0;
  double std = 0.0;
  /// Greatest relative error of all but min and max; 0 = exact (kExactSamplesMax).
  double relative_error = 0.0;
};

/// Distinct values of a distribution that are counted exactly, in whole nanoseconds (16 bytes each,
/// so 256 MiB at the bound; gaps between tokens repeat, a run of 64M tokens has a few million).
/// Beyond them it comes from a histogram with a relative error of at most kSketchError.
inline constexpr std::uint64_t kExactSamplesMax = 1ULL << 24;
inline constexpr double kSketchError = 0.001;

struct Goodput {
  std::uint64_t completed_requests = 0;
  double request_throughput_rps = 0.0;
  double output_throughput_tok_s = 0.0;
};

inline constexpr std::uint32_t kReplayBucketsMax = 1000;
/// Greatest relative error of a bucket's percentiles.
inline constexpr double kBucketError = 0.02;

/// One span of simulated time, for plots. Times are ms; percentiles absent without a sample.
struct ReplayBucket {
  double start_ms = 0.0;
  std::optional<double> ttft_p50_ms;  ///< of requests whose first token came in the bucket
  std::optional<double> ttft_p99_ms;
  std::optional<double> itl_p50_ms;
  std::optional<double> itl_p99_ms;
  double waiting_mean = 0.0;  ///< requests waiting in engines and router, over time
  double running_mean = 0.0;
  std::uint64_t waiting_max = 0;          ///< greatest of one worker, or of the router
  std::optional<double> cache_hit_ratio;  ///< cached part of the prompts admitted in the bucket
  double blocks_used_ratio = 0.0;         ///< mean over all workers' passes
  double arrivals_rps = 0.0;
  double completed_rps = 0.0;
  double output_tok_s = 0.0;
  double input_tok_s = 0.0;  ///< prompts admitted
};

/// Equal spans from 0 on; their length is a power of two times 1 ms and grows with the run.
struct ReplaySeries {
  double bucket_ms = 0.0;
  std::vector<ReplayBucket> buckets;  ///< at most kReplayBucketsMax
};

/// Why a run ended.
enum class ReplayEnd : std::uint8_t { kWorkloadDone, kSimTimeReached, kStopped };

/// Names: engine.md 9, "Report keys".
struct ReplayReport {
  SemanticsRelease release = SemanticsRelease::k13;  ///< whose keys and definitions these are
  std::uint64_t num_requests = 0;                    ///< arrived
  std::uint64_t completed_requests = 0;              ///< got at least one token
  std::uint64_t rejected_requests = 0;               ///< ours
  std::uint64_t failed_requests = 0;                 ///< ours
  std::uint64_t total_input_tokens = 0;
  std::uint64_t total_output_tokens = 0;
  double duration_ms = 0.0;
  double wall_time_ms = 0.0;
  double request_throughput_rps = 0.0;
  double input_throughput_tok_s = 0.0;
  double output_throughput_tok_s = 0.0;
  double total_throughput_tok_s = 0.0;
  double prefill_worker_seconds = 0.0;
  double decode_worker_seconds = 0.0;
  std::uint32_t prefill_gpus_per_worker = 0;
  std::uint32_t decode_gpus_per_worker = 0;
  double gpu_hours = 0.0;
  std::optional<Goodput> goodput;
  std::uint64_t committed_prefill_tokens = 0;  ///< 1.6: computed, again after a preemption
  std::uint64_t processed_tokens = 0;
  double processed_tokens_per_s = 0.0;         ///< of wall time
  double processed_output_tokens_per_s = 0.0;  ///< of wall time
  double prefix_cache_reused_ratio = 0.0;
  double first_admission_prefix_cache_reused_ratio = 0.0;
  Distribution ttft;  ///< ms, like the next four
  Distribution ttst;
  Distribution tpot;
  Distribution itl;  ///< its max is also max_itl_ms
  Distribution e2e_latency;
  Distribution output_token_throughput_per_user;  ///< tokens/s
  std::uint64_t preemptions = 0;                  ///< ours, like the rest
  std::uint64_t passes = 0;
  ReplayEnd end = ReplayEnd::kWorkloadDone;
  ReplaySeries series;
};

struct ReplayProgress {
  std::uint64_t rows_done = 0;  ///< requests that are over
  std::uint64_t rows_total = 0;
  double simulated_ms = 0.0;
};

/// What a caller sees of a run while it goes on. Both may be empty; called on the caller's thread.
struct ReplayObserver {
  /// Every `progress_rows` finished requests and every few thousand passes. False = stop.
  std::function<bool(const ReplayProgress&)> on_progress;
  std::uint64_t progress_rows = 1000;
  /// As soon as a request is over, so in order of their ends. Requests that are still under way
  /// when a run is cut short have none.
  std::function<void(const ReplayRecord&)> on_record;
};

/// Runs the workload to its end. Deterministic: equal options and an equal workload give an equal
/// report but for wall time. Blocks; no thread is started. Errors: kInvalidConfig (one line, the
/// reference's text where it has one), the source's, and kInternal when the simulation cannot go
/// on ("offline replay reached a dead end with N in-flight requests remaining"; 1.6: its text about
/// an effect-free pass).
[[nodiscard]] Result<ReplayReport> RunReplay(const ReplayOptions& options,
                                             ReplaySource& source,
                                             const ReplayObserver& observer = {});

/// The checks of RunReplay that need no workload.
[[nodiscard]] Status ValidateReplay(const ReplayOptions& options);

}  // namespace understudy::mocker
