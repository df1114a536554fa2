// One line of a Mooncake trace.
#pragma once

#include "understudy/base/result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::mocker {

/// What a line says, checked field by field; `input_length` is at most what `hash_ids` make.
struct MooncakeRow {
  std::string request_id;
  std::string session_id;  ///< empty = none
  std::optional<double> timestamp_ms;
  std::optional<double> delay_ms;
  std::uint32_t input_length = 0;
  std::uint32_t output_length = 0;
  std::vector<std::uint64_t> hash_ids;
  std::vector<std::uint32_t> output_token_ids;
  std::int32_t priority = 0;
  std::uint32_t strict_priority = 0;
};

/// Parses lines. Keeps its buffers; not thread safe.
class MooncakeRowParser {
 public:
  explicit MooncakeRowParser(std::uint32_t trace_block_size);
  ~MooncakeRowParser();

  /// Fills `row` (its buffers are reused) from `line`, behind which kLinePadding bytes are
  /// readable. Unknown fields are skipped, null is as good as absent. Errors: kMalformed, field,
  /// value and what is allowed; the caller adds file and line.
  [[nodiscard]] Status Parse(std::string_view line, MooncakeRow& row);

 private:
  struct Impl;
  std::uint32_t block_size_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace understudy::mocker
