#include "worker/app.h"
#include "worker/cli/commands.h"
#include "worker/cli/flag_set.h"
#include "worker/config/worker_options.h"
#include "worker/log/log.h"

#include <cstdio>
#include <string>

namespace understudy::worker {
namespace {

void AddEngineFlags(FlagSet& flags, WorkerOptions& o) {
  flags.Group("Engine");
  flags.Text(
      "--engine-type", &o.engine_type, "Engine whose scheduler is simulated (this version: vllm)");
  flags.Integer("--num-gpu-blocks-override", &o.num_gpu_blocks, "KV blocks of a rank");
  flags.Integer(
      "--block-size", &o.block_size, "Tokens of a KV block; 0 = the engine's default (vllm 64)");
  flags.Integer("--max-num-seqs", &o.max_num_seqs, "Requests that run at once in a rank");
  flags.Integer("--max-num-batched-tokens", &o.max_num_batched_tokens, "Token budget of a pass");
  flags.Switch("--enable-prefix-caching",
               &o.enable_prefix_caching,
               "Reuse KV blocks of equal prefixes, on by default",
               "--no-enable-prefix-caching");
  flags.Switch("--enable-chunked-prefill",
               &o.enable_chunked_prefill,
               "Split prompts over passes, on by default",
               "--no-enable-chunked-prefill");
  flags.Text("--preemption-mode",
             &o.preemption_mode,
             "Who gives up its blocks under pressure: the newest or the oldest",
             {"lifo", "fifo"});
  flags.Real("--speedup-ratio",
             &o.speedup_ratio,
             "Divides modelled times; 0 = free running, no delay at all");
  flags.Real("--decode-speedup-ratio", &o.decode_speedup_ratio, "Divides decode times further");
  flags.Real(
      "--startup-time", &o.startup_time_s, "Seconds after registration until requests are served");
  flags.Integer("--seed", &o.seed, "Makes the tokens of a run repeatable; random when not given");
  flags.Integer("--engine-threads",
                &o.engine_threads,
                "Threads that run all ranks; 0 = one per core, at most one per rank");
  flags.Switch("--strict-reference",
               &o.strict_reference,
               "Behave like the reference worker where we differ on purpose");
}

void AddProcessFlags(FlagSet& flags, WorkerOptions& o) {
  flags.Group("Model and place");
  flags.Text("--model-path",
             &o.model_path,
             "Folder with config.json and tokenizer.json, seen at the same path by the frontend");
  flags.Text("--model-name", &o.model_name, "Name in the HTTP API; default: from the path");
  flags.Text("--endpoint",
             &o.endpoint,
             "dyn://namespace.component.endpoint; default dyn://$DYN_NAMESPACE.backend.generate");
  flags.Integer(
      "--data-parallel-size", &o.data_parallel_size, "Ranks of a worker, each with its own cache");
  flags.Integer("--num-workers",
                &o.num_workers,
                "Workers in this process: one lease, one pair of connections for all");
  flags.Real(
      "--stagger-delay", &o.stagger_delay_s, "Accepted for compatibility; workers start together");
  flags.Group("Wires");
  flags.Text("--discovery-backend", &o.discovery_backend, "etcd or file ($DYN_DISCOVERY_BACKEND)");
  flags.Text("--request-plane", &o.request_plane, "nats ($DYN_REQUEST_PLANE)");
  flags.Text("--event-plane", &o.event_plane, "nats ($DYN_EVENT_PLANE)");
  flags.Text("--dynamo-release",
             &o.dynamo_release,
             "Release whose wire forms are spoken (this version: 1.3)");
  flags.Text("--on-lease-loss",
             &o.on_lease_loss,
             "restore: register again under the same ids; exit: drain and exit with 3",
             {"restore", "exit"});
  flags.Group("Limits");
  flags.Integer("--prompt-tokens-max", &o.prompt_tokens_max, "Tokens of a prompt");
  flags.Integer("--body-bytes-max", &o.body_bytes_max, "Bytes of a request body");
  flags.Integer("--nesting-max", &o.nesting_max, "Nesting of a request body");
  flags.Integer("--waiting-requests-max",
                &o.waiting_requests_max,
                "Requests that wait in a rank; more are refused");
  flags.Integer("--open-streams-max",
                &o.open_streams_max,
                "Response streams of the process; more are refused");
  flags.Integer("--drain-grace-ms",
                &o.drain_grace_ms,
                "Time between leaving discovery and the end of the subscription");
}

void AddRefusedFlags(FlagSet& flags) {
  constexpr const char* kLater[] = {"--planner-profile-data",
                                    "--aic-perf-model",
                                    "--gpu-memory-utilization",
                                    "--mem-fraction-static",
                                    "--free-gpu-memory-fraction",
                                    "--aic-system",
                                    "--aic-backend",
                                    "--aic-backend-version",
                                    "--aic-tp-size",
                                    "--aic-moe-tp-size",
                                    "--aic-moe-ep-size",
                                    "--aic-attention-dp-size",
                                    "--aic-nextn",
                                    "--aic-nextn-accept-rates",
                                    "--aic-mtp-seed",
                                    "--reasoning",
                                    "--response-replay-trace-path",
                                    "--sglang-schedule-policy",
                                    "--sglang-page-size",
                                    "--sglang-max-prefill-tokens",
                                    "--sglang-chunked-prefill-size",
                                    "--sglang-clip-max-new-tokens",
                                    "--sglang-schedule-conservativeness",
                                    "--trtllm-capacity-scheduler-policy",
                                    "--extra-engine-args",
                                    "--is-prefill-worker",
                                    "--is-decode-worker",
                                    "--durable-kv-events",
                                    "--zmq-kv-events-ports",
                                    "--zmq-replay-ports",
                                    "--bootstrap-ports",
                                    "--kv-transfer-bandwidth",
                                    "--kv-transfer-timing-mode",
                                    "--kv-cache-dtype",
                                    "--kv-bytes-per-token",
                                    "--num-g2-blocks",
                                    "--num-g3-blocks",
                                    "--enable-g4-storage",
                                    "--offload-batch-size",
                                    "--bandwidth-g1-to-g2-gbps",
                                    "--bandwidth-g2-to-g1-gbps",
                                    "--bandwidth-g2-to-g3-gbps",
                                    "--bandwidth-g3-to-g2-gbps",
                                    "--bandwidth-g2-to-g4-gbps",
                                    "--bandwidth-g4-to-g2-gbps"};
  for (const auto* flag : kLater) {
    flags.Refused(flag, "this flag of the reference worker is not supported by this version");
  }
}

}  // namespace

int WorkerCommand(const std::vector<std::string>& arguments) {
  const auto env = ProcessEnvironment();
  WorkerOptions options;
  options.discovery_backend = Text(env, "DYN_DISCOVERY_BACKEND", "etcd");
  options.request_plane = Text(env, "DYN_REQUEST_PLANE", "nats");
  options.event_plane = Text(env, "DYN_EVENT_PLANE", "nats");
  FlagSet flags(
      "understudy worker",
      "Registers in a Dynamo deployment and serves requests with a simulated LLM engine.");
  AddProcessFlags(flags, options);
  AddEngineFlags(flags, options);
  flags.Text("--disaggregation-mode", &options.disaggregation_mode, "agg (this version)");
  AddRefusedFlags(flags);
  flags.Footer(
      "Environment: NATS_SERVER, NATS_AUTH_{USERNAME,PASSWORD,TOKEN}, ETCD_ENDPOINTS, "
      "ETCD_LEASE_TTL, ETCD_AUTH_{USERNAME,PASSWORD},\n"
      "DYN_NAMESPACE, DYN_FILE_KV, DYN_SYSTEM_{HOST,PORT}, DYN_LOG, DYN_LOGGING_JSONL, "
      "DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS.\n"
      "Signals: TERM and INT drain, a second one closes at once; USR1 writes the state to stderr.\n"
      "Exit codes: 0 drained, 1 start failed, 2 wrong usage, 3 lease lost with --on-lease-loss "
      "exit.");
  if (const auto outcome = flags.Parse(arguments); !outcome.proceed) {
    return outcome.exit_code;
  }
  ConfigureLog(Text(env, "DYN_LOG", "info"), Flag(env, "DYN_LOGGING_JSONL", false));
  auto config = MakeWorkerConfig(std::move(options), env);
  if (!config) {
    std::fprintf(stderr, "understudy worker: error: %s\n", config.error().message.c_str());
    return 1;
  }
  return RunWorker(std::move(*config), env);
}

}  // namespace understudy::worker
