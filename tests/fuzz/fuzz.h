// What every target shares.
#pragma once

#include "understudy/base/assert.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace understudy::fuzz {

inline std::string_view View(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace understudy::fuzz
