#include "worker/call/options.h"

#include "worker/call/flag_values.h"

#include <limits>
#include <random>

namespace understudy::worker {
namespace {

constexpr std::int64_t kRequestsMax = 1'000'000;
constexpr std::int64_t kConcurrencyMax = 4096;
constexpr std::uint32_t kSyntheticVocabulary = 32'000;  // ids that every common model knows

Status ReadRequest(const CallFlags& flags, CallPlan& plan) {
  if (flags.token_ids && flags.prompt_tokens) {
    return Fail(Errc::kInvalidConfig, "--token-ids and --prompt-tokens exclude each other");
  }
  if (flags.token_ids) {
    UNDERSTUDY_TRY(plan.token_ids, ParseTokenIds(*flags.token_ids));
  }
  if (flags.prompt_tokens) {
    UNDERSTUDY_TRY(plan.prompt_tokens,
                   U32InRange("--prompt-tokens", *flags.prompt_tokens, 1, kPromptTokensMax));
  }
  const bool asked = flags.token_ids || flags.prompt_tokens;
  if (asked && plan.list) {
    return Fail(Errc::kInvalidConfig,
                "--list sends no request: leave --token-ids and --prompt-tokens out");
  }
  if (!asked && !plan.list && !plan.watch) {
    return Fail(
        Errc::kInvalidConfig,
        "nothing to do: give --token-ids or --prompt-tokens (a request), --list or --watch");
  }
  UNDERSTUDY_TRY(const auto requests, U32InRange("--count", flags.count, 1, kRequestsMax));
  plan.requests = asked ? requests : 0;
  UNDERSTUDY_TRY(plan.concurrency,
                 U32InRange("--concurrency", flags.concurrency, 1, kConcurrencyMax));
  constexpr std::int64_t kU32Max = std::numeric_limits<std::uint32_t>::max();
  UNDERSTUDY_TRY(plan.max_tokens,
                 U32InRange("--max-tokens", flags.max_tokens, 0, kU32Max));  // 0: see the refusal
  if (flags.dp_rank) {
    UNDERSTUDY_TRY(plan.dp_rank, U32InRange("--dp-rank", *flags.dp_rank, 0, kU32Max));
  }
  if (flags.cancel_after) {
    UNDERSTUDY_TRY(plan.cancel_after,
                   U32InRange("--cancel-after", *flags.cancel_after, 0, kU32Max));
  }
  return {};
}

}  // namespace

Result<CallPlan> MakeCallPlan(const CallFlags& flags, const Environment& env) {
  CallPlan plan;
  if (flags.discovery_backend != "etcd" && flags.discovery_backend != "file") {
    return tl::make_unexpected(
        RefuseFlag("--discovery-backend", flags.discovery_backend, "etcd, file"));
  }
  if (flags.event_plane != "nats" && flags.event_plane != "zmq") {
    return tl::make_unexpected(RefuseFlag("--event-plane", flags.event_plane, "nats, zmq"));
  }
  plan.discovery_backend = flags.discovery_backend;
  plan.zmq_events = flags.event_plane == "zmq";
  if (plan.zmq_events) {
    UNDERSTUDY_TRY(plan.zmq_brokers, ZmqBrokersFromEnvironment(env));
  }
  UNDERSTUDY_TRY(plan.endpoint, ChooseEndpoint(flags.endpoint, flags.ns, env));
  plan.whole_namespace = !flags.endpoint;
  if (flags.instance) {
    UNDERSTUDY_TRY(plan.instance, ParseInstance(*flags.instance));
  }
  plan.list = flags.list;
  plan.watch = flags.watch || flags.watch_seconds;
  plan.json = flags.json;
  plan.quiet = flags.quiet;
  UNDERSTUDY_TRY_STATUS(ReadRequest(flags, plan));
  plan.seed = static_cast<std::uint64_t>(flags.seed);
  plan.model = flags.model;
  if (flags.codec) {
    plan.codec = *flags.codec == "msgpack" ? transport::PayloadCodec::kMsgpack
                                           : transport::PayloadCodec::kJson;
  }
  UNDERSTUDY_TRY(plan.timeout, SecondsInRange("--timeout", flags.timeout_s, false));
  if (flags.watch_seconds) {
    UNDERSTUDY_TRY(plan.watch_for, SecondsInRange("--watch-seconds", *flags.watch_seconds, true));
  }
  plan.cancel_with = flags.cancel_with == "stop" ? transport::StreamControl::kStop
                                                 : transport::StreamControl::kKill;
  plan.listen_host = flags.listen_host;
  return plan;
}

std::vector<std::uint32_t> PromptOf(const CallPlan& plan, std::uint32_t index) {
  if (!plan.token_ids.empty()) {
    return plan.token_ids;
  }
  std::mt19937_64 random(plan.seed * 0x9E37'79B9'7F4A'7C15ULL + index);
  std::vector<std::uint32_t> prompt(plan.prompt_tokens);
  for (auto& token : prompt) {
    token = static_cast<std::uint32_t>(random() % kSyntheticVocabulary);
  }
  return prompt;
}

}  // namespace understudy::worker
