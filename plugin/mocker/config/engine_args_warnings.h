// What an operator should know about arguments that were accepted.
#pragma once

#include "understudy/mocker/engine_args.h"

#include <initializer_list>
#include <string>
#include <vector>

namespace understudy::mocker {

struct GivenField {
  const char* field;
  bool given;
};

/// A warning about those of `fields` that were given and have no effect; `why` ends it.
void WarnAbout(std::initializer_list<GivenField> fields,
               const char* why,
               std::vector<std::string>& warnings);

/// One line for each group of arguments that have no effect, and for each that was replaced.
[[nodiscard]] std::vector<std::string> EngineArgsWarnings(const EngineArguments& arguments,
                                                          EngineType engine_type);

}  // namespace understudy::mocker
