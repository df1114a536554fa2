#include "understudy/mocker/engine_args.h"

#include "plugin/mocker/config/accept_rates.h"
#include "plugin/mocker/config/engine_args_warnings.h"
#include "plugin/mocker/config/options.h"
#include "plugin/mocker/config/ranges.h"
#include "plugin/mocker/config/value_text.h"
#include "understudy/mocker/replay.h"

#include <algorithm>
#include <cctype>
#include <limits>

namespace understudy::mocker {

namespace {

constexpr std::uint64_t kU32Max = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kU16Max = std::numeric_limits<std::uint16_t>::max();
constexpr std::uint64_t kHandoffTimeoutMaxMs = 1'000'000'000'000;  // 31 years
constexpr std::uint64_t kParallelSizeMax = 1U << 20U;

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return text;
}

/// A name and what it stands for.
template <class E>
using Names = std::initializer_list<std::pair<std::string_view, E>>;

template <class E>
Status ReadName(const Argument<std::string>& argument,
                Names<E> names,
                const std::string& before,
                const std::string& after,
                E& out) {
  if (!argument.value) {
    return {};
  }
  const std::string given = Lower(*argument.value);
  for (const auto& [name, meaning] : names) {
    if (name == given) {
      out = meaning;
      return {};
    }
  }
  return Fail(Errc::kInvalidConfig, before + *argument.value + after);
}

/// Makes EngineArgs from arguments, in the reference's order: names and nulls, defaults, ranges,
/// combinations, acceptance rates.
class Validator {
 public:
  explicit Validator(const EngineArguments& arguments) : in_(arguments) {}

  Result<EngineArgs> Run() {
    UNDERSTUDY_TRY_STATUS(FirstNamesAndNulls());
    UNDERSTUDY_TRY_STATUS(SetWorkerType());
    UNDERSTUDY_TRY_STATUS(LastNamesAndNulls());
    UNDERSTUDY_TRY_STATUS(CheckSizes());
    SetSchedulerOptions();
    SetSglangOptions();
    SetTransferOptions();
    UNDERSTUDY_TRY_STATUS(CheckNumbers());
    UNDERSTUDY_TRY_STATUS(CheckTogether());
    UNDERSTUDY_TRY_STATUS(SetAcceptRates());
    SetWorkerSide();
    out_.warnings = EngineArgsWarnings(in_, out_.engine.engine_type);
    return std::move(out_);
  }

 private:
  template <class T>
  static Status NotNull(const char* field, const Argument<T>& argument) {
    if (argument.is_null()) {
      return Fail(Errc::kInvalidConfig, std::string(field) + " must not be null");
    }
    return {};
  }

  Status FirstNamesAndNulls() {
    UNDERSTUDY_TRY_STATUS(NotNull("engine_type", in_.engine_type));
    UNDERSTUDY_TRY_STATUS(ReadName<EngineType>(in_.engine_type,
                                               {{"vllm", EngineType::kVllm},
                                                {"sglang", EngineType::kSglang},
                                                {"trtllm", EngineType::kTrtllm}},
                                               "Invalid engine_type '",
                                               "'. Must be 'vllm', 'sglang', or 'trtllm'.",
                                               out_.engine.engine_type));
    UNDERSTUDY_TRY_STATUS(NotNull("block_size", in_.block_size));
    UNDERSTUDY_TRY_STATUS(NotNull("enable_prefix_caching", in_.enable_prefix_caching));
    UNDERSTUDY_TRY_STATUS(NotNull("enable_chunked_prefill", in_.enable_chunked_prefill));
    UNDERSTUDY_TRY_STATUS(NotNull("speedup_ratio", in_.speedup_ratio));
    UNDERSTUDY_TRY_STATUS(NotNull("decode_speedup_ratio", in_.decode_speedup_ratio));
    UNDERSTUDY_TRY_STATUS(NotNull("dp_size", in_.dp_size));
    return NotNull("worker_type", in_.worker_type);
  }

