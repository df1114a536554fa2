// What `understudy call` writes to stdout: text for people, or JSON lines (--json), each line
// whole.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/codec.h"
#include "worker/call/outcome.h"
#include "worker/call/targets.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::worker {

/// Lines of one run. `several`: lines name the request they belong to. `quiet`: no line per token.
class CallPrinter {
 public:
  CallPrinter(bool json, bool several, bool quiet)
      : json_(json), several_(several), quiet_(quiet) {}

  void Targets(const FoundTargets& found);
  void Sent(const CallOutcome& outcome, const CallTarget& target);
  void Token(const CallOutcome& outcome, std::uint32_t token);
  void Ended(const CallOutcome& outcome);
  /// All requests together; only text when there was more than one.
  void Total(const std::vector<CallOutcome>& outcomes, double wall_ms);
  void Event(std::string_view subject, std::string_view bytes);
  void Note(const std::string& text);

 private:
  void EndedText(const CallOutcome& outcome);
  void EndedJson(const CallOutcome& outcome);
  [[nodiscard]] std::string Who(const CallOutcome& outcome) const;

  bool json_;
  bool several_;
  bool quiet_;
};

/// One line of text about a message of the event plane.
[[nodiscard]] std::string DescribeEvent(std::string_view subject, std::string_view bytes);
/// The same as a JSON object.
[[nodiscard]] std::string DescribeEventJson(std::string_view subject, std::string_view bytes);

}  // namespace understudy::worker
