#include "tests/unit/plugin/golden16.h"

#include "plugin/mocker/config/accept_rates.h"
#include "plugin/mocker/config/options.h"

#include <cstdlib>
#include <iostream>

namespace understudy::mocker {

namespace {

using Json = nlohmann::json;

template <class T>
void Read(const Json& from, const char* name, T& into) {
  if (from.contains(name)) {
    into = from[name].get<T>();
  }
}

template <class T>
void ReadLimit(const Json& from, const char* name, std::optional<T>& into) {
  if (from.contains(name)) {
    into = from[name].is_null() ? std::nullopt : std::optional<T>(from[name].get<T>());
  }
}

void ReadSpeculative(const Json& engine, MockerOptions& options) {
  if (!engine.contains("aic_nextn")) {
    return;
  }
  const std::string rates = engine.value("aic_nextn_accept_rates", "");
  options.speculative = SpeculativeOptions{
      .accept_rates = ParseAcceptRates(rates, engine["aic_nextn"].get<std::size_t>()).value()};
}

void ReadSglang(const Json& engine, MockerOptions& options) {
  if (!engine.contains("sglang")) {
    return;
  }
  const Json& sglang = engine["sglang"];
  if (sglang.value("schedule_policy", "fifo") == "lpm") {
    options.sglang.schedule_policy = SglangPolicy::kLpm;
  }
  Read(sglang, "max_prefill_tokens", options.sglang.max_prefill_tokens);
  Read(sglang, "chunked_prefill_size", options.sglang.chunked_prefill_size);
  Read(sglang, "clip_max_new_tokens", options.sglang.clip_max_new_tokens);
  Read(sglang, "schedule_conservativeness", options.sglang.schedule_conservativeness);
}

void ReadHostOffload(const Json& engine, MockerOptions& options) {
  if (!engine.contains("native_host_offload")) {
    return;
  }
  const Json& host = engine["native_host_offload"];
  HostOffloadOptions& tier = options.host_offload.emplace();
  Read(host, "num_host_blocks", tier.num_host_blocks);
  Read(host, "d2h_bandwidth_gbps", tier.d2h_bandwidth_gbps);
  Read(host, "h2d_bandwidth_gbps", tier.h2d_bandwidth_gbps);
  Read(host, "latency_to_first_byte_ms", tier.latency_to_first_byte_ms);
  options.kv_cache_bytes_per_token = engine["kv_cache_bytes_per_token"].get<std::uint64_t>();
}

/// Constant times, release 1.6's timing model "fixed".
class FixedModel final : public PerfModel {
 public:
  explicit FixedModel(const Json& model)
      : prefill_ms_(model["prefill_ms"]), decode_ms_(model["decode_ms"]) {}
  [[nodiscard]] double PrefillMs(const PrefillBatch& batch) const override {
    return batch.requests > 0 && batch.prompt_tokens > batch.cached_tokens ? prefill_ms_ : 0.0;
  }
  [[nodiscard]] double DecodeMs(const DecodeBatch& batch) const override {
    return batch.requests > 0 ? decode_ms_ : 0.0;
  }

 private:
  double prefill_ms_;
  double decode_ms_;
};

}  // namespace

MockerOptions Golden16Options(const Json& engine_args, bool strict) {
  const Json& engine = engine_args["engine"];
  MockerOptions options;
  options.semantics = SemanticsRelease::k16;
  options.strict_reference = strict;
  const std::string backend = engine.value("backend", "vllm");
  options.engine_type = backend == "trtllm"   ? EngineType::kTrtllm
                        : backend == "sglang" ? EngineType::kSglang
                                              : EngineType::kVllm;
  options.block_size = backend == "trtllm" ? 32 : backend == "sglang" ? 1 : 64;
  Read(engine_args, "dp_size", options.rank_count);
  Read(engine, "num_gpu_blocks", options.num_gpu_blocks);
  Read(engine, "block_size", options.block_size);
  ReadLimit(engine, "max_model_len", options.max_model_len);
  ReadLimit(engine, "max_num_seqs", options.max_num_seqs);
  ReadLimit(engine, "max_num_batched_tokens", options.max_num_batched_tokens);
  Read(engine, "enable_prefix_caching", options.enable_prefix_caching);
  Read(engine, "enable_chunked_prefill", options.enable_chunked_prefill);
  Read(engine, "speedup_ratio", options.speedup_ratio);
  Read(engine, "decode_speedup_ratio", options.decode_speedup_ratio);
  if (engine.value("preemption_mode", "lifo") == "fifo") {
    options.preemption_mode = PreemptionMode::kFifo;
  }
  const std::string worker = engine.value("worker_type", "aggregated");
  options.worker_type = worker == "prefill"  ? WorkerType::kPrefill
                        : worker == "decode" ? WorkerType::kDecode
                                             : WorkerType::kAggregated;
  Read(engine, "prefill_schedule_interval", options.prefill_schedule_interval);
  Read(engine, "prefill_decode_interval", options.prefill_decode_interval);
  ReadSpeculative(engine, options);
  ReadSglang(engine, options);
  ReadHostOffload(engine, options);
  return options;
}

Golden16Worker::Golden16Worker(const Json& engine_args, bool strict) {
  const MockerOptions options = Golden16Options(engine_args, strict);
  auto setup = EngineSetup::New(options);
  if (!setup) {
    std::cerr << setup.error().message << "\n";
    std::abort();
  }
  setup_ = std::move(*setup);
  SchedulerConfig& config = setup_->mutable_config();
  config.collect_stats = true;
  const Json& engine = engine_args["engine"];
  if (engine.contains("timing_model") && engine["timing_model"]["type"] == "fixed") {
    fixed_ = std::make_unique<FixedModel>(engine["timing_model"]);
    config.perf_model = fixed_.get();
  }
  group_ = std::make_unique<RankGroup>(config, 0, RanksPerWorker(options));
}

}  // namespace understudy::mocker
