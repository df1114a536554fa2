#include "plugin/mocker/perf_model/npy.h"
#include "tests/fuzz/fuzz.h"

using namespace understudy;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::View(data, size);
  const auto array = mocker::ParseNpy(bytes);
  if (!array) {
    UNDERSTUDY_ASSERT(!array.error().message.empty());
    UNDERSTUDY_ASSERT(array.error().message.find('\n') == std::string::npos);
    return 0;
  }
  UNDERSTUDY_ASSERT(array->shape.size() <= mocker::kNpyDimensionsMax);
  std::size_t count = 1;
  for (const std::size_t extent : array->shape) {
    count *= extent;
  }
  UNDERSTUDY_ASSERT(array->values.size() == count);
  UNDERSTUDY_ASSERT(count <= mocker::kNpyValuesMax);
  UNDERSTUDY_ASSERT(count * (array->dtype == "<f4" || array->dtype == "<i4" ? 4 : 8) < size);
  // Nothing of the array may come from beyond its bytes: one less, and it is refused.
  UNDERSTUDY_ASSERT(count == 0 || !mocker::ParseNpy(bytes.substr(0, size - 1)));
  return 0;
}
