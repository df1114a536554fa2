#include "worker/ctl/options.h"

#include "worker/call/flag_values.h"
#include "worker/call/options.h"
#include "worker/call/uuid.h"
#include "worker/registration/control_endpoints.h"

#include <limits>
#include <utility>

namespace understudy::worker {
namespace {

using transport::ControlOp;

constexpr std::int64_t kU32Max = std::numeric_limits<std::uint32_t>::max();

bool BringsPrompt(ControlOp op) {
  return op == ControlOp::kSubmitPrefill || op == ControlOp::kReserveDestination;
}

/// The worker's endpoint is as good a name as that of its control endpoint.
Result<transport::EndpointName> ControlOf(const CtlFlags& flags, const Environment& env) {
  UNDERSTUDY_TRY(auto name, ChooseEndpoint(flags.endpoint, flags.ns, env));
  name.endpoint = kControlEndpoint;
  return name;
}

Status ReadHandoff(const CtlFlags& flags, transport::ControlCommand& command) {
  const bool registers = command.op == ControlOp::kRegisterHandoff;
  if (!flags.handoff_id && !registers) {
    return Fail(Errc::kInvalidConfig, "--handoff-id is missing");
  }
  const auto text = flags.handoff_id.value_or(NewUuid());
  const auto uuid = ParseUuid(text);
  if (!uuid) {
    return tl::make_unexpected(RefuseFlag("--handoff-id", text.substr(0, 64), "a UUID"));
  }
  command.handoff_id = *uuid;
  if (registers) {
    return {};
  }
  if (!flags.generation) {
    return Fail(Errc::kInvalidConfig,
                "--generation is missing (`understudy ctl handoff register` prints it)");
  }
  command.generation = *flags.generation;
  return {};
}

Status ReadPrompt(const CtlFlags& flags, transport::ControlCommand& command) {
  if (flags.token_ids.has_value() == flags.prompt_tokens.has_value()) {
    return Fail(Errc::kInvalidConfig, "give either --token-ids or --prompt-tokens");
  }
  CallPlan prompt;
  if (flags.token_ids) {
    UNDERSTUDY_TRY(prompt.token_ids, ParseTokenIds(*flags.token_ids));
  } else {
    UNDERSTUDY_TRY(prompt.prompt_tokens,
                   U32InRange("--prompt-tokens", *flags.prompt_tokens, 1, kPromptTokensMax));
  }
  prompt.seed = static_cast<std::uint64_t>(flags.seed);
  command.token_ids = PromptOf(prompt, 0);
  UNDERSTUDY_TRY(command.max_tokens, U32InRange("--max-tokens", flags.max_tokens, 0, kU32Max));
  if (flags.request_id) {
    const auto size = flags.request_id->size();
    if (size == 0 || size > transport::kControlRequestIdBytesMax) {
      return tl::make_unexpected(
          RefuseFlag("--request-id", flags.request_id->substr(0, 64), "1 to 256 bytes"));
    }
    command.request_id = *flags.request_id;
  }
  return {};
}

}  // namespace

Result<CtlPlan> MakeCtlPlan(ControlOp op, const CtlFlags& flags, const Environment& env) {
  CtlPlan plan;
  auto& command = plan.command;
  command.op = op;
  if (flags.discovery_backend != "etcd" && flags.discovery_backend != "file") {
    return tl::make_unexpected(
        RefuseFlag("--discovery-backend", flags.discovery_backend, "etcd, file"));
  }
  plan.discovery_backend = flags.discovery_backend;
  UNDERSTUDY_TRY(plan.endpoint, ControlOf(flags, env));
  if (flags.instance) {
    UNDERSTUDY_TRY(plan.instance, ParseInstance(*flags.instance));
  }
  if (flags.all && flags.instance) {
    return Fail(Errc::kInvalidConfig, "--all and --instance exclude each other");
  }
  plan.all = flags.all || op == ControlOp::kStats;
  if (flags.rank) {
    UNDERSTUDY_TRY(command.rank, U32InRange("--rank", *flags.rank, 0, kU32Max));
  }
  if (flags.watch) {
    UNDERSTUDY_TRY(command.interval_ms,
                   U32InRange("--interval-ms",
                              flags.interval_ms,
                              static_cast<std::int64_t>(transport::kControlIntervalMsMin),
                              static_cast<std::int64_t>(transport::kControlIntervalMsMax)));
  }
  command.refuse_in_use = flags.refuse_in_use;
  command.wait = flags.wait;
  if (op >= ControlOp::kRegisterHandoff) {
    UNDERSTUDY_TRY_STATUS(ReadHandoff(flags, command));
  }
  if (BringsPrompt(op)) {
    UNDERSTUDY_TRY_STATUS(ReadPrompt(flags, command));
  }
  plan.endless = flags.watch || op == ControlOp::kRegisterHandoff;
  plan.follows = plan.endless || flags.wait || BringsPrompt(op);
  UNDERSTUDY_TRY(plan.timeout, SecondsInRange("--timeout", flags.timeout_s, false));
  plan.codec =
      flags.codec == "msgpack" ? transport::PayloadCodec::kMsgpack : transport::PayloadCodec::kJson;
  plan.listen_host = flags.listen_host;
  plan.json = flags.json;
  return plan;
}

}  // namespace understudy::worker
