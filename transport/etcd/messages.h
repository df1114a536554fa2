// The JSON bodies of etcd's gateway, both ways. Pure functions.
//
// Source: etcd 3.4.23 gateway; vectors/wire/etcd_auth.json holds captured exchanges. 64-bit numbers
// travel as strings, keys and values as base64, and members with the value 0, false or empty are
// left out by the server.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/discovery.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::transport::etcd {

inline constexpr std::string_view kAuthenticatePath = "/v3/auth/authenticate";
inline constexpr std::string_view kDeletePath = "/v3/kv/txn";
inline constexpr std::string_view kGrantPath = "/v3/lease/grant";
inline constexpr std::string_view kKeepAlivePath = "/v3/lease/keepalive";
inline constexpr std::string_view kPutPath = "/v3/kv/txn";
inline constexpr std::string_view kRangePath = "/v3/kv/range";
inline constexpr std::string_view kRevokePath = "/v3/lease/revoke";

/// Operations in one transaction; the server's default limit (--max-txn-ops).
inline constexpr std::size_t kTxnOpsMax = 128;

/// gRPC codes in error answers.
inline constexpr int kInvalidArgument = 3;
inline constexpr int kNotFound = 5;
inline constexpr int kFailedPrecondition = 9;
inline constexpr int kUnavailableCode = 14;
inline constexpr int kUnauthenticated = 16;

[[nodiscard]] std::string AuthenticateBody(const std::string& user, const std::string& password);
/// `id` 0: the server picks one.
[[nodiscard]] std::string GrantBody(std::int64_t ttl_s, std::uint64_t id);
/// For keep-alive and revoke.
[[nodiscard]] std::string LeaseBody(std::uint64_t id);
/// Creates all records if none of the keys exists; else changes nothing and answers which of them
/// do.
[[nodiscard]] std::string CreateBody(std::span<const Record> records, std::uint64_t lease);
[[nodiscard]] std::string DeleteBody(std::span<const std::string> keys);
[[nodiscard]] std::string RangeBody(const std::string& prefix);

/// The smallest key behind all keys that begin with `prefix`; "\0" (to the end) for an empty one or
/// one of 0xFF only.
[[nodiscard]] std::string PrefixEnd(std::string prefix);

struct LeaseAnswer {
  std::uint64_t id = 0;
  std::int64_t ttl_s = 0;  ///< 0 (a missing member) in a keep-alive's answer: the lease is gone
};
/// Answer of grant or keep-alive (which wraps it in `result`). Errors: kMalformed.
[[nodiscard]] Result<LeaseAnswer> ParseLease(std::string_view body);

struct CreateAnswer {
  struct Existing {
    std::string key;
    std::uint64_t lease = 0;  ///< 0: under none
  };
  bool created = false;
  std::vector<Existing> existing;  ///< the keys that were there, when nothing was created
};
[[nodiscard]] Result<CreateAnswer> ParseCreate(std::string_view body);
[[nodiscard]] Result<std::vector<Record>> ParseRange(std::string_view body);
[[nodiscard]] Result<std::string> ParseToken(std::string_view body);

/// What an answer outside 200 says. Never fails: text that is no JSON becomes the message, with
/// code 0.
struct Refusal {
  int code = 0;
  std::string message;
};
[[nodiscard]] Refusal ParseRefusal(std::string_view body);

/// True when the call is worth repeating with a fresh token (wire.md 1.2).
[[nodiscard]] bool WantsToken(int http_status, const Refusal& refusal);

}  // namespace understudy::transport::etcd