  Status SetWorkerType() {
    WorkerType& type = out_.engine.worker_type;
    if (in_.worker_type.given) {
      return ReadName<WorkerType>(in_.worker_type,
                                  {{"aggregated", WorkerType::kAggregated},
                                   {"prefill", WorkerType::kPrefill},
                                   {"decode", WorkerType::kDecode}},
                                  "Invalid worker_type '",
                                  "'. Must be 'aggregated', 'prefill', or 'decode'.",
                                  type);
    }
    UNDERSTUDY_TRY_STATUS(NotNull("is_prefill", in_.is_prefill));
    UNDERSTUDY_TRY_STATUS(NotNull("is_decode", in_.is_decode));
    const bool prefill = in_.is_prefill.value.value_or(false);
    const bool decode = in_.is_decode.value.value_or(false);
    if (prefill && decode) {
      return Fail(Errc::kInvalidConfig,
                  "Invalid worker configuration: is_prefill and is_decode cannot both be true.");
    }
    type = prefill ? WorkerType::kPrefill : decode ? WorkerType::kDecode : WorkerType::kAggregated;
    return {};
  }

  Status LastNamesAndNulls() {
    UNDERSTUDY_TRY_STATUS(NotNull("aic_mtp_seed", in_.aic_mtp_seed));
    UNDERSTUDY_TRY_STATUS(NotNull("enable_local_indexer", in_.enable_local_indexer));
    UNDERSTUDY_TRY_STATUS(NotNull("handoff_session_timeout_ms", in_.handoff_session_timeout_ms));
    UNDERSTUDY_TRY_STATUS(NotNull("kv_transfer_timing_mode", in_.kv_transfer_timing_mode));
    UNDERSTUDY_TRY_STATUS(
        ReadName<TransferTiming>(in_.kv_transfer_timing_mode,
                                 {{"full_prompt", TransferTiming::kFullPrompt},
                                  {"destination_missing", TransferTiming::kDestinationMissing}},
                                 "Invalid kv_transfer_timing_mode '",
                                 "'. Must be 'full_prompt' or 'destination_missing'.",
                                 out_.engine.kv_transfer_timing));
    UNDERSTUDY_TRY_STATUS(NotNull("enable_g4_storage", in_.enable_g4_storage));
    UNDERSTUDY_TRY_STATUS(NotNull("preemption_mode", in_.preemption_mode));
    UNDERSTUDY_TRY_STATUS(
        ReadName<PreemptionMode>(in_.preemption_mode,
                                 {{"lifo", PreemptionMode::kLifo}, {"fifo", PreemptionMode::kFifo}},
                                 "Invalid preemption_mode: '",
                                 "'. Must be 'lifo' or 'fifo'.",
                                 out_.engine.preemption_mode));
    return SetQueuePolicy();
  }

  Status SetQueuePolicy() {
    if (!in_.router_queue_policy.value) {
      return {};
    }
    for (const auto& [name, policy] :
         Names<RouterQueuePolicy>{{"fcfs", RouterQueuePolicy::kFcfs},
                                  {"lcfs", RouterQueuePolicy::kLcfs},
                                  {"wspt", RouterQueuePolicy::kWspt}}) {
      if (*in_.router_queue_policy.value == name) {  // as the reference: this one by its case, too
        out_.router_queue_policy = policy;
        return {};
      }
    }
    return Fail(Errc::kInvalidConfig,
                "unknown queue policy: " + QuotedText(*in_.router_queue_policy.value) +
                    ", expected 'fcfs', 'lcfs', or 'wspt'");
  }

