// What a person gets who mistypes: one line that says what is wrong, and an exit code.
#include "tests/fakes/server_process.h"
#include "tests/integration/replay/command.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

const std::string kTrace = std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/data/traces/mixed.jsonl";

TEST(ReplayUsage, HelpIsGroupedAndHasExamples) {
  const auto help = RunReplayCommand({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const auto* text : {"Trace:",
                           "Synthetic load",
                           "Workers and router:",
                           "Engine",
                           "Service levels and limits:",
                           "Reports",
                           "--trace-block-size",
                           "--block-size",
                           "Examples:",
                           "Exit codes:"}) {
    EXPECT_NE(help.out.find(text), std::string::npos) << text;
  }
}

TEST(ReplayUsage, WrongUsageIsTwo) {
  for (const auto& arguments : {std::vector<std::string>{},
                                {"--no-such-flag"},
                                {kTrace, "--num-workers", "0"},
                                {kTrace, "--num-workers", "many"},
                                {kTrace, "--router-mode", "random"},
                                {kTrace, "--synthetic"},
                                {kTrace, "--planner-config", "x"},
                                {"--request-count", "5"}}) {
    const auto result = RunReplayCommand(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.err.rfind("understudy replay: error: ", 0), 0U) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

void ExpectOneLine(const CommandResult& result, const std::string& text) {
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err.rfind("understudy replay: error: ", 0), 0U) << result.err;
  EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_EQ(result.out, "");
}

TEST(ReplayUsage, ABadConfigurationIsOneAndNamed) {
  ExpectOneLine(RunReplayCommand({kTrace, "--extra-engine-args", R"({"block_sise": 64})"}),
                "block_sise");
  ExpectOneLine(RunReplayCommand({kTrace, "--extra-engine-args", "no-such-file.json"}),
                "no-such-file.json");
  ExpectOneLine(RunReplayCommand({kTrace,
                                  "--prefill-engine-args",
                                  R"({"num_gpu_blocks": 0})",
                                  "--decode-engine-args",
                                  "{}"}),
                "--prefill-engine-args");
  ExpectOneLine(RunReplayCommand({kTrace, "--router-mode", "kv"}), "num_workers > 1");
}

TEST(ReplayUsage, ABadTraceIsNamedByFileAndLine) {
  const fakes::TempDir folder;
  const auto path = folder.path() + "/trace.jsonl";
  ExpectOneLine(RunReplayCommand({path}), path);
  WriteText(path,
            "{\"timestamp\": 0, \"input_length\": 512, \"output_length\": 4, \"hash_ids\": [1]}\n"
            "{\"timestamp\": 5, \"input_length\": 512, \"hash_ids\": [1]}\n");
  const auto result = RunReplayCommand({path, "--report", folder.path() + "/report.json"});
  ExpectOneLine(result, "output_length");
  EXPECT_NE(result.err.find("2"), std::string::npos) << result.err;
  EXPECT_EQ(ReadText(folder.path() + "/report.json"), "");
  WriteText(path, "");
  ExpectOneLine(RunReplayCommand({path}), "did not contain any requests");
}

TEST(ReplayUsage, AnOutputThatCannotBeWrittenIsToldBeforeTheRun) {
  ExpectOneLine(RunReplayCommand({kTrace, "--report", "/nonexistent/report.json"}),
                "--report '/nonexistent/report.json' cannot be written");
}

TEST(ReplayUsage, AReportOnStandardOutputStandsAlone) {
  const auto result = RunReplayCommand({kTrace, "--trace-block-size", "256", "--report", "-"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out.rfind("{\n", 0), 0U);
  EXPECT_EQ(result.out.find("TTFT"), std::string::npos);
}

/// Words of the commands that begin with `understudy replay`, a backslash at the end joins lines.
std::vector<std::vector<std::string>> CommandsIn(const std::string& text) {
  std::vector<std::vector<std::string>> commands;
  std::istringstream in(text);
  bool goes_on = false;
  for (std::string line; std::getline(in, line);) {
    if (!goes_on && line.rfind("    understudy replay ", 0) != 0) {
      continue;
    }
    if (!goes_on) {
      commands.emplace_back();
    }
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      commands.back().push_back(word);
    }
    goes_on = commands.back().back() == "\\";
    if (goes_on) {
      commands.back().pop_back();
    }
  }
  return commands;
}

TEST(ReplayUsage, TheCommandsOfTheReadmeRun) {
  const std::string root = UNDERSTUDY_SOURCE_DIR;
  const auto commands = CommandsIn(ReadText(root + "/README.md"));
  EXPECT_GE(commands.size(), 3U);
  for (const auto& words : commands) {
    const fakes::TempDir folder;
    std::vector<std::string> arguments;
    for (std::size_t i = 2; i < words.size(); ++i) {
      const bool output = words[i - 1] == "--html" || words[i - 1] == "--report";
      const bool input = words[i].rfind("tests/", 0) == 0;
      arguments.push_back((output ? folder.path() + "/" : input ? root + "/" : "") + words[i]);
    }
    const auto result = RunReplayCommand(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find("TTFT"), std::string::npos);
  }
}

TEST(ReplayUsage, ThePlainTableHasNoColour) {
  const auto result = RunReplayCommand({kTrace, "--trace-block-size", "256"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("46 completed of 46"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(result.err, "");
}

}  // namespace
}  // namespace understudy::worker
