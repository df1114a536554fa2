// Names that tell the two forms of engine arguments apart.
#pragma once

#include <string_view>

namespace understudy::mocker {

/// A member of the flat form of 1.3; some are members of the nested form as well.
[[nodiscard]] bool IsFlatMember(std::string_view name);
/// A member of the outermost object of the nested form.
[[nodiscard]] bool IsNestedMember(std::string_view name);

}  // namespace understudy::mocker
