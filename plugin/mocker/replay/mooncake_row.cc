#include "plugin/mocker/replay/mooncake_row.h"

#include "plugin/mocker/replay/line_file.h"
#include "understudy/mocker/replay.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <simdjson.h>

namespace understudy::mocker {

namespace {

using Value = simdjson::ondemand::value;

constexpr std::size_t kShownMax = 60;

std::string Shown(std::string_view text) {
  const bool cut = text.size() > kShownMax;
  std::string shown(text.substr(0, kShownMax));
  while (!shown.empty() && (shown.back() == ' ' || shown.back() == '\r' || shown.back() == ',')) {
    shown.pop_back();
  }
  return cut ? shown + "..." : shown;
}

tl::unexpected<Error> BadField(std::string_view field,
                               std::string_view value,
                               std::string_view allowed) {
  return Fail(Errc::kMalformed,
              "field \"" + std::string(field) + "\": got " + Shown(value) + ", expected " +
                  std::string(allowed));
}

template <class T>
Status ReadCount(Value& value, std::string_view field, T min, T max, T& out) {
  const std::string_view text = value.raw_json_token();
  std::uint64_t number = 0;
  if (value.get_uint64().get(number) != simdjson::SUCCESS || number < min || number > max) {
    return BadField(
        field, text, "a whole number of " + std::to_string(min) + " to " + std::to_string(max));
  }
  out = static_cast<T>(number);
  return {};
}

Status ReadTime(Value& value, std::string_view field, std::optional<double>& out) {
  const std::string_view text = value.raw_json_token();
  double number = 0.0;
  if (value.get_double().get(number) != simdjson::SUCCESS || !std::isfinite(number) ||
      number < 0.0 || number > kReplayTimeMaxMs) {
    return BadField(field, text, "milliseconds of 0 to 1e12");
  }
  out = number;
  return {};
}

Status ReadText(Value& value, std::string_view field, std::string& out) {
  const std::string_view text = value.raw_json_token();
  std::string_view read;
  if (value.get_string().get(read) != simdjson::SUCCESS) {
    return BadField(field, text, "a string");
  }
  out.assign(read);
  return {};
}

template <class T>
Status ReadNumbers(Value& value, std::string_view field, std::size_t max, std::vector<T>& out) {
  const std::string_view all = value.raw_json_token();
  simdjson::ondemand::array array;
  if (value.get_array().get(array) != simdjson::SUCCESS) {
    return BadField(field, all, "an array of whole numbers");
  }
  const std::uint64_t greatest = std::numeric_limits<T>::max();
  for (auto item : array) {
    std::uint64_t number = 0;
    Value element;
    if (item.get(element) != simdjson::SUCCESS) {
      return Fail(Errc::kMalformed, "field \"" + std::string(field) + "\": the array breaks off");
    }
    const std::string_view text = element.raw_json_token();
    if (element.get_uint64().get(number) != simdjson::SUCCESS || number > greatest) {
      return BadField(std::string(field) + "[" + std::to_string(out.size()) + "]",
                      text,
                      "a whole number of 0 to " + std::to_string(greatest));
    }
    if (out.size() == max) {
      return Fail(
          Errc::kMalformed,
          "field \"" + std::string(field) + "\": more than " + std::to_string(max) + " elements");
    }
    out.push_back(static_cast<T>(number));
  }
  return {};
}

Status ReadPriority(Value& value, std::int32_t& out) {
  const std::string_view text = value.raw_json_token();
  std::int64_t number = 0;
  if (value.get_int64().get(number) != simdjson::SUCCESS ||
      number < std::numeric_limits<std::int32_t>::min() ||
      number > std::numeric_limits<std::int32_t>::max()) {
    return BadField("priority", text, "a whole number of 32 bits");
  }
  out = static_cast<std::int32_t>(number);
  return {};
}

}  // namespace

/// Which fields were there.
struct Seen {
  std::optional<std::uint32_t> input_length;
  bool output_length = false;
  bool hash_ids = false;
  bool output_token_ids = false;
};

struct MooncakeRowParser::Impl {
  simdjson::ondemand::parser parser;

