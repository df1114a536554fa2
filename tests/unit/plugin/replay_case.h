// Recorded runs of the original's offline replay, run again with ours.
#pragma once

#include "understudy/mocker/replay.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace understudy::mocker {

/// A file in the test's own folder for temporary files, removed at the end.
class TraceFile {
 public:
  /// One line each.
  explicit TraceFile(const std::vector<std::string>& lines);
  explicit TraceFile(const nlohmann::json& rows);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void Write(const std::vector<std::string>& lines);
  std::string path_;
};

/// The workload of a case.
class GoldenSource {
 public:
  GoldenSource(const nlohmann::json& golden, SemanticsRelease release);
  [[nodiscard]] ReplaySource& source() { return *source_; }

 private:
  std::unique_ptr<TraceFile> file_;
  std::unique_ptr<ReplaySource> source_;
};

/// `release` recorded the case.
[[nodiscard]] ReplayOptions GoldenReplayOptions(const nlohmann::json& golden,
                                                SemanticsRelease release);

/// Numbers of a report under the names of its release, without those of wall time.
[[nodiscard]] std::map<std::string, double> ReportNumbers(const ReplayReport& report);

/// A record as its release writes it.
[[nodiscard]] nlohmann::json RecordJson(const ReplayRecord& record);

}  // namespace understudy::mocker
