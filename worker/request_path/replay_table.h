// Answers planned beforehand: a trace that names the output tokens of requests.
#pragma once

#include "understudy/base/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace understudy::worker {

/// A line of a trace must not be longer: about 2 million tokens.
inline constexpr std::size_t kReplayLineBytesMax = 16U << 20;

/// Planned output tokens by key. Immutable once loaded, then for any thread. Four bytes a token and
/// a map entry a row. Source: dynamo-llm 1.3.0 ResponseReplayTable (mission.md A.6).
class ReplayTable {
 public:
  /// Reads a JSON Lines file: of each row `request_id`, `session_id`, `output_length` (or
  /// `output_tokens`) and `output_token_ids`; other fields are read over. A row's key is its
  /// request id; else `<session>:<turn>`, turns being counted over all rows of a session; else
  /// `line:<index>`, blank lines counted, from 0. Rows without token ids have no entry. Errors
  /// (kInvalidConfig) name file, line and what is wrong, in the reference's words.
  [[nodiscard]] static Result<ReplayTable> Load(const std::string& path);

  /// Nothing: no row has the key. The tokens live as long as the table.
  [[nodiscard]] std::optional<std::span<const std::uint32_t>> Find(std::string_view key) const;

  [[nodiscard]] std::size_t rows() const { return rows_.size(); }
  [[nodiscard]] std::size_t tokens() const { return tokens_.size(); }

 private:
  class Loader;
  struct Place {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const {
      return std::hash<std::string_view>{}(key);
    }
  };

  std::unordered_map<std::string, Place, Hash, std::equal_to<>> rows_;
  std::vector<std::uint32_t> tokens_;
};

/// The key in a request's annotations: what follows `output_replay_id:` in the first one that
/// begins so.
[[nodiscard]] std::optional<std::string_view> ReplayKey(std::span<const std::string> annotations);

}  // namespace understudy::worker
