#include "worker/cli/commands.h"
#include "worker/cli/flag_set.h"
#include "worker/config/environment.h"
#include "worker/ctl/ctl_app.h"
#include "worker/ctl/options.h"
#include "worker/log/log.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

namespace understudy::worker {
namespace {

using transport::ControlOp;

struct Operation {
  const char* words;  ///< on the command line
  ControlOp op;
  const char* what;
  const char* example;
};
constexpr std::array<Operation, transport::kControlOpCount> kOperations = {{
    {"stats",
     ControlOp::kStats,
     "Shows queues and blocks of each rank, of every instance found.",
     "understudy ctl stats --watch --interval-ms 500"},
    {"clear-kv-blocks",
     ControlOp::kClearKvBlocks,
     "Forgets the cached blocks that no request uses; routers are told.",
     "understudy ctl clear-kv-blocks --all"},
    {"drain",
     ControlOp::kDrain,
     "Takes the worker out of discovery; its requests go on.",
     "understudy ctl drain --instance 694da22a3c5f0b11 --wait"},
    {"resume",
     ControlOp::kResume,
     "Puts a drained worker back under its instance id.",
     "understudy ctl resume --instance 694da22a3c5f0b11"},
    {"handoff register",
     ControlOp::kRegisterHandoff,
     "Registers a hand-off and shows its events until Ctrl-C, which ends the registration.",
     "understudy ctl handoff register --handoff-id 6f0c1a9e-3b52-4d0e-9a71-0123456789ab"},
    {"handoff submit-prefill",
     ControlOp::kSubmitPrefill,
     "Has the prompt of a registered hand-off computed and held.",
     "understudy ctl handoff submit-prefill --handoff-id 6f0c1a9e-3b52-4d0e-9a71-0123456789ab "
     "--generation 1 --prompt-tokens 1000"},
    {"handoff reserve-destination",
     ControlOp::kReserveDestination,
     "Asks for room for a prompt that is computed elsewhere, and shows the tokens later.",
     "understudy ctl handoff reserve-destination --handoff-id "
     "6f0c1a9e-3b52-4d0e-9a71-0123456789ab --generation 1 --prompt-tokens 1000 --max-tokens 16"},
    {"handoff activate-destination",
     ControlOp::kActivateDestination,
     "The prompt has arrived: the reserved request runs.",
     "understudy ctl handoff activate-destination --handoff-id "
     "6f0c1a9e-3b52-4d0e-9a71-0123456789ab --generation 1"},
    {"handoff cancel-destination",
     ControlOp::kCancelDestination,
     "Takes a reservation back, or ends the request that came of it.",
     "understudy ctl handoff cancel-destination --handoff-id "
     "6f0c1a9e-3b52-4d0e-9a71-0123456789ab --generation 1"},
    {"handoff release-source",
     ControlOp::kReleaseSource,
     "Frees the blocks that a computed prompt holds.",
     "understudy ctl handoff release-source --handoff-id 6f0c1a9e-3b52-4d0e-9a71-0123456789ab "
     "--generation 1"},
    {"handoff cancel-source",
     ControlOp::kCancelSource,
     "Ends the source's request in whatever state it is.",
     "understudy ctl handoff cancel-source --handoff-id 6f0c1a9e-3b52-4d0e-9a71-0123456789ab "
     "--generation 1"},
}};

constexpr const char* kEnvironmentHelp =
    "Environment: NATS_SERVER, NATS_AUTH_{USERNAME,PASSWORD,TOKEN}, ETCD_ENDPOINTS, "
    "ETCD_AUTH_{USERNAME,PASSWORD}, DYN_FILE_KV,\n"
    "DYN_NAMESPACE, DYN_DISCOVERY_BACKEND, DYN_LOG.\n"
    "Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 4 nothing found, not reachable or "
    "timed out.";

void PrintUsage() {
  std::printf("understudy ctl: drives live workers through their endpoint `control`\n\n");
  for (const auto& operation : kOperations) {
    std::printf("  understudy ctl %-28s %s\n", operation.words, operation.what);
  }
  std::printf("\nExamples:\n");
  for (const auto& operation : kOperations) {
    if (operation.op <= ControlOp::kRegisterHandoff) {
      std::printf("  %s\n", operation.example);
    }
  }
  std::printf("\nEvery operation explains its flags with --help.\n%s\n", kEnvironmentHelp);
}

void AddTargetFlags(FlagSet& flags, CtlFlags& f, ControlOp op) {
  flags.Group("Which worker");
  flags.Text("--discovery-backend", &f.discovery_backend, "etcd or file ($DYN_DISCOVERY_BACKEND)");
  flags.Text("--endpoint",
             &f.endpoint,
             "The worker's dyn://namespace.component.endpoint; default "
             "dyn://$DYN_NAMESPACE.backend.generate");
  flags.Text("--namespace", &f.ns, "Another namespace, with backend.generate");
  flags.Text("--instance", &f.instance, "Instance id in hexadecimal (`understudy call --list`)");
  if (op < ControlOp::kRegisterHandoff && op != ControlOp::kStats) {
    flags.Switch("--all", &f.all, "Every instance that is found");
  }
}

void AddPromptFlags(FlagSet& flags, CtlFlags& f) {
  flags.Text("--token-ids", &f.token_ids, "Prompt as token ids: 1,2,3");
  flags.Integer("--prompt-tokens",
                &f.prompt_tokens,
                "Prompt of so many random token ids, which depend on --seed only");
  flags.Integer("--seed", &f.seed, "Chooses the random prompt");
  flags.Integer("--max-tokens", &f.max_tokens, "Tokens to generate");
  flags.Text("--request-id", &f.request_id, "What the request is called; default: a fresh name");
}

void AddOperationFlags(FlagSet& flags, CtlFlags& f, ControlOp op) {
  flags.Group("Operation");
  if (op != ControlOp::kDrain && op != ControlOp::kResume) {
    flags.Integer("--rank",
                  &f.rank,
                  op < ControlOp::kRegisterHandoff ? "Data-parallel rank; default: all"
                                                   : "Data-parallel rank; default: 0");
  }
  switch (op) {
    case ControlOp::kStats:
      flags.Switch("--watch", &f.watch, "Again and again, until Ctrl-C");
      flags.Integer("--interval-ms", &f.interval_ms, "Milliseconds between, with --watch");
      break;
    case ControlOp::kClearKvBlocks:
      flags.Switch("--refuse-in-use",
                   &f.refuse_in_use,
                   "A rank with blocks in use keeps all of them, as real engines do");
      break;
    case ControlOp::kDrain:
      flags.Switch("--wait", &f.wait, "Until the last request has ended");
      break;
    case ControlOp::kResume:
      break;
    default:
      flags.Text("--handoff-id",
                 &f.handoff_id,
                 op == ControlOp::kRegisterHandoff ? "UUID; default: a fresh one" : "UUID");
      if (op != ControlOp::kRegisterHandoff) {
        flags.Count("--generation", &f.generation, "As `handoff register` has printed it");
      }
      if (op == ControlOp::kSubmitPrefill || op == ControlOp::kReserveDestination) {
        AddPromptFlags(flags, f);
      }
  }
}

void AddOutputFlags(FlagSet& flags, CtlFlags& f) {
  flags.Group("Answer");
  flags.Real("--timeout", &f.timeout_s, "Seconds without an answer until it is given up");
  flags.Text("--codec", &f.codec, "Payload codec", {"json", "msgpack"});
  flags.Text("--listen-host",
             &f.listen_host,
             "IP address that workers call back; default: ours on the way to the NATS server");
  flags.Switch("--json", &f.json, "JSON lines instead of text");
}

int RunOperation(const Operation& operation, const std::vector<std::string>& arguments) {
  const auto env = ProcessEnvironment();
  CtlFlags given;
  given.discovery_backend = Text(env, "DYN_DISCOVERY_BACKEND", "etcd");
  FlagSet flags(std::string("understudy ctl ") + operation.words, operation.what);
  AddTargetFlags(flags, given, operation.op);
  AddOperationFlags(flags, given, operation.op);
  AddOutputFlags(flags, given);
  flags.Footer(std::string("Example: ") + operation.example + "\n" + kEnvironmentHelp);
  if (const auto outcome = flags.Parse(arguments); !outcome.proceed) {
    return outcome.exit_code;
  }
  ConfigureLog(Text(env, "DYN_LOG", "warn"), Flag(env, "DYN_LOGGING_JSONL", false));
  const auto plan = MakeCtlPlan(operation.op, given, env);
  if (!plan) {
    std::fprintf(stderr, "understudy ctl: error: %s\n", plan.error().message.c_str());
    return 2;
  }
  return RunCtl(*plan, env);
}

}  // namespace

int CtlCommand(const std::vector<std::string>& arguments) {
  auto rest = arguments.begin();
  std::string words;
  for (; rest != arguments.end() && !rest->starts_with('-') && words.find(' ') == words.npos;
       ++rest) {
    (words += words.empty() ? "" : " ") += *rest;
    const auto* operation = std::find_if(kOperations.begin(),
                                         kOperations.end(),
                                         [&](const Operation& one) { return words == one.words; });
    if (operation != kOperations.end()) {
      return RunOperation(*operation, {rest + 1, arguments.end()});
    }
  }
  if (words.empty() || words == "help") {
    PrintUsage();
    const bool asked =
        words == "help" || (rest != arguments.end() && (*rest == "--help" || *rest == "-h"));
    return asked ? 0 : 2;
  }
  std::string allowed;
  for (const auto& operation : kOperations) {
    (allowed += allowed.empty() ? "" : ", ") += operation.words;
  }
  std::fprintf(stderr,
               "understudy ctl: error: no operation '%s' (allowed: %s)\n",
               words.c_str(),
               allowed.c_str());
  return 2;
}

}  // namespace understudy::worker
