#include "worker/call/options.h"

#include <charconv>
#include <limits>
#include <random>
#include <string_view>

namespace understudy::worker {
namespace {

constexpr std::int64_t kPromptTokensMax = 1 << 20;
constexpr std::int64_t kRequestsMax = 1'000'000;
constexpr std::int64_t kConcurrencyMax = 4096;
constexpr double kSecondsMax = 1e6;
constexpr std::uint32_t kSyntheticVocabulary = 32'000;  // ids that every common model knows

Error Refuse(const std::string& option, const std::string& value, const std::string& allowed) {
  return {Errc::kInvalidConfig,
          option + " '" + value + "' is not usable (allowed: " + allowed + ")"};
}

template <class T>
Result<T> Range(const char* option, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most) {
    return tl::make_unexpected(Refuse(
        option, std::to_string(value), std::to_string(least) + " to " + std::to_string(most)));
  }
  return static_cast<T>(value);
}

Result<Nanoseconds> Seconds(const char* option, double seconds, bool zero_allowed) {
  if (!(seconds >= 0) || seconds > kSecondsMax || (seconds == 0 && !zero_allowed)) {
    return tl::make_unexpected(
        Refuse(option,
               std::to_string(seconds),
               std::string(zero_allowed ? "0" : "more than 0") + " to 1000000 seconds"));
  }
  return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(seconds));
}

Result<std::vector<std::uint32_t>> ParseTokenIds(const std::string& text) {
  std::vector<std::uint32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::uint32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (next != end && *next != ',')) {
      return tl::make_unexpected(Refuse(
          "--token-ids", text.substr(0, 64), "whole numbers 0 to 4294967295, with commas between"));
    }
    ids.push_back(id);
    if (next == end) {
      return ids;
    }
    at = next + 1;
  }
}

Result<std::uint64_t> ParseInstance(std::string_view text) {
  const auto digits = text.starts_with("0x") ? text.substr(2) : text;
  std::uint64_t id = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id, 16);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return tl::make_unexpected(Refuse("--instance",
                                      std::string(text.substr(0, 64)),
                                      "an instance id in hexadecimal, as --list shows it"));
  }
  return id;
}

Result<transport::EndpointName> EndpointOf(const CallFlags& flags, const Environment& env) {
  if (flags.endpoint && flags.ns) {
    return Fail(Errc::kInvalidConfig, "--endpoint and --namespace exclude each other");
  }
  const auto text = flags.endpoint.value_or("dyn://" + flags.ns.value_or(WorkerNamespace(env)) +
                                            ".backend.generate");
  auto name = transport::ParseEndpointName(text);
  if (!name) {
    const auto option = flags.endpoint ? "--endpoint" : flags.ns ? "--namespace" : "DYN_NAMESPACE";
    return FailWith(option, name.error());
  }
  return name;
}

Status ReadRequest(const CallFlags& flags, CallPlan& plan) {
  if (flags.token_ids && flags.prompt_tokens) {
    return Fail(Errc::kInvalidConfig, "--token-ids and --prompt-tokens exclude each other");
  }
  if (flags.token_ids) {
    UNDERSTUDY_TRY(plan.token_ids, ParseTokenIds(*flags.token_ids));
  }
  if (flags.prompt_tokens) {
    UNDERSTUDY_TRY(
        plan.prompt_tokens,
        Range<std::uint32_t>("--prompt-tokens", *flags.prompt_tokens, 1, kPromptTokensMax));
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
  UNDERSTUDY_TRY(const auto requests,
                 Range<std::uint32_t>("--count", flags.count, 1, kRequestsMax));
  plan.requests = asked ? requests : 0;
  UNDERSTUDY_TRY(plan.concurrency,
                 Range<std::uint32_t>("--concurrency", flags.concurrency, 1, kConcurrencyMax));
  constexpr std::int64_t kU32Max = std::numeric_limits<std::uint32_t>::max();
  UNDERSTUDY_TRY(
      plan.max_tokens,
      Range<std::uint32_t>("--max-tokens", flags.max_tokens, 0, kU32Max));  // 0: see the refusal
  if (flags.dp_rank) {
    UNDERSTUDY_TRY(plan.dp_rank, Range<std::uint32_t>("--dp-rank", *flags.dp_rank, 0, kU32Max));
  }
  if (flags.cancel_after) {
    UNDERSTUDY_TRY(plan.cancel_after,
                   Range<std::uint32_t>("--cancel-after", *flags.cancel_after, 0, kU32Max));
  }
  return {};
}

}  // namespace

Result<CallPlan> MakeCallPlan(const CallFlags& flags, const Environment& env) {
  CallPlan plan;
  if (flags.discovery_backend != "etcd" && flags.discovery_backend != "file") {
    return tl::make_unexpected(
        Refuse("--discovery-backend", flags.discovery_backend, "etcd, file"));
  }
  if (flags.event_plane != "nats" && flags.event_plane != "zmq") {
    return tl::make_unexpected(Refuse("--event-plane", flags.event_plane, "nats, zmq"));
  }
  plan.discovery_backend = flags.discovery_backend;
  plan.zmq_events = flags.event_plane == "zmq";
  UNDERSTUDY_TRY(plan.endpoint, EndpointOf(flags, env));
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
  UNDERSTUDY_TRY(plan.timeout, Seconds("--timeout", flags.timeout_s, false));
  if (flags.watch_seconds) {
    UNDERSTUDY_TRY(plan.watch_for, Seconds("--watch-seconds", *flags.watch_seconds, true));
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
