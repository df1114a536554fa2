#include "transport/file/file_thread.h"

#include "understudy/base/assert.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <pthread.h>
#include <signal.h>
#include <thread>
#include <utility>

namespace understudy::transport::file {

struct FileThread::Shared {
  explicit Shared(Loop& owner) : loop(owner) {}

  void Serve() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stop || !tasks.empty(); });
      if (stop) {
        break;
      }
      Task task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task();
      task = Task();
      lock.lock();
    }
    ended = true;
    changed.notify_all();
  }

  Loop& loop;  ///< used only while `stop` is false
  std::thread thread;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task> tasks;
  bool stop = false;
  bool ended = false;
  /// Results on their way to the loop when the destructor runs are dropped.
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);
};

FileThread::FileThread(Loop& loop) : shared_(std::make_shared<Shared>(loop)) {}

FileThread::~FileThread() {
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->alive.reset();
  if (!shared_->thread.joinable()) {
    return;
  }
  shared_->changed.notify_all();
  const bool ended = shared_->changed.wait_for(lock, kStopLimit, [this] { return shared_->ended; });
  std::deque<Task> dropped = std::move(shared_->tasks);
  lock.unlock();
  if (ended) {
    shared_->thread.join();
  } else {
    shared_->thread.detach();
  }
}

bool FileThread::Enqueue(Task task) {
  UNDERSTUDY_ASSERT(shared_->loop.OnThread());
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->tasks.size() >= kTasksMax) {
      return false;
    }
    shared_->tasks.push_back(std::move(task));
  }
  if (!shared_->thread.joinable()) {
    // Signals are the loop's business.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    shared_->thread = std::thread([shared = shared_] { shared->Serve(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  shared_->changed.notify_all();
  return true;
}

void FileThread::PostBack(Shared& shared, Task task) {
  const std::lock_guard lock(shared.mutex);
  if (!shared.stop) {
    shared.loop.Post([alive = std::weak_ptr<bool>(shared.alive), task = std::move(task)]() mutable {
      if (!alive.expired()) {
        task();
      }
    });
  }
}

}  // namespace understudy::transport::file
