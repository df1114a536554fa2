#include "worker/request_path/replay_table.h"

#include "understudy/mocker/json_reader.h"
#include "worker/config/text_list.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>

namespace understudy::worker {
namespace {

constexpr std::string_view kSpace = " \t\n\v\f\r";
constexpr std::string_view kAnnotation = "output_replay_id:";

std::string_view TextOf(const std::optional<std::string>& text) {
  return text ? std::string_view(*text) : std::string_view();
}

std::string LastSystemError() {
  return std::error_code(errno, std::generic_category()).message();
}

/// How one step of reading a file ended.
enum class LineEnd : std::uint8_t { kLine, kEndOfFile, kTooLong, kFailed };

/// A file, line by line.
class LineReader {
 public:
  explicit LineReader(std::FILE* file) : file_(file, &std::fclose) {}

  /// Fills `line`, without its line break. A last line may lack one.
  LineEnd Next(std::string& line) {
    line.clear();
    while (true) {
      if (next_ == filled_) {
        next_ = 0;
        filled_ = std::fread(buffer_.data(), 1, buffer_.size(), file_.get());
        if (filled_ == 0) {
          return std::ferror(file_.get()) != 0 ? LineEnd::kFailed
                 : line.empty()                ? LineEnd::kEndOfFile
                                               : LineEnd::kLine;
        }
      }
      const char* start = buffer_.data() + next_;
      const void* newline = std::memchr(start, '\n', filled_ - next_);
      const std::size_t count =
          newline == nullptr ? filled_ - next_
                             : static_cast<std::size_t>(static_cast<const char*>(newline) - start);
      if (line.size() + count > kReplayLineBytesMax) {
        return LineEnd::kTooLong;
      }
      line.append(start, count);
      next_ += count;
      if (newline != nullptr) {
        ++next_;
        return LineEnd::kLine;
      }
    }
  }

 private:
  static constexpr std::size_t kBufferBytes = 64U << 10;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::vector<char> buffer_ = std::vector<char>(kBufferBytes);
  std::size_t next_ = 0;
  std::size_t filled_ = 0;
};

/// The fields of a row. Token ids are appended to a vector of the caller.
struct Row {
  std::optional<std::string> request_id, session_id;
  std::optional<std::uint64_t> output_length;
  bool has_tokens = false;
};

class RowReader {
 public:
  RowReader(std::string_view line, std::vector<std::uint32_t>& tokens)
      : reader_(line, mocker::JsonReader::Paths::kOmitted), tokens_(tokens) {}

  bool Read(Row& row) {
    return reader_.Object("struct ResponseReplayTraceRow", [this, &row](std::string_view key) {
      return Member(key, row);
    }) && reader_.End();
  }
  [[nodiscard]] const std::string& error() const { return reader_.error(); }

 private:
  enum Field : std::size_t { kRequestId, kSessionId, kOutputLength, kOutputTokenIds, kFieldCount };

  bool Member(std::string_view key, Row& row) {
    if (key == "request_id") {
      return Once(kRequestId, key) && Text(row.request_id);
    }
    if (key == "session_id") {
      return Once(kSessionId, key) && Text(row.session_id);
    }
    if (key == "output_length" || key == "output_tokens") {
      return Once(kOutputLength, "output_length") && Length(row);
    }
    if (key == "output_token_ids") {
      return Once(kOutputTokenIds, key) && Tokens(row);
    }
    return reader_.Skip();
  }

  bool Once(Field field, std::string_view key) {
    return !std::exchange(seen_[field], true) || reader_.FailDuplicate(key);
  }

  bool Text(std::optional<std::string>& out) {
    return reader_.TakeNull() || (!reader_.failed() && reader_.Text(out.emplace()));
  }

  bool Length(Row& row) {
    return reader_.TakeNull() ||
           (!reader_.failed() && reader_.Unsigned(row.output_length.emplace(), "usize"));
  }

  bool Tokens(Row& row) {
    if (reader_.TakeNull()) {
      return true;
    }
    row.has_tokens = true;
    return reader_.Array("a sequence", [this] {
      std::uint64_t id = 0;
      const bool read = reader_.Unsigned(id, "u32", std::numeric_limits<std::uint32_t>::max());
      tokens_.push_back(static_cast<std::uint32_t>(id));
      return read;
    });
  }