  /// What has to fit before it can be stored. The reference takes any 64-bit number.
  Status CheckSizes() const {
    UNDERSTUDY_TRY_STATUS(AtMost("block_size", in_.block_size.value.value_or(0), kU32Max));
    UNDERSTUDY_TRY_STATUS(AtMost("sglang.page_size", Sglang().page_size.value_or(0), kU32Max));
    UNDERSTUDY_TRY_STATUS(AtMost("max_num_seqs", in_.max_num_seqs.value.value_or(0), kU32Max));
    UNDERSTUDY_TRY_STATUS(AtMost("dp_size", in_.dp_size.value.value_or(0), kU32Max));
    UNDERSTUDY_TRY_STATUS(AtMost("bootstrap_port", in_.bootstrap_port.value.value_or(0), kU16Max));
    UNDERSTUDY_TRY_STATUS(
        AtMost("zmq_kv_events_port", in_.zmq_kv_events_port.value.value_or(0), kU16Max));
    UNDERSTUDY_TRY_STATUS(
        AtMost("zmq_replay_port", in_.zmq_replay_port.value.value_or(0), kU16Max));
    UNDERSTUDY_TRY_STATUS(AtMost("handoff_session_timeout_ms",
                                 in_.handoff_session_timeout_ms.value.value_or(0),
                                 kHandoffTimeoutMaxMs));
    UNDERSTUDY_TRY_STATUS(
        AtMost("aic_tp_size", in_.aic_tp_size.value.value_or(0), kParallelSizeMax));
    return AtMost(
        "aic_attention_dp_size", in_.aic_attention_dp_size.value.value_or(0), kParallelSizeMax);
  }

  [[nodiscard]] const SglangArguments& Sglang() const {
    static const SglangArguments kNone;
    return in_.sglang.value ? *in_.sglang.value : kNone;
  }

  [[nodiscard]] std::uint32_t BlockSize() const {
    constexpr std::uint64_t kVllmBlock = 64;
    constexpr std::uint64_t kTrtllmBlock = 32;
    const std::uint64_t given = in_.block_size.value.value_or(0);
    const EngineType type = out_.engine.engine_type;
    const std::uint64_t standard = type == EngineType::kVllm     ? kVllmBlock
                                   : type == EngineType::kTrtllm ? kTrtllmBlock
                                                                 : Sglang().page_size.value_or(1);
    return static_cast<std::uint32_t>(given == 0 ? standard : given);
  }

  void SetSchedulerOptions() {
    MockerOptions& engine = out_.engine;
    engine.block_size = BlockSize();
    engine.num_gpu_blocks = in_.num_gpu_blocks.value.value_or(engine.num_gpu_blocks);
    if (in_.max_num_seqs.given) {
      engine.max_num_seqs.reset();
      if (in_.max_num_seqs.value) {
        engine.max_num_seqs = static_cast<std::uint32_t>(*in_.max_num_seqs.value);
      }
    }
    if (in_.max_num_batched_tokens.given) {
      engine.max_num_batched_tokens = in_.max_num_batched_tokens.value;
    }
    engine.rank_count = static_cast<std::uint32_t>(in_.dp_size.value.value_or(1));
    engine.enable_prefix_caching = in_.enable_prefix_caching.value.value_or(true);
    engine.enable_chunked_prefill = in_.enable_chunked_prefill.value.value_or(true);
    engine.speedup_ratio = in_.speedup_ratio.value.value_or(1.0);
    engine.decode_speedup_ratio = in_.decode_speedup_ratio.value.value_or(1.0);
    engine.startup_time = std::chrono::duration<double>(in_.startup_time.value.value_or(0.0));
    engine.planner_profile_data = in_.planner_profile_data.value.value_or("");
    engine.reasoning = in_.reasoning.value;
  }

  void SetSglangOptions() {
    SglangOptions& sglang = out_.engine.sglang;
    const SglangArguments& given = Sglang();
    sglang.max_prefill_tokens = given.max_prefill_tokens.value_or(sglang.max_prefill_tokens);
    sglang.chunked_prefill_size = given.chunked_prefill_size.value_or(sglang.chunked_prefill_size);
    sglang.clip_max_new_tokens = given.clip_max_new_tokens.value_or(sglang.clip_max_new_tokens);
    sglang.schedule_conservativeness =
        given.schedule_conservativeness.value_or(sglang.schedule_conservativeness);
    const std::string policy = given.schedule_policy.value_or("fifo");
    sglang.schedule_policy = policy == "lpm" ? SglangPolicy::kLpm : SglangPolicy::kFifo;
  }