  static Status ReadField(std::string_view key, Value& value, MooncakeRow& row, Seen& seen);
  static Status Check(std::uint32_t block_size, const Seen& seen, MooncakeRow& row);
};

Status MooncakeRowParser::Impl::ReadField(std::string_view key,
                                          Value& value,
                                          MooncakeRow& row,
                                          Seen& seen) {
  bool null = false;
  if (value.is_null().get(null) == simdjson::SUCCESS && null) {
    return {};
  }
  if (key == "hash_ids") {
    seen.hash_ids = true;
    return ReadNumbers(value, key, kReplayTokensMax, row.hash_ids);
  }
  if (key == "timestamp" || key == "created_time") {
    return ReadTime(value, key, row.timestamp_ms);
  }
  if (key == "input_length" || key == "input_tokens") {
    std::uint32_t length = 0;
    UNDERSTUDY_TRY_STATUS(ReadCount(value, key, 1U, kReplayTokensMax, length));
    seen.input_length = length;
    return {};
  }
  if (key == "output_length" || key == "output_tokens") {
    seen.output_length = true;
    return ReadCount(value, key, 1U, kReplayTokensMax, row.output_length);
  }
  if (key == "session_id") {
    return ReadText(value, key, row.session_id);
  }
  if (key == "request_id") {
    return ReadText(value, key, row.request_id);
  }
  if (key == "delay" || key == "delay_ms") {
    return ReadTime(value, key, row.delay_ms);
  }
  if (key == "output_token_ids") {
    seen.output_token_ids = true;
    return ReadNumbers(value, key, kReplayTokensMax, row.output_token_ids);
  }
  if (key == "priority") {
    return ReadPriority(value, row.priority);
  }
  if (key == "strict_priority") {
    return ReadCount(
        value, key, 0U, std::numeric_limits<std::uint32_t>::max(), row.strict_priority);
  }
  return {};
}

Status MooncakeRowParser::Impl::Check(std::uint32_t block_size,
                                      const Seen& seen,
                                      MooncakeRow& row) {
  if (!seen.hash_ids || row.hash_ids.empty()) {
    return Fail(Errc::kMalformed,
                seen.hash_ids ? "field \"hash_ids\": got [], expected at least one id"
                              : "field \"hash_ids\" is missing");
  }
  if (!seen.output_length) {
    return Fail(Errc::kMalformed, "field \"output_length\" is missing");
  }
  if (seen.output_token_ids && row.output_token_ids.size() != row.output_length) {
    return Fail(Errc::kMalformed,
                "field \"output_token_ids\": got " + std::to_string(row.output_token_ids.size()) +
                    " ids, expected output_length = " + std::to_string(row.output_length));
  }
  const std::uint64_t capacity = std::uint64_t{row.hash_ids.size()} * block_size;
  if (!seen.input_length && capacity > kReplayTokensMax) {
    return Fail(Errc::kMalformed,
                "field \"hash_ids\": " + std::to_string(capacity) + " tokens, expected at most " +
                    std::to_string(kReplayTokensMax));
  }
  row.input_length = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(seen.input_length.value_or(kReplayTokensMax), capacity));
  return {};
}

MooncakeRowParser::MooncakeRowParser(std::uint32_t trace_block_size)
    : block_size_(trace_block_size), impl_(std::make_unique<Impl>()) {}

MooncakeRowParser::~MooncakeRowParser() = default;

Status MooncakeRowParser::Parse(std::string_view line, MooncakeRow& row) {
  static_assert(kLinePadding >= simdjson::SIMDJSON_PADDING);
  row.request_id.clear();
  row.session_id.clear();
  row.timestamp_ms.reset();
  row.delay_ms.reset();
  row.hash_ids.clear();
  row.output_token_ids.clear();
  row.priority = 0;
  row.strict_priority = 0;

  Seen seen;
  simdjson::ondemand::document document;
  simdjson::ondemand::object object;
  const simdjson::padded_string_view padded(line.data(), line.size(), line.size() + kLinePadding);
  simdjson::error_code error = impl_->parser.iterate(padded).get(document);
  if (error == simdjson::SUCCESS) {
    error = document.get_object().get(object);
  }
  if (error != simdjson::SUCCESS) {
    return Fail(Errc::kMalformed, "got " + Shown(line) + ", expected a JSON object");
  }
  for (auto entry : object) {
    simdjson::ondemand::field field;
    std::string_view key;
    if (std::move(entry).get(field) != simdjson::SUCCESS ||
        field.unescaped_key().get(key) != simdjson::SUCCESS) {
      return Fail(Errc::kMalformed, "the JSON object breaks off: " + Shown(line));
    }
    UNDERSTUDY_TRY_STATUS(Impl::ReadField(key, field.value(), row, seen));
  }
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) {
    return Fail(Errc::kMalformed, "something follows the JSON object: " + Shown(line));
  }
  return Impl::Check(block_size_, seen, row);
}

}  // namespace understudy::mocker