  mocker::JsonReader reader_;
  std::vector<std::uint32_t>& tokens_;
  bool seen_[kFieldCount] = {};
};

}  // namespace

class ReplayTable::Loader {
 public:
  explicit Loader(const std::string& path) : path_(path) {}

  Result<ReplayTable> Run() {
    std::FILE* file = std::fopen(path_.c_str(), "rb");
    if (file == nullptr) {
      return Refuse("failed to open response replay trace " + path_ + ": " + LastSystemError());
    }
    LineReader lines(file);
    std::string line;
    for (; true; ++line_index_) {
      switch (lines.Next(line)) {
        case LineEnd::kEndOfFile:
          table_.tokens_.shrink_to_fit();
          return std::move(table_);
        case LineEnd::kTooLong:
          return RefuseLine("read",
                            "longer than " + std::to_string(kReplayLineBytesMax) + " bytes");
        case LineEnd::kFailed:
          return RefuseLine("read", LastSystemError());
        case LineEnd::kLine:
          if (!Trimmed(line, kSpace).empty()) {
            UNDERSTUDY_TRY_STATUS(AddRow(line));
          }
      }
    }
  }

 private:
  [[nodiscard]] tl::unexpected<Error> Refuse(const std::string& text) const {
    return Fail(Errc::kInvalidConfig,
                "failed to load response replay trace " + path_ + ": " + text);
  }
  [[nodiscard]] tl::unexpected<Error> RefuseLine(const char* step, const std::string& cause) const {
    return Refuse(std::string("failed to ") + step + " line " + LineNumber() +
                  " from response replay trace " + path_ + ": " + cause);
  }
  [[nodiscard]] tl::unexpected<Error> RefuseRow(const std::string& what) const {
    return Refuse("response replay trace line " + LineNumber() + " " + what);
  }
  [[nodiscard]] std::string LineNumber() const { return std::to_string(line_index_ + 1); }

  Status AddRow(std::string_view line) {
    const std::size_t first = table_.tokens_.size();
    Row row;
    RowReader reader(line, table_.tokens_);
    if (!reader.Read(row)) {
      return RefuseLine("parse", reader.error());
    }
    // Rows without tokens are turns of their session as well.
    const std::uint64_t turn = row.session_id ? turns_[*row.session_id]++ : 0;
    if (!row.has_tokens) {
      return {};
    }
    const std::size_t count = table_.tokens_.size() - first;
    if (!row.output_length) {
      return RefuseRow("has output_token_ids but no output_length");
    }
    if (*row.output_length != count) {
      return RefuseRow("output_length " + std::to_string(*row.output_length) +
                       " does not match output_token_ids length " + std::to_string(count));
    }
    std::string key = KeyOf(row, turn);
    if (!table_.rows_.try_emplace(key, Place{first, count}).second) {
      return RefuseRow("duplicates output_replay_id key " + key);
    }
    return {};
  }

  [[nodiscard]] std::string KeyOf(const Row& row, std::uint64_t turn) const {
    if (const auto id = Trimmed(TextOf(row.request_id), kSpace); !id.empty()) {
      return std::string(id);
    }
    if (const auto session = Trimmed(TextOf(row.session_id), kSpace); !session.empty()) {
      return std::string(session) + ":" + std::to_string(turn);
    }
    return "line:" + std::to_string(line_index_);
  }

  const std::string& path_;
  ReplayTable table_;
  std::unordered_map<std::string, std::uint64_t> turns_;
  std::uint64_t line_index_ = 0;
};

Result<ReplayTable> ReplayTable::Load(const std::string& path) {
  return Loader(path).Run();
}

std::optional<std::span<const std::uint32_t>> ReplayTable::Find(std::string_view key) const {
  const auto found = rows_.find(key);
  if (found == rows_.end()) {
    return std::nullopt;
  }
  return std::span(tokens_).subspan(found->second.first, found->second.count);
}

std::optional<std::string_view> ReplayKey(std::span<const std::string> annotations) {
  for (const std::string& annotation : annotations) {
    if (annotation.starts_with(kAnnotation)) {
      return std::string_view(annotation).substr(kAnnotation.size());
    }
  }
  return std::nullopt;
}

}  // namespace understudy::worker
