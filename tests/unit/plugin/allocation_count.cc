#include "tests/unit/plugin/allocation_count.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
thread_local std::uint64_t count = 0;
}  // namespace

void* operator new(std::size_t size) {
  ++count;
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) {
    std::abort();
  }
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}

namespace understudy::mocker {

std::uint64_t AllocationCount() {
  return count;
}

}  // namespace understudy::mocker
