#include "tests/unit/plugin/golden16.h"

#include "plugin/mocker/config/options.h"
#include "understudy/mocker/engine_config.h"

#include <cstdlib>
#include <iostream>

namespace understudy::mocker {

using Json = nlohmann::json;

MockerOptions Golden16Options(const Json& engine_args) {
  Json config = engine_args;
  if (Json& timing = config["engine"]["timing_model"]; timing.is_null()) {
    config["engine"].erase("timing_model");
  } else if (timing["type"] == "external") {
    Json& path = timing["config"]["path"];
    path = std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/vectors/engine/" + path.get<std::string>();
  }
  auto args = ParseEngineConfig(config.dump());
  if (!args) {
    std::cerr << args.error().message << "\n";
    std::abort();
  }
  args->engine.strict_reference = true;
  return args->engine;
}

Golden16Worker::Golden16Worker(const Json& engine_args) {
  auto setup = EngineSetup::New(Golden16Options(engine_args));
  if (!setup) {
    std::cerr << setup.error().message << "\n";
    std::abort();
  }
  setup_ = std::move(*setup);
  SchedulerConfig& config = setup_->mutable_config();
  config.collect_stats = true;
  group_ = std::make_unique<RankGroup>(config, 0, RanksPerWorker(Golden16Options(engine_args)));
}

}  // namespace understudy::mocker
