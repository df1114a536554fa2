#include "plugin/mocker/replay/synthetic_source.h"

#include <cmath>

namespace understudy::mocker {

namespace {

constexpr std::uint64_t kRowsMax = 1ULL << 40U;

Status Refuse(const char* field, const std::string& value, const std::string& allowed) {
  return Fail(Errc::kInvalidConfig, std::string(field) + " must be " + allowed + ", got " + value);
}

Status CheckCount(const char* field, std::uint64_t value, std::uint64_t max) {
  if (value >= 1 && value <= max) {
    return {};
  }
  return value == 0 ? Refuse(field, "0", "at least 1")
                    : Refuse(field, std::to_string(value), "at most " + std::to_string(max));
}

Status CheckTime(const char* field, double value) {
  if (std::isfinite(value) && value >= 0.0 && value <= kReplayTimeMaxMs) {
    return {};
  }
  return Refuse(field, std::to_string(value), "a finite non-negative number of at most 1e12 ms");
}

/// Spreads session numbers over groups.
std::uint64_t Mix(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31U);
}

}  // namespace

Status SyntheticSource::Open(ReplayOrder /*order*/) {
  UNDERSTUDY_TRY_STATUS(CheckCount("input_tokens", options_.input_tokens, kReplayTokensMax));
  UNDERSTUDY_TRY_STATUS(CheckCount("output_tokens", options_.output_tokens, kReplayTokensMax));
  UNDERSTUDY_TRY_STATUS(CheckCount("turns_per_session", options_.turns_per_session, kRowsMax));
  UNDERSTUDY_TRY_STATUS(
      CheckCount("request_count", options_.request_count, kRowsMax / options_.turns_per_session));
  UNDERSTUDY_TRY_STATUS(CheckCount("block_size", options_.block_size, kReplayTokensMax));
  UNDERSTUDY_TRY_STATUS(CheckTime("arrival_interval_ms", options_.arrival_interval_ms));
  UNDERSTUDY_TRY_STATUS(CheckTime("inter_turn_delay_ms", options_.inter_turn_delay_ms));
  if (!(options_.shared_prefix_ratio >= 0.0 && options_.shared_prefix_ratio <= 1.0)) {
    return Refuse(
        "shared_prefix_ratio", std::to_string(options_.shared_prefix_ratio), "between 0.0 and 1.0");
  }
  blocks_ = (std::uint64_t{options_.input_tokens} + options_.block_size - 1) / options_.block_size;
  prefix_blocks_ = options_.num_prefix_groups == 0
                       ? 0
                       : static_cast<std::uint64_t>(std::llround(static_cast<double>(blocks_) *
                                                                 options_.shared_prefix_ratio));
  own_blocks_ = blocks_ - prefix_blocks_;
  return {};
}

std::uint64_t SyntheticSource::GroupOf(std::uint64_t session) const {
  return options_.num_prefix_groups == 0 || options_.merge_prefix_groups
             ? 0
             : Mix(session + (options_.seed << 1U)) % options_.num_prefix_groups;
}

void SyntheticSource::Fill(std::uint64_t number, ReplayRow& row) const {
  const std::uint64_t session = number / options_.turns_per_session;
  const std::uint64_t turn = number % options_.turns_per_session;
  row.request_id.clear();
  row.session_id.clear();
  if (has_sessions() || options_.names_sessions) {
    row.session_id = "session_" + std::to_string(session);
  }
  row.ordinal = session;
  row.turn = static_cast<std::uint32_t>(turn);
  row.input_length = options_.input_tokens;
  row.output_length = options_.output_tokens;
  row.output_token_ids.clear();
  row.priority = 0;
  row.strict_priority = 0;
  row.hash_ids.clear();
  // Own ids count up from 1; a group's are apart from them in the 32 bits that make a token.
  const std::uint64_t group = GroupOf(session);
  for (std::uint64_t i = 0; i < prefix_blocks_; ++i) {
    row.hash_ids.push_back(0xFFFFFFFFU - (group * prefix_blocks_ + i));
  }
  for (std::uint64_t i = 0; i < own_blocks_; ++i) {
    row.hash_ids.push_back(number * own_blocks_ + i + 1);
  }
  const bool last = turn + 1 == options_.turns_per_session;
  row.next = last ? kNoTurn : number + 1;
  row.next_delay_ms = last ? 0.0 : options_.inter_turn_delay_ms;
}

Result<bool> SyntheticSource::Next(ReplayRow& row) {
  if (sessions_given_ == options_.request_count) {
    return false;
  }
  Fill(sessions_given_ * options_.turns_per_session, row);
  row.timestamp_ms = next_arrival_ms_;
  ++sessions_given_;
  if (options_.poisson_arrivals) {
    const double uniform = static_cast<double>(random_.Next() >> 11U) * 0x1p-53;  // [0, 1)
    next_arrival_ms_ -= options_.arrival_interval_ms * std::log(1.0 - uniform);
  } else {
    next_arrival_ms_ = static_cast<double>(sessions_given_) * options_.arrival_interval_ms;
  }
  return true;
}

Status SyntheticSource::ReadTurn(TurnToken token, ReplayRow& row) {
  Fill(token, row);
  row.timestamp_ms = 0.0;
  return {};
}

std::unique_ptr<ReplaySource> NewSyntheticSource(const SyntheticOptions& options) {
  return std::make_unique<SyntheticSource>(options);
}

}  // namespace understudy::mocker
