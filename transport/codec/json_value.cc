#include "transport/codec/json_value.h"

#include <algorithm>
#include <memory>
#include <string>

namespace understudy::transport {
namespace {

// A parser's buffers take about 20 bytes per byte of text. Those of usual requests are kept, larger
// ones given back.
constexpr std::size_t kKeptCapacity = 256U << 10;
constexpr std::size_t kCapacityMin = 4096;
constexpr std::size_t kCapacityMax = 0xFFFFFFFF;

struct KeptParser {
  std::unique_ptr<simdjson::dom::parser> parser;
  std::size_t capacity = 0;
  std::size_t depth = 0;
};

}  // namespace

Result<JsonValue> ParseJson(std::string_view text, std::size_t nesting_max) {
  thread_local KeptParser kept;
  if (text.size() > kCapacityMax) {
    return Fail(Errc::kUnsupported, "JSON text over 4 GiB");
  }
  // The parser counts an object as level 1 and refuses when the level reaches its limit.
  const std::size_t depth = nesting_max + 1;
  const bool too_large = kept.capacity > kKeptCapacity && text.size() <= kKeptCapacity;
  if (!kept.parser || kept.depth != depth || text.size() > kept.capacity || too_large) {
    const std::size_t capacity = std::max(kCapacityMin, std::min(text.size() * 2, kKeptCapacity));
    kept.parser = std::make_unique<simdjson::dom::parser>();
    kept.capacity = std::max(capacity, text.size());
    kept.depth = depth;
    if (kept.parser->allocate(kept.capacity, depth) != 0U) {
      kept.parser.reset();
      return Fail(Errc::kUnavailable, "no memory to read JSON");
    }
  }
  simdjson::dom::element element;
  const char* data =
      text.empty() ? "" : text.data();  // an empty view may be null: memcpy forbids it
  const simdjson::error_code error = kept.parser->parse(data, text.size()).get(element);
  if (error == simdjson::DEPTH_ERROR) {
    return Fail(Errc::kMalformed, "nested deeper than " + std::to_string(nesting_max) + " levels");
  }
  if (error == simdjson::UTF8_ERROR) {
    return Fail(Errc::kMalformed, "not UTF-8");
  }
  if (error != 0U) {
    return Fail(Errc::kMalformed, std::string("not JSON: ") + simdjson::error_message(error));
  }
  return JsonValue(element);
}

}  // namespace understudy::transport
