// The simulated engine: schedules, caches and times requests like a GPU engine, without a GPU.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/base/result.h"
#include "understudy/engine/engine.h"
#include "understudy/mocker/mocker_options.h"

#include <memory>
#include <string>
#include <vector>

namespace understudy::mocker {

/// Checks `options` and makes an engine that has not started. `clock` must run with CLOCK_MONOTONIC
/// (engine threads wait on that clock until the deadlines they compute from `clock`) and outlive
/// the engine. Errors: kInvalidConfig with the reference's text where it has one
/// (dynamo-mocker 1.3.0, golden vector engine_args_validation.json), else one that names the field.
/// `warnings`, if not null, gets one line for each thing that was put right silently.
[[nodiscard]] Result<std::unique_ptr<engine::Engine>> NewMockerEngine(
    MockerOptions options, const Clock& clock, std::vector<std::string>* warnings = nullptr);

}  // namespace understudy::mocker
