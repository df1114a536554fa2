// Takes workers out of discovery and puts them back under the same instance id.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/discovery.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace understudy::worker {

/// On the loop's thread. Changes of one worker happen one after the other, in the order of the
/// calls.
class ServingSwitch {
 public:
  /// `changed`: whether this call did it. The error is the store's, and then nothing has changed
  /// for sure: the next call tries again.
  using Done = std::function<void(Result<bool> changed)>;

  /// `listener` hears after every change how many workers serve.
  ServingSwitch(transport::Discovery& discovery, std::function<void(std::size_t)> listener)
      : discovery_(discovery), listener_(std::move(listener)) {}
  ServingSwitch(const ServingSwitch&) = delete;
  ServingSwitch& operator=(const ServingSwitch&) = delete;

  /// The instance records of the workers, which are in the store now.
  void Registered(std::vector<transport::Record> instances);
  /// From now on nothing is changed: the process ends.
  void Close() { closed_ = true; }

  void Drain(std::uint32_t worker, Done done) { Ask(worker, false, std::move(done)); }
  void Resume(std::uint32_t worker, Done done) { Ask(worker, true, std::move(done)); }
  [[nodiscard]] bool serving(std::uint32_t worker) const {
    return worker < workers_.size() && workers_[worker].serving;
  }

 private:
  struct Wish {
    bool serve = false;
    Done done;
  };
  struct Worker {
    transport::Record instance;
    bool serving = true, busy = false;
    std::deque<Wish> wishes;  ///< the first is under way when busy; bounded by the open streams
  };
  void Ask(std::uint32_t worker, bool serve, Done done);
  void Next(std::uint32_t worker);
  void Changed(std::uint32_t worker, const Status& status);

  transport::Discovery& discovery_;
  std::function<void(std::size_t)> listener_;
  std::vector<Worker> workers_;
  bool closed_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< watched by the store's answers
};

}  // namespace understudy::worker
