// The records of this process in the shared folder: published, touched, put back, deleted. Helper
// thread only.
#pragma once

#include "transport/file/file_store.h"

#include <string>
#include <vector>

namespace understudy::transport::file {

class HeldFiles {
 public:
  explicit HeldFiles(FileStore store) : store_(std::move(store)) {}

  [[nodiscard]] const FileStore& store() const { return store_; }

  /// In order; ends at the first error, what was published before stays held.
  [[nodiscard]] Status Put(std::vector<Record> records);
  /// Deletes those of ours; a file that another process had published before us stays.
  [[nodiscard]] Status Delete(const std::vector<std::string>& keys);
  [[nodiscard]] Status DeleteAll();

  struct Beat {
    std::size_t missing = 0;  ///< files of ours that were gone
    Status status;            ///< the first error; ok: every file is there and fresh
  };
  /// Touches every file of ours, publishes anew what is gone, and deletes expired files of anyone
  /// in the folders used.
  [[nodiscard]] Beat Touch();

 private:
  struct Held {
    Record record;
    bool ours = false;
  };

  [[nodiscard]] Status Remove(const Held& held) const;
  [[nodiscard]] Status TouchOne(Held& held, std::size_t& missing) const;

  FileStore store_;
  std::vector<Held> held_;
};

}  // namespace understudy::transport::file
