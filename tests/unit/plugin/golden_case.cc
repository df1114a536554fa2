#include "tests/unit/plugin/golden_case.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

namespace understudy::mocker {

namespace {

template <class T>
std::optional<T> Limit(const nlohmann::json& args, const char* name, std::optional<T> otherwise) {
  const auto found = args.find(name);
  if (found == args.end()) {
    return otherwise;
  }
  return found->is_null() ? std::nullopt : std::optional<T>(found->get<T>());
}

}  // namespace

MockerOptions GoldenOptions(const nlohmann::json& args, bool strict_reference) {
  MockerOptions options;
  const std::string engine = args.value("engine_type", "vllm");
  options.engine_type = engine == "trtllm"   ? EngineType::kTrtllm
                        : engine == "sglang" ? EngineType::kSglang
                                             : EngineType::kVllm;
  if (engine == "trtllm") {
    options.block_size = 32;
  }
  if (args.contains("aic_nextn")) {
    SpeculativeOptions& speculative = options.speculative.emplace();
    std::istringstream rates(args.value("aic_nextn_accept_rates", "0.85,0.3,0"));
    for (std::string rate; std::getline(rates, rate, ',');) {
      speculative.accept_rates.push_back(std::stod(rate));
    }
    speculative.accept_rates.resize(args["aic_nextn"].get<std::size_t>());
  }
  options.num_gpu_blocks = args.value("num_gpu_blocks", options.num_gpu_blocks);
  options.block_size = args.value("block_size", options.block_size);
  options.max_num_seqs = Limit(args, "max_num_seqs", options.max_num_seqs);
  options.max_num_batched_tokens =
      Limit(args, "max_num_batched_tokens", options.max_num_batched_tokens);
  options.enable_prefix_caching = args.value("enable_prefix_caching", true);
  options.enable_chunked_prefill = args.value("enable_chunked_prefill", true);
  options.speedup_ratio = args.value("speedup_ratio", 1.0);
  options.decode_speedup_ratio = args.value("decode_speedup_ratio", 1.0);
  options.strict_reference = strict_reference;
  const std::string preemption = args.value("preemption_mode", "lifo");
  options.preemption_mode = preemption == "fifo" ? PreemptionMode::kFifo : PreemptionMode::kLifo;
  const std::string worker = args.value("worker_type", "aggregated");
  options.worker_type = worker == "prefill"  ? WorkerType::kPrefill
                        : worker == "decode" ? WorkerType::kDecode
                                             : WorkerType::kAggregated;
  return options;
}

nlohmann::json LoadGoldenCase(const std::string& name) {
  std::ifstream file(std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/vectors/engine/" + name +
                     ".json");
  nlohmann::json parsed = nlohmann::json::parse(file, nullptr, false);
  if (parsed.is_discarded()) {
    std::cerr << "golden case " << name << " cannot be read\n";
    std::abort();
  }
  return parsed;
}

GoldenRank::GoldenRank(const nlohmann::json& engine_args, bool strict_reference) {
  auto setup = EngineSetup::New(GoldenOptions(engine_args, strict_reference));
  if (!setup) {
    std::cerr << setup.error().message << "\n";
    std::abort();
  }
  setup_ = std::move(*setup);
  SchedulerConfig& config = setup_->mutable_config();
  config.collect_stats = true;
  config.kv_events = true;  // the recorded core reports them for every worker; a decode worker only
                            // does not publish them
  scheduler_ = NewRankScheduler(config, RankIndex{0});
}

}  // namespace understudy::mocker
