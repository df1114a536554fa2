#include "worker/cli/commands.h"
#include "worker/cli/flag_set.h"
#include "worker/config/environment.h"
#include "worker/log/log.h"
#include "worker/relay/options.h"
#include "worker/relay/relay_app.h"

#include <cstdio>
#include <string>

namespace understudy::worker {
namespace {

void AddFlags(FlagSet& flags, RelayFlags& f) {
  flags.Group("Engine");
  flags.Text("--zmq-endpoint",
             &f.zmq_endpoint,
             "Where the engine publishes KV events: tcp://host:port of rank 0, rank r at port + r; "
             "several engines separated by commas");
  flags.Text("--zmq-replay-endpoint",
             &f.zmq_replay_endpoint,
             "Where missed batches are asked for, one per engine; without it they are lost and "
             "counted");
  flags.Text("--zmq-topic", &f.zmq_topic, "Topic of the engine's events; default: all");
  flags.Integer("--data-parallel-size",
                &f.data_parallel_size,
                "Ranks per engine; default: as the instance's model card says, else 1");
  flags.Integer("--data-parallel-start-rank",
                &f.data_parallel_start_rank,
                "First rank; default: as the card says, else 0");
  flags.Integer("--block-size",
                &f.block_size,
                "Tokens of a KV block; default: as the card says. Blocks of another size are not "
                "published");
  flags.Integer("--image-token-id",
                &f.image_token_id,
                "Placeholder of images, when frontends hash pad tokens in its place");
  flags.Group("Whose events these are");
  flags.Text("--endpoint",
             &f.endpoint,
             "Endpoint that serves the requests, dyn://namespace.component.endpoint; default "
             "dyn://$DYN_NAMESPACE.backend.generate");
  flags.Text("--instance-id",
             &f.instance_id,
             "Its instance in hexadecimal, one per engine; default: the only one that discovery "
             "lists there");
  flags.Switch("--follow",
               &f.follow,
               "Relay only while discovery lists the instance, on by default",
               "--no-follow");
  flags.Group("Wires");
  flags.Text("--discovery-backend", &f.discovery_backend, "etcd or file ($DYN_DISCOVERY_BACKEND)");
  flags.Text("--event-plane",
             &f.event_plane,
             "zmq or nats ($DYN_EVENT_PLANE); frontends must be told the same");
  flags.Text("--dynamo-release",
             &f.dynamo_release,
             "Release whose routers are spoken to; both: everything goes out in both forms",
             {"1.3", "1.6", "both"});
  flags.Integer("--kv-batching-window-ms",
                &f.kv_batching_window_ms,
                "KV events are held back and joined for so long; 0 = sent at once");
  flags.Integer("--kv-batching-blocks",
                &f.kv_batching_blocks,
                "Blocks of held back KV events that end the window early");
}

}  // namespace

int RelayCommand(const std::vector<std::string>& arguments) {
  const auto env = ProcessEnvironment();
  RelayFlags given;
  given.discovery_backend = Text(env, "DYN_DISCOVERY_BACKEND", "etcd");
  given.event_plane = Text(env, "DYN_EVENT_PLANE", "zmq");
  FlagSet flags(
      "understudy relay",
      "Takes the KV events of a vLLM or SGLang engine to the KV-aware routers of a Dynamo "
      "deployment, and answers for what they missed.");
  AddFlags(flags, given);
  flags.Footer(
      "vLLM: --kv-events-config '{\"enable_kv_cache_events\":true,\"publisher\":\"zmq\","
      "\"endpoint\":\"tcp://*:5557\",\n"
      "\"replay_endpoint\":\"tcp://*:5657\"}' (SGLang: the same with --kv-events-config), then\n"
      "understudy relay --zmq-endpoint tcp://127.0.0.1:5557 --zmq-replay-endpoint "
      "tcp://127.0.0.1:5657\n"
      "Nobody else may publish the same instance's events: with two sources 1.6 routers take "
      "neither.\n"
      "Routers ask over NATS for what they missed (DYN_REQUEST_PLANE=nats).\n"
      "Environment: NATS_SERVER, NATS_AUTH_{USERNAME,PASSWORD,TOKEN}, ETCD_ENDPOINTS, "
      "ETCD_LEASE_TTL, ETCD_AUTH_{USERNAME,PASSWORD},\n"
      "DYN_NAMESPACE, DYN_FILE_KV, DYN_EVENT_PLANE_HOST, DYN_ZMQ_BROKER_{URL,ENABLED}, "
      "DYN_SYSTEM_{HOST,PORT} (/health, /metrics), DYN_LOG,\n"
      "DYN_LOGGING_JSONL.\n"
      "Signals: TERM and INT leave discovery and end, a second one ends at once.\n"
      "Exit codes: 0 stopped, 1 start failed, 2 wrong usage.");
  if (const auto outcome = flags.Parse(arguments); !outcome.proceed) {
    return outcome.exit_code;
  }
  ConfigureLog(Text(env, "DYN_LOG", "info"), Flag(env, "DYN_LOGGING_JSONL", false));
  auto plan = MakeRelayPlan(given, env);
  if (!plan) {
    std::fprintf(stderr, "understudy relay: error: %s\n", plan.error().message.c_str());
    return 2;
  }
  return RunRelay(std::move(*plan), env);
}

}  // namespace understudy::worker
