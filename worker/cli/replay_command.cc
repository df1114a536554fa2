#include "worker/cli/replay_command.h"

#include "worker/cli/commands.h"
#include "worker/cli/engine_flag_groups.h"
#include "worker/replay/describe.h"
#include "worker/replay/replay_app.h"

#include <cstdio>
#include <string>
#include <vector>

namespace understudy::worker {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

void AddWorkloadFlags(FlagSet& flags, ReplayFlags& f) {
  flags.Group("Trace");
  flags.Text("trace", &f.trace, "Mooncake trace: a JSON object a line");
  flags.Integer("--trace-block-size",
                &f.trace_block_size,
                "Tokens that each hash id stands for; default 512");
  flags.Text("--trace-format", &f.trace_format, "mooncake (other formats are not supported)");
  flags.Real("--arrival-speedup-ratio",
             &f.arrival_speedup_ratio,
             "Divides timestamps and delays of the workload");
  flags.Group("Synthetic load (instead of a trace)");
  flags.Switch("--synthetic", &f.synthetic, "Make the load from the numbers below");
  flags.Integer("--request-count", &f.request_count, "Requests; with turns, sessions");
  flags.Integer("--input-tokens", &f.input_tokens, "Prompt tokens of a request");
  flags.Integer("--output-tokens", &f.output_tokens, "Generated tokens of a request");
  flags.Real("--arrival-interval-ms", &f.arrival_interval_ms, "Between arrivals; default 1 ms");
  flags.Real("--request-rate", &f.request_rate, "Requests per second, instead of an interval");
  flags.Text("--arrival-process",
             &f.arrival_process,
             "Distances between arrivals: all equal (default), or random with that mean (default "
             "of --request-rate in 1.6)",
             {"constant", "poisson"});
  flags.Integer("--turns-per-session", &f.turns_per_session, "Turns of a conversation");
  flags.Real("--inter-turn-delay-ms",
             &f.inter_turn_delay_ms,
             "From the end of a turn to the arrival of the next");
  flags.Real("--shared-prefix-ratio",
             &f.shared_prefix_ratio,
             "Share of a prompt's blocks that its group has in common, 0 to 1");
  flags.Integer("--num-prefix-groups", &f.num_prefix_groups, "Groups with a prefix in common");
}

void AddWorkerFlags(FlagSet& flags, ReplayFlags& f) {
  flags.Group("Workers and router");
  flags.Integer("--num-workers", &f.num_workers, "Workers that prefill and decode");
  flags.Integer(
      "--num-prefill-workers", &f.num_prefill_workers, "Prefill workers of a disaggregated run");
  flags.Integer(
      "--num-decode-workers", &f.num_decode_workers, "Decode workers of a disaggregated run");
  flags.Integer("--gpus-per-worker",
                &f.gpus_per_worker,
                "For GPU hours; default: what the engine arguments say, else 1");
  flags.Integer("--gpus-per-prefill-worker",
                &f.gpus_per_prefill_worker,
                "The same of the prefill workers of a disaggregated run");
  flags.Text("--router-mode",
             &f.router_mode,
             "Who gets a request: each worker in turn, or the one that its cache and load make "
             "cheapest",
             {"round_robin", "round-robin", "kv_router", "kv"});
  flags.Text("--router-config",
             &f.router_config,
             "JSON object with members of the router's configuration, for kv_router");
  flags.Integer("--replay-concurrency",
                &f.replay_concurrency,
                "Closed loop: so many requests at a time, times of arrival are ignored");
}

void AddOutputFlags(FlagSet& flags, ReplayFlags& f) {
  flags.Group("Service levels and limits");
  flags.Real("--sla-ttft-ms", &f.sla_ttft_ms, "Goodput: time to the first token at most, ms");
  flags.Real("--sla-itl-ms",
             &f.sla_itl_ms,
             "Goodput: mean time between the tokens of a request at most, ms");
  flags.Real("--sla-e2e-ms", &f.sla_e2e_ms, "Goodput: time of a request at most, ms");
  flags.Real("--max-sim-time-ms",
             &f.max_sim_time_ms,
             "No pass starts after so much simulated time; what is under way is left");
  flags.Real("--max-sim-time-seconds", &f.max_sim_time_seconds, "The same in seconds");
  flags.Text("--replay-mode", &f.replay_mode, "offline: in simulated time");
  flags.Integer("--seed", &f.seed, "Of all random choices; equal seeds give equal reports");
  flags.Group("Reports (a path, or - for standard output)");
  flags.Text("--report,--report-json", &f.report, "All figures as JSON");
  flags.Text("--html", &f.html, "A page with plots over time and distributions");
  flags.Text("--requests,--report-jsonl",
             &f.requests,
             "A JSON line for each request, in the order of their ends");
  flags.Switch("--quiet", &f.quiet, "No table on standard output");
}

void AddArgumentFlags(FlagSet& flags, ReplayFlags& f, ReplayEngineFlags& engine) {
  flags.Group("Engine arguments (a JSON object, or a file with one)");
  flags.Text("--dynamo-release",
             &f.dynamo_release,
             "Release whose engine is simulated and whose report is given; 1.6 takes nested "
             "arguments, 1.3 flat ones",
             {"1.3", "1.6"});
  flags.Integer("--data-parallel-size",
                &engine.engine.data_parallel_size,
                "Ranks of a worker, each with its own cache; several with 1.6 only");
  flags.Text("--extra-engine-args",
             &engine.engine.extra_engine_args,
             "Replaces the flags about the engine below, of all workers");
  flags.Text("--prefill-engine-args",
             &f.prefill_engine_args,
             "The same for the prefill workers of a disaggregated run");
  flags.Text("--decode-engine-args", &f.decode_engine_args, "The same for its decode workers");
  flags.Switch("--strict-reference",
               &engine.strict_reference,
               "Behave like the reference where we differ on purpose");
}

void AddRefusedFlags(FlagSet& flags) {
  constexpr const char* kOthers[] = {"--planner-config",
                                     "--benchmark-granularity",
                                     "--router-policy-config",
                                     "--trace-shared-prefix-ratio",
                                     "--trace-num-prefix-groups"};
  for (const auto* flag : kOthers) {
    flags.Refused(flag, "this flag of the reference's replay is not supported");
  }
}

constexpr const char* kFooter =
    "Examples:\n"
    "  understudy replay trace.jsonl --num-workers 8 --router-mode kv --html report.html\n"
    "  understudy replay trace.jsonl --trace-block-size 64 --sla-ttft-ms 500 --sla-itl-ms 25\n"
    "  understudy replay --synthetic --request-count 10000 --input-tokens 2048 \\\n"
    "      --output-tokens 128 --request-rate 20 --arrival-process poisson\n"
    "  understudy replay trace.jsonl --num-prefill-workers 2 --num-decode-workers 6\n"
    "A trace line: {\"timestamp\": 30, \"input_length\": 1500, \"output_length\": 12, "
    "\"hash_ids\": [1, 2, 3]}\n"
    "Ctrl-C ends a run early and reports what was done; a second one ends it at once.\n"
    "Environment: NO_COLOR.\n"
    "Exit codes: 0 done, 1 the trace, the configuration or an output file is bad, 2 wrong usage, "
    "130 interrupted.";

int Complain(const Error& error, int exit_code) {
  std::fprintf(stderr, "understudy replay: error: %s\n", error.message.c_str());
  return exit_code;
}

}  // namespace

