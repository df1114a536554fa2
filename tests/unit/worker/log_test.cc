#include "worker/log/log.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

TEST(Log, FilterSetsLevelsPerTarget) {
  ConfigureLog("warn,worker.request_path=debug,nonsense,x=y", false);
  EXPECT_FALSE(LogEnabled(LogLevel::kInfo, "worker.app"));
  EXPECT_TRUE(LogEnabled(LogLevel::kWarn, "worker.app"));
  EXPECT_TRUE(LogEnabled(LogLevel::kDebug, "worker.request_path"));
  EXPECT_FALSE(LogEnabled(LogLevel::kTrace, "worker.request_path"));
  EXPECT_FALSE(LogEnabled(LogLevel::kDebug, "worker.request_path_other"));
  ConfigureLog("info", false);
}

TEST(Log, JsonLinesParseWhateverTheText) {
  ConfigureLog("info", true);
  ::testing::internal::CaptureStderr();
  Log(LogLevel::kInfo, "worker.app", "said \"x\"\n", {{"request_id", "bad \xff utf8"}});
  const auto line = nlohmann::json::parse(::testing::internal::GetCapturedStderr());
  ConfigureLog("info", false);
  EXPECT_EQ(line["level"], "INFO");
  EXPECT_EQ(line["target"], "worker.app");
  EXPECT_EQ(line["message"], "said \"x\"\n");
  EXPECT_TRUE(line["fields"].contains("request_id"));
  EXPECT_TRUE(line.contains("time"));
}

TEST(Log, TextLinesStayOnOneLine) {
  ConfigureLog("info", false);
  ::testing::internal::CaptureStderr();
  Log(LogLevel::kWarn, "worker.app", "lease lost", {{"ttl_s", "10"}, {"reason", "two\nlines"}});
  const auto text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find(" WARN  worker.app: lease lost ttl_s=10 reason=\"two\\nlines\"\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace understudy::worker
