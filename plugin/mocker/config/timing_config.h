// What `engine.timing_model` of the nested configuration asks for.
#pragma once

#include "understudy/base/result.h"
#include "understudy/mocker/engine_config.h"

#include <string>

namespace understudy::mocker {

/// A performance model of AISimulate, whatever its spelling.
[[nodiscard]] bool IsAis(const TimingConfig& timing);

/// The path of the provider "dynamo_profile". Errors: kInvalidConfig, the reference's texts.
[[nodiscard]] Result<std::string> ProfilePath(const TimingConfig& timing);

/// The provider is known, and a profile that it names is there. Errors: likewise.
[[nodiscard]] Status CheckProvider(const TimingConfig& timing);

}  // namespace understudy::mocker
