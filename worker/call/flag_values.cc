#include "worker/call/flag_values.h"

#include <charconv>
#include <chrono>

namespace understudy::worker {
namespace {

constexpr double kSecondsMax = 1e6;

}  // namespace

Error RefuseFlag(const std::string& option, const std::string& value, const std::string& allowed) {
  return {Errc::kInvalidConfig,
          option + " '" + value + "' is not usable (allowed: " + allowed + ")"};
}

Result<std::uint32_t> U32InRange(const char* option,
                                 std::int64_t value,
                                 std::int64_t least,
                                 std::int64_t most) {
  if (value < least || value > most) {
    return tl::make_unexpected(RefuseFlag(
        option, std::to_string(value), std::to_string(least) + " to " + std::to_string(most)));
  }
  return static_cast<std::uint32_t>(value);
}

Result<Nanoseconds> SecondsInRange(const char* option, double seconds, bool zero_allowed) {
  if (!(seconds >= 0) || seconds > kSecondsMax || (seconds == 0 && !zero_allowed)) {
    return tl::make_unexpected(
        RefuseFlag(option,
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
      return tl::make_unexpected(RefuseFlag(
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
    return tl::make_unexpected(RefuseFlag("--instance",
                                          std::string(text.substr(0, 64)),
                                          "an instance id in hexadecimal, as --list shows it"));
  }
  return id;
}

Result<transport::EndpointName> ChooseEndpoint(const std::optional<std::string>& endpoint,
                                               const std::optional<std::string>& ns,
                                               const Environment& env) {
  if (endpoint && ns) {
    return Fail(Errc::kInvalidConfig, "--endpoint and --namespace exclude each other");
  }
  const auto text =
      endpoint.value_or("dyn://" + ns.value_or(WorkerNamespace(env)) + ".backend.generate");
  auto name = transport::ParseEndpointName(text);
  if (!name) {
    const auto option = endpoint ? "--endpoint" : ns ? "--namespace" : "DYN_NAMESPACE";
    return FailWith(option, name.error());
  }
  return name;
}

}  // namespace understudy::worker
