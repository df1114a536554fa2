#include "worker/app.h"
#include "worker/cli/commands.h"
#include "worker/cli/engine_flag_groups.h"
#include "worker/cli/flag_set.h"
#include "worker/config/worker_options.h"
#include "worker/log/log.h"

#include <cstdio>
#include <string>

namespace understudy::worker {
namespace {

constexpr int kExitUsage = 2;

void AddProcessFlags(FlagSet& flags, WorkerOptions& o) {
  flags.Group("Model and place");
  flags.Text("--model-path",
             &o.model_path,
             "Folder with config.json and tokenizer.json, seen at the same path by the frontend");
  flags.Text("--model-name", &o.model_name, "Name in the HTTP API; default: from the path");
  flags.Text(
      "--endpoint",
      &o.endpoint,
      "dyn://namespace.component.endpoint; default dyn://$DYN_NAMESPACE.backend.generate, of "
      "prefill workers .prefill.generate");
  flags.Integer("--data-parallel-size",
                &o.engine.data_parallel_size,
                "Ranks of a worker, each with its own cache");
  flags.Integer("--num-workers",
                &o.num_workers,
                "Workers in this process: one lease, one pair of connections for all");
  flags.Real(
      "--stagger-delay", &o.stagger_delay_s, "Accepted for compatibility; workers start together");
  flags.Text(
      "--extra-engine-args",
      &o.engine.extra_engine_args,
      "JSON file that replaces the flags about the engine: nested with the engine of 1.6, flat "
      "with that of 1.3");
  flags.Group("Wires");
  flags.Text("--discovery-backend", &o.discovery_backend, "etcd or file ($DYN_DISCOVERY_BACKEND)");
  flags.Text("--request-plane", &o.request_plane, "nats ($DYN_REQUEST_PLANE)");
  flags.Text("--event-plane",
             &o.event_plane,
             "zmq or nats ($DYN_EVENT_PLANE); frontends must be told the same");
  flags.Text("--zmq-kv-events-ports",
             &o.zmq_kv_events_ports,
             "Base ports, one per worker, where the engines tell of their KV caches as vLLM does: "
             "rank r publishes at base + r, and the worker's relay reads it there");
  flags.Text("--zmq-replay-ports",
             &o.zmq_replay_ports,
             "Base ports where missed batches are asked for; needs --zmq-kv-events-ports");
  flags.Text("--dynamo-release",
             &o.dynamo_release,
             "Release whose routers are spoken to; both: everything goes out in both forms",
             {"1.3", "1.6", "both"});
  flags.Switch("--durable-kv-events",
               &o.durable_kv_events,
               "KV events to a JetStream stream, for routers of 1.3 with the flag of this name");
  flags.Integer("--kv-batching-window-ms",
                &o.kv_batching_window_ms,
                "KV events are held back and joined for so long; 0 = sent at once");
  flags.Integer("--kv-batching-blocks",
                &o.kv_batching_blocks,
                "Blocks of held back KV events that end the window early");
  flags.Switch("--forward-pass-metrics",
               &o.forward_pass_metrics,
               "Tell planners of every scheduler pass, on by default",
               "--no-forward-pass-metrics");
  flags.Text("--on-lease-loss",
             &o.on_lease_loss,
             "restore: register again under the same ids; exit: drain and exit with 3",
             {"restore", "exit"});
}

void AddLimitFlags(FlagSet& flags, WorkerOptions& o) {
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

void AddOwnEngineFlags(FlagSet& flags, WorkerOptions& o) {
  flags.Group("Engine, not in the reference");
  flags.Integer("--seed", &o.seed, "Makes the tokens of a run repeatable; random when not given");
  flags.Integer("--engine-threads",
                &o.engine_threads,
                "Threads that run all ranks; 0 = one per core, at most one per rank");
  flags.Text("--engine-semantics",
             &o.engine_semantics,
             "Release whose engine is simulated, 1.6 unless --dynamo-release is 1.3; 1.6 takes "
             "nested engine arguments, 1.3 flat ones",
             {"1.3", "1.6"});
  flags.Switch("--strict-reference",
               &o.strict_reference,
               "Behave like the reference worker where we differ on purpose");
}

void AddRoleFlags(FlagSet& flags, RoleFlags& role) {
  flags.Text("--disaggregation-mode",
             &role.disaggregation_mode,
             "agg (default): whole requests; prefill: prompts for decode workers; decode: outputs",
             {"agg", "prefill", "decode"});
  flags.Text("--bootstrap-ports",
             &role.bootstrap_ports,
             "Where prefill workers meet decode workers, one port per worker, commas between; 0 = "
             "any free one. Without it the decode worker computes the prompt again");
  flags.Switch("--is-prefill-worker", &role.is_prefill_worker, "Deprecated name of the mode");
  flags.Switch("--is-decode-worker", &role.is_decode_worker, "Deprecated name of the mode");
}

}  // namespace

int WorkerCommand(const std::vector<std::string>& arguments) {
  const auto env = ProcessEnvironment();
  WorkerOptions options;
  options.discovery_backend = Text(env, "DYN_DISCOVERY_BACKEND", "etcd");
  options.request_plane = Text(env, "DYN_REQUEST_PLANE", "nats");
  options.event_plane = Text(env, "DYN_EVENT_PLANE", "zmq");
  FlagSet flags(
      "understudy worker",
      "Registers in a Dynamo deployment and serves requests with a simulated LLM engine.");
  AddProcessFlags(flags, options);
  AddLimitFlags(flags, options);
  AddEngineFlags(flags, options.engine);
  AddOwnEngineFlags(flags, options);
  AddTransferFlags(flags, options.engine);
  AddRoleFlags(flags, options.role);
  AddIdleFlags(flags, options.engine);
  flags.Footer(
      "Environment: NATS_SERVER, NATS_AUTH_{USERNAME,PASSWORD,TOKEN}, ETCD_ENDPOINTS, "
      "ETCD_LEASE_TTL, ETCD_AUTH_{USERNAME,PASSWORD},\n"
      "DYN_NAMESPACE, DYN_FILE_KV, DYN_HTTP_RPC_HOST, DYN_EVENT_PLANE_HOST, "
      "DYN_ZMQ_BROKER_{URL,ENABLED}, DYN_SYSTEM_{HOST,PORT},\n"
      "DYN_LOG, DYN_LOGGING_JSONL, DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS.\n"
      "Signals: TERM and INT drain, a second one closes at once; USR1 writes the state to stderr.\n"
      "Exit codes: 0 drained, 1 start failed, 2 wrong usage, 3 lease lost with --on-lease-loss "
      "exit.");
  if (const auto outcome = flags.Parse(arguments); !outcome.proceed) {
    return outcome.exit_code;
  }
  if (const auto spellings = CheckSpellings(arguments); !spellings) {
    std::fprintf(stderr, "understudy worker: error: %s\n", spellings.error().message.c_str());
    return kExitUsage;
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
