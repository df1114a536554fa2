// Where workers announce themselves: etcd or a shared folder.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/loop.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace understudy::transport {

/// `key` without a leading slash, for example
/// `v1/instances/dynamo/backend/generate/3ee9a22ae28407fb`; `value` is JSON text.
struct Record {
  std::string key;
  std::string value;
};

enum class LeaseState : std::uint8_t {
  kHeld,      ///< records are visible
  kDegraded,  ///< the store does not answer; the lease still runs
  kLost,      ///< the lease ran out; the store is tried again and again
  kRestored,  ///< the same lease id was granted anew and every record is back; kHeld follows from
              ///< here
};

/// One lease and the records under it. All members on the loop's thread; callbacks too; none
/// blocks.
class Discovery {
 public:
  virtual ~Discovery() = default;

  /// Gets the lease (etcd: grant; file: makes the folders). `done` gets a process-wide id: the etcd
  /// lease id, or a random one. kUnavailable / kInvalidConfig with a text that names the address or
  /// folder.
  virtual void Start(std::function<void(Result<std::uint64_t>)> done) = 0;

  /// Creates the records under the lease, in order; an existing key is kept as it is and is not an
  /// error. At most 128 per call to the store, more are split. Records are remembered, kept alive,
  /// and put back after a lost lease.
  virtual void Put(std::vector<Record> records, std::function<void(Status)> done) = 0;

  /// Deletes records of ours at once and forgets them.
  virtual void Delete(std::vector<std::string> keys, std::function<void(Status)> done) = 0;

  /// Live records of anyone below `prefix`.
  virtual void List(std::string prefix, std::function<void(Result<std::vector<Record>>)> done) = 0;

  /// Called on every change after Start. `text` says why, for the log.
  virtual void OnLease(std::function<void(LeaseState, const std::string& text)> listener) = 0;

  /// Revokes the lease (etcd) or deletes our files; bounded by `limit`. Idempotent.
  virtual void Close(Nanoseconds limit, std::function<void(Status)> done) = 0;
};

/// Source: wire.md 1, 1.2. Gateway of etcd 3.4 and later.
struct EtcdOptions {
  std::vector<std::string> endpoints = {
      "http://localhost:2379"};  ///< tried in turn, starting at the last that worked
  std::string user;              ///< with `password`: token flow, renewed on 401
  std::string password;
  std::int64_t lease_ttl_s = 10;
  Nanoseconds call_timeout = std::chrono::seconds(3);
};
[[nodiscard]] std::unique_ptr<Discovery> NewEtcdDiscovery(Loop& loop, EtcdOptions options);

/// Source: wire.md 2.6. Files are alive while their modification time is younger than `ttl`.
struct FileDiscoveryOptions {
  std::string root;  ///< DYN_FILE_KV
  Nanoseconds ttl = std::chrono::seconds(10);
};
[[nodiscard]] std::unique_ptr<Discovery> NewFileDiscovery(Loop& loop, FileDiscoveryOptions options);

}  // namespace understudy::transport
