// `engine` of the nested configuration, as it stands in JSON.
#pragma once

#include "understudy/mocker/engine_config.h"
#include "understudy/mocker/json_reader.h"

namespace understudy::mocker {

/// Names and types, nothing about values. False: reader.error() says why.
[[nodiscard]] bool ReadRankObject(JsonReader& reader, RankConfig& out);

}  // namespace understudy::mocker