void AddReplayFlags(FlagSet& flags, ReplayFlags& given, ReplayEngineFlags& engine) {
  AddWorkloadFlags(flags, given);
  AddWorkerFlags(flags, given);
  AddOutputFlags(flags, given);
  AddArgumentFlags(flags, given, engine);
  AddEngineFlags(flags, engine.engine);
  AddTransferFlags(flags, engine.engine);
  AddIdleFlags(flags, engine.engine);
  AddRefusedFlags(flags);
}

int ReplayCommand(const std::vector<std::string>& arguments) {
  ReplayFlags given;
  ReplayEngineFlags engine;
  FlagSet flags("understudy replay",
                "Runs a trace or a synthetic load against simulated workers, in simulated time as "
                "fast as this machine computes it.");
  AddReplayFlags(flags, given, engine);
  flags.Footer(kFooter);
  if (const auto outcome = flags.Parse(arguments); !outcome.proceed) {
    return outcome.exit_code;
  }
  if (const auto spellings = CheckSpellings(arguments); !spellings) {
    return Complain(spellings.error(), kExitUsage);
  }
  auto plan = MakeReplayPlan(given);
  if (!plan) {
    return Complain(plan.error(), kExitUsage);
  }
  engine.release.semantics = SemanticsOf(given.dynamo_release);
  std::vector<std::string> warnings;
  if (const auto set = SetReplayEngines(engine, *plan, warnings); !set) {
    return Complain(set.error(), kExitFailed);
  }
  for (const auto& warning : warnings) {
    std::fprintf(stderr, "understudy replay: warning: %s\n", warning.c_str());
  }
  return RunReplayPlan(*plan, DescribeReplay(*plan, arguments));
}

}  // namespace understudy::worker
