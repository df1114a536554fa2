#include "worker/call/call_app.h"
#include "worker/call/options.h"
#include "worker/cli/commands.h"
#include "worker/cli/flag_set.h"
#include "worker/config/environment.h"
#include "worker/log/log.h"

#include <cstdio>
#include <string>

namespace understudy::worker {
namespace {

void AddFlags(FlagSet& flags, CallFlags& f) {
  flags.Group("Whom to call");
  flags.Text("--discovery-backend", &f.discovery_backend, "etcd or file ($DYN_DISCOVERY_BACKEND)");
  flags.Text("--endpoint",
             &f.endpoint,
             "dyn://namespace.component.endpoint; default dyn://$DYN_NAMESPACE.backend.generate");
  flags.Text("--namespace", &f.ns, "Another namespace, with backend.generate");
  flags.Text("--instance",
             &f.instance,
             "Instance id in hexadecimal; default: all of the endpoint, in turn");
  flags.Switch(
      "--list", &f.list, "Print the instances of the namespace (or of --endpoint) and end");
  flags.Group("Request");
  flags.Text("--token-ids", &f.token_ids, "Prompt as token ids: 1,2,3");
  flags.Integer("--prompt-tokens",
                &f.prompt_tokens,
                "Prompt of so many random token ids, which depend on --seed only");
  flags.Integer("--seed", &f.seed, "Chooses the random prompts");
  flags.Integer("--max-tokens", &f.max_tokens, "Tokens to generate");
  flags.Integer("--dp-rank", &f.dp_rank, "Data-parallel rank; default: the worker chooses");
  flags.Text(
      "--model", &f.model, "Model name in the request; default: from the instance's model card");
  flags.Text("--codec",
             &f.codec,
             "Payload codec; default: what the instance record asks for",
             {"json", "msgpack"});
  flags.Integer("--count", &f.count, "Requests in all");
  flags.Integer("--concurrency", &f.concurrency, "Requests at a time");
  flags.Real("--timeout",
             &f.timeout_s,
             "Seconds without an answer or a token until a request is given up");
  flags.Integer("--cancel-after", &f.cancel_after, "Cancel a request after so many tokens");
  flags.Text("--cancel-with", &f.cancel_with, "Control frame that cancels", {"kill", "stop"});
  flags.Text("--listen-host",
             &f.listen_host,
             "IP address that workers call back; default: ours on the way to the NATS server");
  flags.Group("Watch and output");
  flags.Switch("--watch",
               &f.watch,
               "Print the messages of the namespace's event plane, alone or during a request");
  flags.Real("--watch-seconds",
             &f.watch_seconds,
             "Watch for so long; default: until Ctrl-C or the end of the requests");
  flags.Text(
      "--event-plane", &f.event_plane, "zmq or nats ($DYN_EVENT_PLANE), as the workers were told");
  flags.Switch("--json", &f.json, "JSON lines instead of text");
  flags.Switch("--quiet", &f.quiet, "No line per token");
}

}  // namespace

int CallCommand(const std::vector<std::string>& arguments) {
  const auto env = ProcessEnvironment();
  CallFlags given;
  given.discovery_backend = Text(env, "DYN_DISCOVERY_BACKEND", "etcd");
  given.event_plane = Text(env, "DYN_EVENT_PLANE", "zmq");
  FlagSet flags(
      "understudy call",
      "Sends requests to a Dynamo worker without a frontend, or watches the event plane.");
  AddFlags(flags, given);
  flags.Footer(
      "Environment: NATS_SERVER, NATS_AUTH_{USERNAME,PASSWORD,TOKEN}, ETCD_ENDPOINTS, "
      "ETCD_AUTH_{USERNAME,PASSWORD}, DYN_FILE_KV,\n"
      "DYN_NAMESPACE, DYN_DISCOVERY_BACKEND, DYN_EVENT_PLANE, DYN_ZMQ_BROKER_{URL,ENABLED}, "
      "DYN_LOG.\n"
      "Exit codes: 0 done, 1 a request failed or was refused, 2 wrong usage, 4 nothing found, not "
      "reachable or timed out.");
  if (const auto outcome = flags.Parse(arguments); !outcome.proceed) {
    return outcome.exit_code;
  }
  ConfigureLog(Text(env, "DYN_LOG", "warn"), Flag(env, "DYN_LOGGING_JSONL", false));
  const auto plan = MakeCallPlan(given, env);
  if (!plan) {
    std::fprintf(stderr, "understudy call: error: %s\n", plan.error().message.c_str());
    return 2;
  }
  return RunCall(*plan, env);
}

}  // namespace understudy::worker
