#include "transport/etcd/messages.h"

#include "transport/etcd/base64.h"

#include <charconv>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

namespace understudy::transport::etcd {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kQuoteBytesMax = 200;  // of a strange answer, in our error texts

std::string Dump(const Json& json) {
  // Replacing keeps dump() from throwing on a password that is no UTF-8; the server then refuses
  // it.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Json> Parse(std::string_view body) {
  Json json = Json::parse(body, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    return std::nullopt;
  }
  return json;
}

const Json* Member(const Json& json, const char* name) {
  if (!json.is_object()) {
    return nullptr;
  }
  const auto found = json.find(name);
  return found == json.end() ? nullptr : &*found;
}

std::string_view Text(const Json* json) {
  if (json == nullptr || !json->is_string()) {
    return {};
  }
  return json->get_ref<const std::string&>();
}

/// A 64-bit number as the gateway writes it (text) or as JSON would; 0 when missing.
std::optional<std::int64_t> Number(const Json* json) {
  if (json == nullptr) {
    return 0;
  }
  if (json->is_number_integer()) {
    return json->get<std::int64_t>();
  }
  const std::string_view text = Text(json);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

tl::unexpected<Error> Strange(const char* what, std::string_view body) {
  return Fail(
      Errc::kMalformed,
      std::string(what) + ": unexpected answer: " + std::string(body.substr(0, kQuoteBytesMax)));
}

/// Calls `take(key, pair)` for each pair of a range answer (`{"kvs":[...]}`, or none); false when
/// one is malformed or refused.
template <class Take>
bool EachPair(const Json& range, Take take) {
  const Json* pairs = Member(range, "kvs");
  if (pairs == nullptr) {
    return true;
  }
  if (!pairs->is_array()) {
    return false;
  }
  for (const Json& pair : *pairs) {
    auto key = Base64Decode(Text(Member(pair, "key")));
    if (!key || key->empty() || !take(std::move(*key), pair)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string AuthenticateBody(const std::string& user, const std::string& password) {
  return Dump({{"name", user}, {"password", password}});
}

std::string GrantBody(std::int64_t ttl_s, std::uint64_t id) {
  Json json = Json::object({{"TTL", std::to_string(ttl_s)}});
  if (id != 0) {
    json["ID"] = std::to_string(id);
  }
  return Dump(json);
}

std::string LeaseBody(std::uint64_t id) {
  return Dump(Json::object({{"ID", std::to_string(id)}}));
}

std::string CreateBody(std::span<const Record> records, std::uint64_t lease) {
  Json compare = Json::array();
  Json success = Json::array();
  Json failure = Json::array();
  for (const Record& record : records) {
    const std::string key = Base64Encode(record.key);
    compare.push_back({{"key", key}, {"target", "VERSION"}, {"result", "EQUAL"}, {"version", "0"}});
    const Json put = {
        {"key", key}, {"value", Base64Encode(record.value)}, {"lease", std::to_string(lease)}};
    success.push_back(Json::object({{"request_put", put}}));
    const Json range = {{"key", key}, {"keys_only", true}};
    failure.push_back(Json::object({{"request_range", range}}));
  }
  return Dump({{"compare", std::move(compare)},
               {"success", std::move(success)},
               {"failure", std::move(failure)}});
}

std::string DeleteBody(std::span<const std::string> keys) {
  Json success = Json::array();
  for (const std::string& key : keys) {
    const Json range = Json::object({{"key", Base64Encode(key)}});
    success.push_back(Json::object({{"request_delete_range", range}}));
  }
  return Dump(Json::object({{"success", std::move(success)}}));
}

std::string RangeBody(const std::string& prefix) {
  // An empty key is refused by the server; "\0" with range end "\0" means every key.
  const std::string from = prefix.empty() ? std::string(1, '\0') : prefix;
  return Dump({{"key", Base64Encode(from)}, {"range_end", Base64Encode(PrefixEnd(prefix))}});
}

std::string PrefixEnd(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xFF) {
    prefix.pop_back();
  }
  if (prefix.empty()) {
    return std::string(1, '\0');
  }
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

Result<LeaseAnswer> ParseLease(std::string_view body) {
  // Keep-alive is a stream of one answer a line; a beat gets one.
  const auto json = Parse(body.substr(0, body.find('\n')));
  if (!json) {
    return Strange("lease", body);
  }
  const Json* wrapped = Member(*json, "result");
  const Json& lease = wrapped == nullptr ? *json : *wrapped;
  const auto id = Number(Member(lease, "ID"));
  const auto ttl = Number(Member(lease, "TTL"));
  if (!id || *id <= 0 || !ttl || *ttl < 0) {
    return Strange("lease", body);
  }
  return LeaseAnswer{static_cast<std::uint64_t>(*id), *ttl};
}

Result<CreateAnswer> ParseCreate(std::string_view body) {
  const auto json = Parse(body);
  if (!json) {
    return Strange("transaction", body);
  }
  CreateAnswer answer;
  const Json* succeeded = Member(*json, "succeeded");
  answer.created = succeeded != nullptr && succeeded->is_boolean() && succeeded->get<bool>();
  if (answer.created) {
    return answer;
  }
  const Json* responses = Member(*json, "responses");
  if (responses == nullptr || !responses->is_array()) {
    return Strange("transaction", body);
  }
  const auto take = [&answer](std::string key, const Json& pair) {
    const auto lease = Number(Member(pair, "lease"));
    answer.existing.push_back({std::move(key), static_cast<std::uint64_t>(lease.value_or(0))});
    return lease.has_value();
  };
  for (const Json& response : *responses) {
    const Json* range = Member(response, "response_range");
    if (range == nullptr || !EachPair(*range, take)) {
      return Strange("transaction", body);
    }
  }
  if (answer.existing.empty()) {
    // The transaction is atomic: a failed comparison means that a key is there.
    return Strange("transaction", body);
  }
  return answer;
}

Result<std::vector<Record>> ParseRange(std::string_view body) {
  const auto json = Parse(body);
  std::vector<Record> records;
  const auto take = [&records](std::string key, const Json& pair) {
    auto value = Base64Decode(Text(Member(pair, "value")));
    if (value) {
      records.push_back({std::move(key), std::move(*value)});
    }
    return value.has_value();
  };
  if (!json || !EachPair(*json, take)) {
    return Strange("range", body);
  }
  return records;
}

Result<std::string> ParseToken(std::string_view body) {
  const auto json = Parse(body);
  std::string token(json ? Text(Member(*json, "token")) : std::string_view());
  // It becomes a header line: anything but printable text would split it.
  const bool printable =
      token.find_first_not_of(
          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_~+/=") ==
      std::string::npos;
  if (token.empty() || !printable) {
    return Strange("authenticate", json ? std::string_view("(no usable token)") : body);
  }
  return token;
}

Refusal ParseRefusal(std::string_view body) {
  Refusal refusal;
  if (const auto json = Parse(body)) {
    // etcd 3.6 is said to drop `error`; streams put an object there.
    const Json* error = Member(*json, "error");
    const Json& holder = error != nullptr && error->is_object() ? *error : *json;
    const Json* code = Member(holder, "code");
    const auto number = Number(code == nullptr ? Member(holder, "grpc_code") : code);
    refusal.code = number && *number > 0 && *number < 100 ? static_cast<int>(*number) : 0;
    refusal.message = Text(Member(holder, "message"));
    if (refusal.message.empty()) {
      refusal.message = Text(error);
    }
  }
  if (refusal.message.empty()) {
    refusal.message = body.substr(0, kQuoteBytesMax);
    while (!refusal.message.empty() && refusal.message.back() == '\n') {
      refusal.message.pop_back();
    }
  }
  return refusal;
}

bool WantsToken(int http_status, const Refusal& refusal) {
  if (http_status == 401 || refusal.code == kUnauthenticated) {
    return true;
  }
  return refusal.code == kInvalidArgument &&
         (refusal.message.find("user name is empty") != std::string::npos ||
          refusal.message.find("revision of auth store is old") != std::string::npos);
}

}  // namespace understudy::transport::etcd
