// Error texts of the original that are not the same in every run.
#pragma once

#include <string>

namespace understudy::mocker {

/// With the entries of a range in order: the original writes them in one that changes from run to
/// run.
[[nodiscard]] std::string WithSortedRange(const std::string& text);

}  // namespace understudy::mocker
