// MockerOptions: their checks, and what the schedulers make of them.
#pragma once

#include "plugin/mocker/scheduler/scheduler_config.h"
#include "understudy/base/result.h"
#include "understudy/mocker/mocker_options.h"

namespace understudy::mocker {

/// All checks below. kInvalidConfig, one line, the reference's text where it has one.
[[nodiscard]] Status ValidateOptions(const MockerOptions& options);

/// Each value by itself.
[[nodiscard]] Status CheckRanges(const MockerOptions& options);
/// Blocks can hold a sequence; only SGLang's pages may be single tokens.
[[nodiscard]] Status CheckBlockSize(const MockerOptions& options);
/// Speculative decoding has no decode speedup beside it.
[[nodiscard]] Status CheckDecodeSpeedup(const MockerOptions& options);
/// The host tier has a size, and the engine is one that uses it.
[[nodiscard]] Status CheckHostOffload(const MockerOptions& options);
/// A pass of SGLang can take a page.
[[nodiscard]] Status CheckPages(const MockerOptions& options);

/// `options` are valid. Policy and model are left to the caller.
[[nodiscard]] SchedulerConfig MakeSchedulerConfig(const MockerOptions& options);

/// Ranks of one worker, at least one.
[[nodiscard]] std::uint32_t RanksPerWorker(const MockerOptions& options);

/// What a rank makes of the SGLang options: those of a worker with several ranks are shared out.
[[nodiscard]] SglangOptions SglangOf(const MockerOptions& options);

/// Engine threads for these options on this machine: at least one.
[[nodiscard]] std::uint32_t ThreadCount(const MockerOptions& options);

}  // namespace understudy::mocker