  void SetTransferOptions() {
    MockerOptions& engine = out_.engine;
    engine.kv_bytes_per_token = in_.kv_bytes_per_token.value;
    engine.kv_transfer_bandwidth = in_.kv_transfer_bandwidth.value;
    if (engine.kv_transfer_bandwidth == 0.0) {
      engine.kv_transfer_bandwidth.reset();  // both mean: no delay
    }
    if (in_.aic_nextn.value) {
      SpeculativeOptions& speculative = engine.speculative.emplace();
      speculative.seed = in_.aic_mtp_seed.value.value_or(speculative.seed);
    }
  }

  Status CheckNumbers() {
    if (in_.aic_nextn.value) {
      constexpr std::uint64_t kDraftsMax = 5;
      UNDERSTUDY_TRY_STATUS(Between("aic_nextn", *in_.aic_nextn.value, 1, kDraftsMax));
      out_.engine.speculative->accept_rates.resize(*in_.aic_nextn.value);
    }
    UNDERSTUDY_TRY_STATUS(CheckRanges(out_.engine));
    const std::pair<const char*, const Argument<double>&> fractions[] = {
        {"gpu_memory_utilization", in_.gpu_memory_utilization},
        {"mem_fraction_static", in_.mem_fraction_static},
        {"free_gpu_memory_fraction", in_.free_gpu_memory_fraction}};
    for (const auto& [field, argument] : fractions) {
      UNDERSTUDY_TRY_STATUS(BetweenZeroAndOne(field, argument.value.value_or(0.0)));
    }
    UNDERSTUDY_TRY_STATUS(
        AtLeastOne("handoff_session_timeout_ms", in_.handoff_session_timeout_ms.value.value_or(1)));
    const std::pair<const char*, const Argument<double>&> bandwidths[] = {
        {"bandwidth_g1_to_g2_gbps", in_.bandwidth_g1_to_g2_gbps},
        {"bandwidth_g2_to_g1_gbps", in_.bandwidth_g2_to_g1_gbps},
        {"bandwidth_g2_to_g3_gbps", in_.bandwidth_g2_to_g3_gbps},
        {"bandwidth_g3_to_g2_gbps", in_.bandwidth_g3_to_g2_gbps},
        {"bandwidth_g2_to_g4_gbps", in_.bandwidth_g2_to_g4_gbps},
        {"bandwidth_g4_to_g2_gbps", in_.bandwidth_g4_to_g2_gbps}};
    for (const auto& [field, argument] : bandwidths) {
      UNDERSTUDY_TRY_STATUS(NotNegative(field, argument.value.value_or(0.0)));
    }
    return {};
  }

  Status CheckTogether() const {
    UNDERSTUDY_TRY_STATUS(CheckBlockSize(out_.engine));
    const bool g2 = in_.num_g2_blocks.value.value_or(0) != 0;
    if (in_.num_g3_blocks.value.value_or(0) != 0 && !g2) {
      return CombinationError(
          "num_g3_blocks requires num_g2_blocks because mocker stages G3 through G2");
    }
    if (in_.enable_g4_storage.value.value_or(false) && !g2) {
      return CombinationError(
          "enable_g4_storage requires num_g2_blocks because mocker stages G4 through G2");
    }
    UNDERSTUDY_TRY_STATUS(CheckDecodeSpeedup(out_.engine));
    if (in_.aic_nextn_accept_rates.value && !in_.aic_nextn.value) {
      return CombinationError("aic_nextn_accept_rates requires aic_nextn");
    }
    const auto policy = in_.trtllm.value ? in_.trtllm.value->capacity_scheduler_policy
                                         : std::optional<std::string>();
    if (policy && *policy != "guaranteed_no_evict") {
      return CombinationError(
          "engine_type=trtllm v1 supports only capacity_scheduler_policy='guaranteed_no_evict', "
          "got '" +
          *policy + "'");
    }
    return CheckSglangSizes();
  }

