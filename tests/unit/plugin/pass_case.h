// What recorded passes are compared with, whatever release they are of.
#pragma once

#include "plugin/mocker/scheduler/pass_output.h"
#include "understudy/engine/types.h"

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace understudy::mocker {

/// Events as text, so that a difference reads well.
[[nodiscard]] std::vector<std::string> TextOf(const std::vector<engine::KvEvent>& events);
[[nodiscard]] std::vector<std::string> TextOf(const nlohmann::json& events);

/// `want` is the `fpm` of a recorded pass.
void ExpectStats(const nlohmann::json& want, const PassStats& got);

}  // namespace understudy::mocker
