// A Discovery with a blocking face, for tests: own loop thread, own list of lease states.
#pragma once

#include "tests/fakes/loop_thread.h"
#include "understudy/transport/discovery.h"

#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace understudy::fakes {

class DiscoveryClient {
 public:
  using Maker = std::function<std::unique_ptr<transport::Discovery>(transport::Loop&)>;
  explicit DiscoveryClient(const Maker& maker);
  ~DiscoveryClient();
  DiscoveryClient(const DiscoveryClient&) = delete;
  DiscoveryClient& operator=(const DiscoveryClient&) = delete;

  static std::unique_ptr<DiscoveryClient> Etcd(transport::EtcdOptions options);
  static std::unique_ptr<DiscoveryClient> File(const std::string& root, Nanoseconds ttl);

  Result<std::uint64_t> Start();
  Status Put(std::vector<transport::Record> records);
  Status Delete(std::vector<std::string> keys);
  Result<std::vector<transport::Record>> List(const std::string& prefix);
  /// Keys below `prefix`; empty on errors too.
  std::vector<std::string> Keys(const std::string& prefix);
  /// The value of `key`, or `(none)`.
  std::string ValueOf(const std::string& key);
  Status Close(Nanoseconds limit = std::chrono::seconds(5));
  /// Starts a Close and destroys the object at once on the loop.
  void Destroy();

  /// Waits until the lease has been told to be in `state` after everything that earlier calls of
  /// WaitFor saw. False when that did not happen within 30 s.
  [[nodiscard]] bool WaitFor(transport::LeaseState state);
  [[nodiscard]] std::vector<std::pair<transport::LeaseState, std::string>> states();

  /// Lets time pass, as a stimulus and never to wait for something: the test says for how long the
  /// fault lasts.
  static void Advance(Nanoseconds duration);

  /// `start(discovery, done)` runs on the loop; the answer is waited for later.
  template <class Start>
  std::future<Status> Begin(Start start) {
    auto promise = std::make_shared<std::promise<Status>>();
    auto future = promise->get_future();
    thread_.Do([&] {
      start(*discovery_, [promise](Status status) { promise->set_value(std::move(status)); });
    });
    return future;
  }

  LoopThread& thread() { return thread_; }
  transport::Discovery& discovery() { return *discovery_; }

 private:
  LoopThread thread_;
  std::unique_ptr<transport::Discovery> discovery_;  // used on the loop
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<transport::LeaseState, std::string>> states_;
  std::size_t seen_ = 0;
};

/// Polls `condition` every 20 ms until it holds; false after 30 s.
[[nodiscard]] bool Eventually(const std::function<bool()>& condition);

}  // namespace understudy::fakes
