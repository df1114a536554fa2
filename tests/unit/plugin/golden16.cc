#include "tests/unit/plugin/golden16.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

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
  SpeculativeOptions& speculative = options.speculative.emplace();
  std::istringstream rates(engine.value("aic_nextn_accept_rates", "0.85,0.3,0"));
  for (std::string rate; std::getline(rates, rate, ',');) {
    speculative.accept_rates.push_back(std::stod(rate));
  }
  speculative.accept_rates.resize(engine["aic_nextn"].get<std::size_t>());
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

Json LoadGolden16(const std::string& name) {
  std::ifstream file(std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/vectors/engine-1.6/" + name +
                     ".json");
  Json parsed = Json::parse(file, nullptr, false);
  if (parsed.is_discarded()) {
    std::cerr << "golden case " << name << " cannot be read\n";
    std::abort();
  }
  return parsed;
}

MockerOptions Golden16Options(const Json& engine_args) {
  const Json& engine = engine_args["engine"];
  MockerOptions options;
  options.semantics = SemanticsRelease::k16;
  options.strict_reference = true;
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
  ReadSpeculative(engine, options);
  return options;
}

std::vector<std::string> TextOf(const std::vector<engine::KvEvent>& events) {
  std::vector<std::string> texts;
  for (const engine::KvEvent& event : events) {
    const bool stored = event.kind == engine::KvEvent::Kind::kStored;
    std::string text = std::to_string(event.event_id);
    text += stored ? " stored after " +
                         (event.parent ? std::to_string(Value(*event.parent)) : std::string("none"))
                   : std::string(" removed");
    for (const engine::KvBlock& block : event.blocks) {
      text += " " + std::to_string(Value(block.block_hash));
      text += stored ? "/" + std::to_string(Value(block.tokens_hash)) : std::string();
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<std::string> TextOf(const Json& events) {
  std::vector<std::string> texts;
  for (const Json& event : events) {
    const bool stored = event["type"] == "stored";
    std::string text = std::to_string(event["event_id"].get<std::uint64_t>());
    text += stored ? " stored after " +
                         (event["parent"].is_null() ? "none" : event["parent"].get<std::string>())
                   : std::string(" removed");
    for (const Json& block : event[stored ? "blocks" : "block_hashes"]) {
      text += " " + (stored ? block["block_hash"].get<std::string>() + "/" +
                                  block["tokens_hash"].get<std::string>()
                            : block.get<std::string>());
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

Golden16Rank::Golden16Rank(const Json& engine_args) {
  auto setup = EngineSetup::New(Golden16Options(engine_args));
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
  scheduler_ = NewRankScheduler(config, RankIndex{0});
}

}  // namespace understudy::mocker
