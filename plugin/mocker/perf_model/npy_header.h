// The header of a .npy file: a Python dictionary, written as text.
#pragma once

#include "understudy/base/result.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::mocker {

struct NpyHeader {
  std::string dtype;
  bool fortran_order = false;
  std::vector<std::size_t> shape;
};

/// Parses `{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }`: the three keys in any
/// order, each once, no other. Errors: kMalformed with the byte where it stopped, kUnsupported for
/// record types and too many dimensions.
[[nodiscard]] Result<NpyHeader> ParseNpyHeader(std::string_view text);

}  // namespace understudy::mocker
