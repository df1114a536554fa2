// A Mooncake trace as a source of requests.
#pragma once

#include "plugin/mocker/replay/line_file.h"
#include "plugin/mocker/replay/mooncake_row.h"
#include "understudy/mocker/replay.h"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace understudy::mocker {

/// Reads the file twice: Open checks every line and notes where the turns of sessions are; then
/// lines are read again when they are due. First turns in order of time are read front to back, so
/// that rows without a session cost no memory; only when they are out of order each gets a place.
class MooncakeReader final : public ReplaySource {
 public:
  MooncakeReader(std::string path, std::uint32_t trace_block_size);

  [[nodiscard]] Status Open(ReplayOrder order) override;
  [[nodiscard]] Result<bool> Next(ReplayRow& row) override;
  [[nodiscard]] Status ReadTurn(TurnToken token, ReplayRow& row) override;
  [[nodiscard]] std::uint32_t block_size() const override { return block_size_; }
  [[nodiscard]] bool has_sessions() const override { return has_sessions_; }
  [[nodiscard]] std::uint64_t rows_total() const override { return rows_total_; }
  [[nodiscard]] std::uint64_t rows_held() const override { return turns_.size() + firsts_.size(); }

 private:
  /// A row with a session, 24 bytes.
  struct Turn {
    std::uint64_t offset = 0;
    double delay_ms = kFirst;  ///< kFirst: the first of its session
    std::uint32_t next = kNone;
    std::uint32_t line = 0;
  };
  /// A first turn of a file that is not in order of time, 24 bytes.
  struct First {
    double timestamp_ms = 0.0;
    std::uint64_t offset = 0;
    std::uint32_t turn = kNone;  ///< in turns_, with a session
    std::uint32_t line = 0;
  };
  /// Only during Open.
  struct Session {
    std::uint32_t last = kNone;  ///< in turns_
    std::optional<double> timestamp_ms;
  };
  using Sessions = std::unordered_map<std::string, Session>;

  static constexpr double kFirst = -1.0;
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;

  Result<bool> NextLine(Line& line);
  Status Scan(ReplayOrder order);
  Status ScanRow(const Line& line, ReplayOrder order, Sessions& sessions);
  Status AddFirst(const Line& line, ReplayOrder order);
  Status AddTurn(const Line& line, Session& session);
  Status CollectFirsts();
  Result<bool> NextInOrder(ReplayRow& row);
  Status Parse(const Line& line);
  Status ParseAt(std::uint64_t offset, std::uint32_t line);
  void Give(ReplayRow& row, std::uint32_t line, std::uint32_t turn);
  [[nodiscard]] tl::unexpected<Error> At(std::uint64_t line, const std::string& problem) const;

  LineFile file_;
  std::uint32_t block_size_;
  MooncakeRowParser parser_;
  MooncakeRow row_;

  std::uint64_t rows_total_ = 0;
  bool has_sessions_ = false;
  bool sorted_ = true;
  double first_ms_ = 0.0;  ///< of the earliest first turn
  double latest_ms_ = 0.0;
  std::vector<Turn> turns_;  ///< in order of the file
  std::vector<First> firsts_;
  std::size_t next_first_ = 0;
  std::uint32_t next_turn_ = 0;  ///< in turns_, reading in order
};

}  // namespace understudy::mocker
