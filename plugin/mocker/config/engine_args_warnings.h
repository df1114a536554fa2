// What an operator should know about arguments that were accepted.
#pragma once

#include "understudy/mocker/engine_args.h"

#include <string>
#include <vector>

namespace understudy::mocker {

/// One line for each group of arguments that have no effect, and for each that was replaced.
[[nodiscard]] std::vector<std::string> EngineArgsWarnings(const EngineArguments& arguments,
                                                          EngineType engine_type);

}  // namespace understudy::mocker
