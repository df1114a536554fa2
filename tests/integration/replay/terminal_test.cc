// On a terminal: colours, the bar of a long run, and Ctrl-C.
#include "tests/fakes/server_process.h"
#include "tests/integration/replay/command.h"

#include <csignal>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

const std::string kTrace = std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/data/traces/mixed.jsonl";

/// Nobody waits for its end: the test stops it.
std::vector<std::string> EndlessLoad(const std::string& report) {
  return {"--request-count",
          "1000000000",
          "--input-tokens",
          "128",
          "--output-tokens",
          "16",
          "--request-rate",
          "100",
          "--report",
          report};
}

TEST(ReplayTerminal, TheTableIsColouredThere) {
  TerminalCommand command({kTrace, "--trace-block-size", "256"}, {{"TERM", "xterm"}});
  EXPECT_EQ(command.WaitExit(), 0);
  EXPECT_NE(command.shown().find("\x1b[1m"), std::string::npos) << command.shown();
}

TEST(ReplayTerminal, NoColourIsRespected) {
  for (const TerminalCommand::Environment& environment :
       {TerminalCommand::Environment{{"TERM", "xterm"}, {"NO_COLOR", "1"}},
        TerminalCommand::Environment{{"TERM", "dumb"}}}) {
    TerminalCommand command({kTrace, "--trace-block-size", "256"}, environment);
    EXPECT_EQ(command.WaitExit(), 0);
    EXPECT_EQ(command.shown().find("\x1b[1m"), std::string::npos) << command.shown();
    EXPECT_NE(command.shown().find("46 completed of 46"), std::string::npos);
  }
}

class ReplayInterrupted : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(ReplayInterrupted, ReportsWhatWasDone) {
  const auto [signal, exit_code] = GetParam();
  const fakes::TempDir folder;
  const auto path = folder.path() + "/report.json";
  TerminalCommand command(EndlessLoad(path), {{"TERM", "xterm"}});
  ASSERT_TRUE(command.ReadUntil([](const std::string& shown) {
    return shown.find("ETA") != std::string::npos;
  })) << command.shown();
  command.Signal(signal);
  EXPECT_EQ(command.WaitExit(), exit_code) << command.shown();
  EXPECT_NE(command.shown().find("The run was interrupted"), std::string::npos);
  const auto report = nlohmann::json::parse(ReadText(path), nullptr, false);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report["understudy"]["end"], "stopped");
  EXPECT_GT(report["completed_requests"], 0);
  EXPECT_GT(report["mean_ttft_ms"], 0.0);
}
INSTANTIATE_TEST_SUITE_P(Signals,
                         ReplayInterrupted,
                         ::testing::Values(std::pair(SIGINT, 130), std::pair(SIGTERM, 143)));

}  // namespace
}  // namespace understudy::worker
