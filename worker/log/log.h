// Log lines on stderr: text (`message key=value`) or JSON lines, as Dynamo's variables ask.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace understudy::worker {

enum class LogLevel : std::uint8_t { kTrace, kDebug, kInfo, kWarn, kError };

using LogField = std::pair<std::string_view, std::string>;

/// Once, before the first line. `filter`: DYN_LOG, a level or `level,target=level,...` (a target
/// names itself and what is below it); unknown words are ignored. `json`: DYN_LOGGING_JSONL.
/// Default: info, text.
void ConfigureLog(std::string_view filter, bool json);

/// Cheap; ask before building costly fields.
[[nodiscard]] bool LogEnabled(LogLevel level, std::string_view target);

/// Any thread. `target` is the folder, for example `worker.request_path`.
void Log(LogLevel level,
         std::string_view target,
         std::string_view message,
         std::initializer_list<LogField> fields = {});

}  // namespace understudy::worker
