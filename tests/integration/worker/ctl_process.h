// `understudy ctl` as a process.
#pragma once

#include "tests/integration/worker/worker_process.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace understudy::worker {

/// Members block.
class Ctl {
 public:
  Ctl(std::vector<std::string> arguments, const WorkerProcess::Environment& environment)
      : process_(std::make_unique<WorkerProcess>(WithName(std::move(arguments)), environment)) {}

  /// Until it has printed so many lines.
  [[nodiscard]] bool WaitLines(std::size_t count) const {
    return Eventually([&] { return Lines().size() >= count; });
  }
  /// Whole ones.
  [[nodiscard]] std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    const std::string text = process_->out();
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos;
         at = end + 1) {
      lines.push_back(text.substr(at, end - at));
    }
    return lines;
  }
  [[nodiscard]] nlohmann::ordered_json Line(std::size_t number) const {
    return nlohmann::ordered_json::parse(Lines().at(number));
  }
  [[nodiscard]] int Exit() { return process_->WaitExit().value_or(-1); }
  [[nodiscard]] std::string err() const { return process_->err(); }
  [[nodiscard]] std::string out() const { return process_->out(); }
  void Signal(int number) const { process_->Signal(number); }

 private:
  static std::vector<std::string> WithName(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "ctl");
    return arguments;
  }
  std::unique_ptr<WorkerProcess> process_;
};

}  // namespace understudy::worker