  Status CheckSglangSizes() const {
    const MockerOptions& engine = out_.engine;
    const auto page_size = Sglang().page_size;
    if (engine.engine_type == EngineType::kSglang && page_size && *page_size != engine.block_size) {
      return CombinationError(
          "engine_type=sglang requires block_size and sglang.page_size to match when both are set, "
          "got block_size=" +
          std::to_string(engine.block_size) +
          " and sglang.page_size=" + std::to_string(*page_size));
    }
    const auto chunk = Sglang().chunked_prefill_size;
    if (engine.engine_type == EngineType::kSglang && chunk && *chunk % engine.block_size != 0) {
      return CombinationError(
          "engine_type=sglang requires sglang.chunked_prefill_size to be divisible by block_size, "
          "got chunked_prefill_size=" +
          std::to_string(*chunk) + " and block_size=" + std::to_string(engine.block_size));
    }
    return CheckPages(engine);
  }

  Status SetAcceptRates() {
    if (out_.engine.speculative) {
      UNDERSTUDY_TRY(out_.engine.speculative->accept_rates,
                     ParseAcceptRates(in_.aic_nextn_accept_rates.value, *in_.aic_nextn.value));
    }
    return {};
  }

  static std::optional<std::uint16_t> Port(const Argument<std::uint64_t>& argument) {
    return argument.value ? std::optional(static_cast<std::uint16_t>(*argument.value))
                          : std::nullopt;
  }

  void SetWorkerSide() {
    out_.enable_local_indexer = in_.enable_local_indexer.value.value_or(false);
    out_.bootstrap_port = Port(in_.bootstrap_port);
    if (in_.handoff_session_timeout_ms.value) {
      out_.handoff_session_timeout =
          std::chrono::milliseconds(*in_.handoff_session_timeout_ms.value);
    }
    out_.zmq_kv_events_port = Port(in_.zmq_kv_events_port);
    out_.zmq_replay_port = Port(in_.zmq_replay_port);
    out_.response_replay_trace_path = in_.response_replay_trace_path.value.value_or("");
    out_.aic = {in_.aic_backend.value,
                in_.aic_system.value,
                in_.aic_backend_version.value,
                in_.aic_model_path.value,
                in_.aic_tp_size.value,
                in_.aic_moe_tp_size.value,
                in_.aic_moe_ep_size.value,
                in_.aic_attention_dp_size.value,
                in_.aic_gemm_dtype.value,
                in_.aic_moe_dtype.value,
                in_.aic_fmha_dtype.value,
                in_.aic_kv_cache_dtype.value,
                in_.aic_comm_dtype.value};
  }

  const EngineArguments& in_;
  EngineArgs out_;
};

}  // namespace

Result<EngineArgs> ValidateEngineArgs(const EngineArguments& arguments) {
  auto args = Validator(arguments).Run();
  if (!args) {
    args.error().message = OneLine(args.error().message);
  }
  return args;
}

std::uint64_t HandoffCapacity(const MockerOptions& options) {
  return std::max<std::uint64_t>(
      1, options.max_num_seqs ? *options.max_num_seqs : options.num_gpu_blocks);
}

bool NeedsKvPublisher(const MockerOptions& options) {
  return options.enable_prefix_caching && options.worker_type != WorkerType::kDecode;
}

std::uint64_t GpusPerWorker(const AicIdentity& aic) {
  return aic.tp_size.value_or(1) * aic.attention_dp_size.value_or(1);
}

}  // namespace understudy::mocker
