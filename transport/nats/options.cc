#include "transport/nats/options.h"

#include <algorithm>
#include <utility>

namespace understudy::transport {
namespace {

constexpr int kPingIntervalMs = 20'000;
constexpr int kWriteDeadlineMs = 1'000;  // bounds what a helper thread waits in Close
constexpr int kIoBufferBytes = 256 << 10;

}  // namespace

Result<std::vector<std::string>> SplitNatsUrls(std::string_view url) {
  std::vector<std::string> urls;
  while (!url.empty()) {
    const auto comma = std::min(url.find(','), url.size());
    auto part = url.substr(0, comma);
    url.remove_prefix(std::min(comma + 1, url.size()));
    while (!part.empty() && part.front() == ' ') {
      part.remove_prefix(1);
    }
    while (!part.empty() && part.back() == ' ') {
      part.remove_suffix(1);
    }
    if (part.starts_with("tls://")) {
      return Fail(Errc::kInvalidConfig,
                  "NATS_SERVER: tls:// is not supported by this version, use nats:// (got '" +
                      std::string(part) + "')");
    }
    if (!part.starts_with("nats://") || part.size() == std::string_view("nats://").size()) {
      return Fail(
          Errc::kInvalidConfig,
          "NATS_SERVER: server must start with 'nats://' (got '" + WithoutCredentials(part) + "')");
    }
    urls.emplace_back(part);
  }
  if (urls.empty()) {
    return Fail(Errc::kInvalidConfig, "NATS_SERVER: server must start with 'nats://' (got '')");
  }
  return urls;
}

std::string WithoutCredentials(std::string_view urls) {
  std::string shown;
  while (!urls.empty()) {
    const auto comma = std::min(urls.find(','), urls.size());
    const auto part = urls.substr(0, comma);
    urls.remove_prefix(std::min(comma + 1, urls.size()));
    const auto scheme = part.find("://");
    const auto host = scheme == std::string_view::npos ? 0 : scheme + 3;
    const auto at = part.rfind('@');
    shown += shown.empty() ? "" : ",";
    if (at == std::string_view::npos || at < host) {
      shown += part;
    } else {
      shown.append(part.substr(0, host)).append("***").append(part.substr(at));
    }
  }
  return shown;
}

bool ValidSubject(std::string_view subject) {
  char before = '.';
  for (const char c : subject) {
    const bool is_space = c == ' ' || (c >= '\t' && c <= '\r');
    if (is_space || c == '\0' || (c == '.' && before == '.')) {
      return false;
    }
    before = c;
  }
  return before != '.';
}

bool ValidSubscription(std::string_view subject) {
  return ValidSubject(subject) && subject.find(".>.") == std::string_view::npos &&
         !subject.starts_with(">.");
}

Result<NatsOptionsPtr> BuildNatsOptions(const NatsOptions& options) {
  UNDERSTUDY_TRY(auto urls, SplitNatsUrls(options.url));
  natsOptions* raw = nullptr;
  if (natsOptions_Create(&raw) != NATS_OK) {
    return Fail(Errc::kInternal, "nats: no memory for options");
  }
  NatsOptionsPtr built(raw);
  std::vector<const char*> names;
  for (const auto& url : urls) {
    names.push_back(url.c_str());
  }
  if (const auto status = natsOptions_SetServers(raw, names.data(), static_cast<int>(names.size()));
      status != NATS_OK) {
    return Fail(Errc::kInvalidConfig,
                "NATS_SERVER: '" + WithoutCredentials(options.url) +
                    "' is not usable: " + natsStatus_GetText(status));
  }
  natsOptions_SetNoRandomize(raw, true);
  natsOptions_SetName(raw, options.name.c_str());
  natsOptions_SetTimeout(
      raw, std::chrono::duration_cast<std::chrono::milliseconds>(options.connect_timeout).count());
  natsOptions_SetPingInterval(raw, kPingIntervalMs);
  natsOptions_SetWriteDeadline(raw, kWriteDeadlineMs);
  natsOptions_SetIOBufSize(raw, kIoBufferBytes);
  // Priority as Dynamo's: user and password, then token, else user/user (wire.md 1.1).
  if (options.user && options.password) {
    natsOptions_SetUserInfo(raw, options.user->c_str(), options.password->c_str());
  } else if (options.token) {
    natsOptions_SetToken(raw, options.token->c_str());
  } else {
    natsOptions_SetUserInfo(raw, "user", "user");
  }
  return built;
}

}  // namespace understudy::transport
