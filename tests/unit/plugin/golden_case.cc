#include "tests/unit/plugin/golden_case.h"

#include "understudy/mocker/engine_args.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <numeric>
#include <utility>

namespace understudy::mocker {

namespace {

const std::string kVectors = std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/vectors/";

}  // namespace

MockerOptions GoldenOptions(const nlohmann::json& args, bool strict_reference) {
  auto parsed = ParseEngineArgs(args.dump());
  if (!parsed) {
    std::cerr << parsed.error().message << "\n";
    std::abort();
  }
  MockerOptions options = std::move(parsed->engine);
  options.strict_reference = strict_reference;
  if (!options.planner_profile_data.empty()) {
    options.planner_profile_data = kVectors + "engine/" + options.planner_profile_data;
  }
  return options;
}

nlohmann::json LoadGoldenCase(const std::string& name, const std::string& folder) {
  std::ifstream file(kVectors + folder + "/" + name + ".json");
  nlohmann::json parsed = nlohmann::json::parse(file, nullptr, false);
  if (parsed.is_discarded()) {
    std::cerr << "golden case " << name << " cannot be read\n";
    std::abort();
  }
  return parsed;
}

engine::Request GoldenRequest(const nlohmann::json& golden_case, std::size_t index) {
  const nlohmann::json& row = golden_case["requests"][index];
  const auto first = row["token_range"][0].get<std::uint32_t>();
  engine::Request request;
  request.id = RequestId{index + 1};
  request.prompt.resize(row["token_range"][1].get<std::size_t>() - first);
  std::iota(request.prompt.begin(), request.prompt.end(), first);
  request.output_tokens_max = row["max_output_tokens"];
  if (row.contains("output_token_ids")) {
    request.planned_tokens = row["output_token_ids"].get<std::vector<std::uint32_t>>();
  }
  return request;
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
