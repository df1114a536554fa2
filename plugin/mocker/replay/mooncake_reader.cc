#include "plugin/mocker/replay/mooncake_reader.h"

#include <algorithm>
#include <cmath>

namespace understudy::mocker {

namespace {

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

MooncakeReader::MooncakeReader(std::string path, std::uint32_t trace_block_size)
    : file_(std::move(path)), block_size_(trace_block_size), parser_(trace_block_size) {}

tl::unexpected<Error> MooncakeReader::At(std::uint64_t line, const std::string& problem) const {
  return Fail(Errc::kMalformed,
              "trace file " + file_.path() + ", line " + std::to_string(line) + ": " + problem);
}

Result<bool> MooncakeReader::NextLine(Line& line) {
  for (;;) {
    UNDERSTUDY_TRY(const bool there, file_.Next(line));
    if (!there || !IsBlank(line.text)) {
      return there;
    }
  }
}

Status MooncakeReader::Parse(const Line& line) {
  if (auto parsed = parser_.Parse(line.text, row_); !parsed) {
    return At(line.number, parsed.error().message);
  }
  return {};
}

Status MooncakeReader::ParseAt(std::uint64_t offset, std::uint32_t line) {
  UNDERSTUDY_TRY(const std::string_view text, file_.ReadAt(offset));
  return Parse({text, offset, line});
}

Status MooncakeReader::Open(ReplayOrder order) {
  if (block_size_ == 0) {
    return Fail(Errc::kInvalidConfig, "trace_block_size must be greater than 0");
  }
  UNDERSTUDY_TRY_STATUS(file_.Open());
  UNDERSTUDY_TRY_STATUS(Scan(order));
  if (rows_total_ == 0) {
    return Fail(Errc::kMalformed, "trace file " + file_.path() + " did not contain any requests");
  }
  if (!sorted_) {
    UNDERSTUDY_TRY_STATUS(CollectFirsts());
  }
  file_.Rewind();
  return {};
}

Status MooncakeReader::Scan(ReplayOrder order) {
  Sessions sessions;
  Line line;
  for (;;) {
    UNDERSTUDY_TRY(const bool there, NextLine(line));
    if (!there) {
      break;
    }
    if (line.number >= kNone) {
      return At(line.number, "more lines than " + std::to_string(kNone - 1));
    }
    UNDERSTUDY_TRY_STATUS(ScanRow(line, order, sessions));
    ++rows_total_;
  }
  turns_.shrink_to_fit();
  return {};
}

Status MooncakeReader::ScanRow(const Line& line, ReplayOrder order, Sessions& sessions) {
  UNDERSTUDY_TRY_STATUS(Parse(line));
  if (row_.session_id.empty()) {
    return AddFirst(line, order);
  }
  const auto [found, is_first] = sessions.try_emplace(row_.session_id);
  Session& session = found->second;
  if (is_first) {
    UNDERSTUDY_TRY_STATUS(AddFirst(line, order));
    turns_.push_back({line.offset, kFirst, kNone, static_cast<std::uint32_t>(line.number)});
  } else {
    has_sessions_ = true;
    UNDERSTUDY_TRY_STATUS(AddTurn(line, session));
  }
  session.last = static_cast<std::uint32_t>(turns_.size() - 1);
  if (row_.timestamp_ms) {
    session.timestamp_ms = row_.timestamp_ms;
  }
  return {};
}

Status MooncakeReader::AddFirst(const Line& line, ReplayOrder order) {
  if (row_.delay_ms.value_or(0.0) != 0.0) {
    return At(
        line.number,
        "field \"delay\": sets delay on the first turn of session " +
            (row_.session_id.empty() ? "request_" + std::to_string(line.number) : row_.session_id));
  }
  if (order == ReplayOrder::kAsListed) {
    return {};
  }
  if (!row_.timestamp_ms) {
    return At(line.number, "field \"timestamp\" is missing (first turn of a session)");
  }
  const double timestamp = *row_.timestamp_ms;
  const bool none_before = rows_total_ == 0;
  first_ms_ = none_before ? timestamp : std::min(first_ms_, timestamp);
  sorted_ = sorted_ && (none_before || timestamp >= latest_ms_);
  latest_ms_ = none_before ? timestamp : std::max(latest_ms_, timestamp);
  return {};
}

Status MooncakeReader::AddTurn(const Line& line, Session& session) {
  double delay = 0.0;
  if (row_.delay_ms) {
    delay = *row_.delay_ms;
  } else if (row_.timestamp_ms) {
    if (!session.timestamp_ms) {
      return At(line.number,
                "field \"timestamp\": session " + row_.session_id +
                    " cannot infer delay without a previous timestamp");
    }
    delay = *row_.timestamp_ms - *session.timestamp_ms;
  }
  if (delay < 0.0) {
    return At(line.number,
              "field \"timestamp\": got " + std::to_string(*row_.timestamp_ms) +
                  ", which is before the previous turn of session " + row_.session_id);
  }
  turns_[session.last].next = static_cast<std::uint32_t>(turns_.size());
  turns_.push_back({line.offset, delay, kNone, static_cast<std::uint32_t>(line.number)});
  return {};
}

Status MooncakeReader::CollectFirsts() {
  file_.Rewind();
  Line line;
  std::uint32_t turn = 0;
  for (;;) {
    UNDERSTUDY_TRY(const bool there, NextLine(line));
    if (!there) {
      break;
    }
    const bool in_session = turn < turns_.size() && turns_[turn].offset == line.offset;
    if (!in_session || turns_[turn].delay_ms == kFirst) {
      UNDERSTUDY_TRY_STATUS(Parse(line));
      firsts_.push_back({row_.timestamp_ms.value_or(0.0),
                         line.offset,
                         in_session ? turn : kNone,
                         static_cast<std::uint32_t>(line.number)});
    }
    turn += in_session ? 1U : 0U;
  }
  std::stable_sort(firsts_.begin(), firsts_.end(), [](const First& a, const First& b) {
    return a.timestamp_ms < b.timestamp_ms;
  });
  return {};
}

void MooncakeReader::Give(ReplayRow& row, std::uint32_t line, std::uint32_t turn) {
  row.request_id.swap(row_.request_id);
  row.session_id.swap(row_.session_id);
  if (row.session_id.empty() && has_sessions_) {
    row.session_id = "request_" + std::to_string(line);
  }
  row.ordinal = line;
  row.turn = 0;
  row.timestamp_ms = row_.timestamp_ms.value_or(first_ms_) - first_ms_;
  row.input_length = row_.input_length;
  row.output_length = row_.output_length;
  row.hash_ids.swap(row_.hash_ids);
  row.output_token_ids.swap(row_.output_token_ids);
  row.priority = row_.priority;
  row.strict_priority = row_.strict_priority;
  const std::uint32_t next = turn == kNone ? kNone : turns_[turn].next;
  row.next = next == kNone ? kNoTurn : next;
  row.next_delay_ms = next == kNone ? 0.0 : turns_[next].delay_ms;
}

Result<bool> MooncakeReader::Next(ReplayRow& row) {
  if (sorted_) {
    return NextInOrder(row);
  }
  if (next_first_ == firsts_.size()) {
    return false;
  }
  const First& first = firsts_[next_first_++];
  UNDERSTUDY_TRY_STATUS(ParseAt(first.offset, first.line));
  Give(row, first.line, first.turn);
  return true;
}

Result<bool> MooncakeReader::NextInOrder(ReplayRow& row) {
  Line line;
  for (;;) {
    UNDERSTUDY_TRY(const bool there, NextLine(line));
    if (!there) {
      return false;
    }
    const bool in_session = next_turn_ < turns_.size() && turns_[next_turn_].offset == line.offset;
    const std::uint32_t turn = in_session ? next_turn_++ : kNone;
    if (in_session && turns_[turn].delay_ms != kFirst) {
      continue;
    }
    UNDERSTUDY_TRY_STATUS(Parse(line));
    Give(row, static_cast<std::uint32_t>(line.number), turn);
    return true;
  }
}

Status MooncakeReader::ReadTurn(TurnToken token, ReplayRow& row) {
  const auto turn = static_cast<std::uint32_t>(token);
  UNDERSTUDY_TRY_STATUS(ParseAt(turns_[turn].offset, turns_[turn].line));
  Give(row, turns_[turn].line, turn);
  return {};
}

std::unique_ptr<ReplaySource> NewMooncakeReader(std::string path, std::uint32_t trace_block_size) {
  return std::make_unique<MooncakeReader>(std::move(path), trace_block_size);
}

}  // namespace understudy::mocker
