// The folder that processes share. Blocking: only on the helper thread, never on the loop.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/base/result.h"
#include "understudy/transport/discovery.h"

#include <cstdint>
#include <string>
#include <vector>

namespace understudy::transport::file {

/// A value object: options only. Every error text names the path, the system's text and errno.
class FileStore {
 public:
  static constexpr std::size_t kRecordBytesMax = 16U << 20;
  static constexpr std::size_t kRecordsMax = 1U << 20;
  /// A temporary file this old was left by a process that died while publishing.
  static constexpr Nanoseconds kTempAgeMax = std::chrono::minutes(10);

  FileStore(std::string root, Nanoseconds ttl) : root_(std::move(root)), ttl_(ttl) {}

  /// Makes the root if it is missing and checks that it may be written.
  [[nodiscard]] Status Prepare() const;

  enum class Outcome : std::uint8_t { kCreated, kExists };
  /// Publishes `record` unless a live file of that key is there. An expired one is replaced.
  [[nodiscard]] Result<Outcome> Create(const Record& record) const;

  enum class Presence : std::uint8_t { kThere, kMissing };
  /// Sets the modification time to now.
  [[nodiscard]] Result<Presence> Touch(const std::string& key) const;
  [[nodiscard]] Result<Presence> Look(const std::string& key) const;

  /// A missing file is no error.
  [[nodiscard]] Status Remove(const std::string& key) const;

  /// Live records whose key begins with `prefix`, sorted by key. Deletes the expired files on its
  /// way.
  [[nodiscard]] Result<std::vector<Record>> List(const std::string& prefix) const;

  /// Deletes expired files of the folder of `key`, whoever wrote them, and old temporary ones.
  void Expire(const std::string& key) const;

 private:
  [[nodiscard]] Status MakeFolders(const std::string& path) const;
  [[nodiscard]] Status ReadBucket(const std::string& bucket,
                                  const std::string& prefix,
                                  std::vector<Record>* records) const;

  std::string root_;
  Nanoseconds ttl_;
};

}  // namespace understudy::transport::file
