// The helper thread for file operations.
//
// Why a thread: the folder may be a network file system that answers late, and the 1.6 lock waits
// up to a second. Polling for the lock from the loop would only cure the second. One thread, idle
// between touches, whatever the number of records.
#pragma once

#include "understudy/base/task.h"
#include "understudy/transport/loop.h"

#include <memory>

namespace understudy::transport::file {

/// Members on the loop's thread.
class FileThread {
 public:
  static constexpr std::size_t kTasksMax = 1024;
  /// How long the destructor waits for an operation under way; then the thread is left to itself
  /// and its result dropped.
  static constexpr Nanoseconds kStopLimit = std::chrono::seconds(1);

  explicit FileThread(Loop& loop);
  ~FileThread();
  FileThread(const FileThread&) = delete;
  FileThread& operator=(const FileThread&) = delete;

  /// Runs `work` on the thread, in order; its result is given to `then` on the loop, unless this
  /// object is gone by then. False when kTasksMax wait already.
  template <class Work, class Then>
  [[nodiscard]] bool Run(Work work, Then then);

 private:
  struct Shared;
  [[nodiscard]] bool Enqueue(Task task);
  /// Called on the helper thread.
  static void PostBack(Shared& shared, Task task);

  std::shared_ptr<Shared> shared_;  // the thread may outlive this object when an operation hangs
};

template <class Work, class Then>
bool FileThread::Run(Work work, Then then) {
  Shared* shared = shared_.get();
  return Enqueue([shared, work = std::move(work), then = std::move(then)]() mutable {
    PostBack(*shared,
             [then = std::move(then), result = work()]() mutable { then(std::move(result)); });
  });
}

}  // namespace understudy::transport::file
