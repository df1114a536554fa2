// Numbers in messages.
#pragma once

#include <cstdio>
#include <string>

namespace understudy::mocker {

/// As short as six digits allow: "0.5", "1e+08", "nan".
inline std::string NumberText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

}  // namespace understudy::mocker
