#include "worker/log/log.h"

#include <chrono>
#include <ctime>
#include <memory>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace understudy::worker {
namespace {

struct Rule {
  std::string target;
  LogLevel level;
};

struct Settings {
  LogLevel level = LogLevel::kInfo;
  std::vector<Rule> rules;  // the longest matching target wins
  bool json = false;
  std::shared_ptr<spdlog::logger> logger;
};

Settings& Current() {
  static Settings settings = [] {
    Settings made;
    made.logger = std::make_shared<spdlog::logger>(
        "understudy", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made.logger->set_pattern("%v");
    made.logger->set_level(spdlog::level::trace);
    made.logger->flush_on(spdlog::level::trace);
    return made;
  }();
  return settings;
}

constexpr std::string_view kNames[] = {"TRACE", "DEBUG", "INFO", "WARN", "ERROR"};

std::optional<LogLevel> ParseLevel(std::string_view text) {
  constexpr std::pair<std::string_view, LogLevel> kLevels[] = {{"trace", LogLevel::kTrace},
                                                               {"debug", LogLevel::kDebug},
                                                               {"info", LogLevel::kInfo},
                                                               {"warn", LogLevel::kWarn},
                                                               {"warning", LogLevel::kWarn},
                                                               {"error", LogLevel::kError}};
  for (const auto& [name, level] : kLevels) {
    if (text == name) {
      return level;
    }
  }
  return std::nullopt;
}

bool Covers(std::string_view rule, std::string_view target) {
  return target.starts_with(rule) && (target.size() == rule.size() || target[rule.size()] == '.');
}

std::string Timestamp() {
  const auto now = std::chrono::system_clock::now();
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() %
      1'000'000;
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[48];
  const auto n = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text + n, sizeof(text) - n, ".%06ldZ", static_cast<long>(micros));
  return text;
}

std::string JsonLine(std::string_view level,
                     std::string_view target,
                     std::string_view message,
                     std::initializer_list<LogField> fields) {
  nlohmann::ordered_json line;
  line["time"] = Timestamp();
  line["level"] = level;
  line["target"] = target;
  line["message"] = message;
  for (const auto& [key, value] : fields) {
    line["fields"][std::string(key)] = value;
  }
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string TextLine(std::string_view level,
                     std::string_view target,
                     std::string_view message,
                     std::initializer_list<LogField> fields) {
  std::string line = Timestamp();
  line.append(" ")
      .append(level)
      .append(level.size() == 4 ? "  " : " ")
      .append(target)
      .append(": ")
      .append(message);
  for (const auto& [key, value] : fields) {
    const bool quote = value.empty() || value.find_first_of(" \t\n\"") != std::string::npos;
    line.append(" ").append(key).append("=");
    line.append(
        quote ? nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
              : value);
  }
  return line;
}

}  // namespace

void ConfigureLog(std::string_view filter, bool json) {
  auto& settings = Current();
  settings.json = json;
  while (!filter.empty()) {
    const auto comma = std::min(filter.find(','), filter.size());
    const auto part = filter.substr(0, comma);
    filter.remove_prefix(std::min(comma + 1, filter.size()));
    if (const auto equals = part.find('='); equals == std::string_view::npos) {
      settings.level = ParseLevel(part).value_or(settings.level);
    } else if (const auto level = ParseLevel(part.substr(equals + 1))) {
      settings.rules.push_back({std::string(part.substr(0, equals)), *level});
    }
  }
}

bool LogEnabled(LogLevel level, std::string_view target) {
  const auto& settings = Current();
  auto threshold = settings.level;
  std::size_t best = 0;
  for (const auto& rule : settings.rules) {
    if (rule.target.size() >= best && Covers(rule.target, target)) {
      best = rule.target.size();
      threshold = rule.level;
    }
  }
  return level >= threshold;
}

void Log(LogLevel level,
         std::string_view target,
         std::string_view message,
         std::initializer_list<LogField> fields) {
  if (!LogEnabled(level, target)) {
    return;
  }
  const auto name = kNames[static_cast<std::size_t>(level)];
  const auto& settings = Current();
  const auto line = settings.json ? JsonLine(name, target, message, fields)
                                  : TextLine(name, target, message, fields);
  settings.logger->log(spdlog::level::info, "{}", line);
}

}  // namespace understudy::worker
