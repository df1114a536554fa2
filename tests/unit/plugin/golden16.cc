#include "tests/unit/plugin/golden16.h"

#include "plugin/mocker/config/options.h"
#include "understudy/mocker/engine_config.h"

#include <cstdlib>
#include <iostream>

namespace understudy::mocker {

using Json = nlohmann::json;

MockerOptions Golden16Options(const Json& engine_args, bool strict) {
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
  args->engine.strict_reference = strict;
  return args->engine;
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
  group_ = std::make_unique<RankGroup>(config, 0, RanksPerWorker(options));
}

}  // namespace understudy::mocker
