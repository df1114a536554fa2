// A thread that drives a RankHost by the clock.
#pragma once

#include "plugin/mocker/live/rank_host.h"
#include "understudy/base/mailbox.h"
#include "understudy/base/result.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace understudy::mocker {

/// Requests under way to one engine thread, of all its ranks; it empties its box between passes.
inline constexpr std::size_t kMailboxCapacity = 262144;
/// Further places for cancels and dumps. A cancel beyond them is dropped: that request runs to its
/// end.
inline constexpr std::size_t kMailboxReserve = 1048576;

/// One wait: the mailbox or the earliest deadline of its ranks.
class EngineThread {
 public:
  EngineThread(const SchedulerConfig& config,
               RankHost::Share share,
               WaitingBound& bound,
               const Clock& clock);
  ~EngineThread() { Stop(); }
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  /// kUnavailable when the system gives no thread.
  [[nodiscard]] Status Start(engine::EngineSink& sink, TimePoint ready_at);

  /// Any thread. False when the box is full or the thread has stopped.
  [[nodiscard]] bool Push(engine::Request request) {
    return mailbox_.Push(Command(std::move(request)));
  }
  /// The same, but a waiting thread sleeps on until Wake.
  [[nodiscard]] bool PushQuietly(engine::Request request) {
    quiet_.store(true, std::memory_order_relaxed);
    return mailbox_.PushQuietly(Command(std::move(request)));
  }
  /// Any thread, cheap when nothing was pushed quietly.
  void Wake() {
    if (quiet_.load(std::memory_order_relaxed) && quiet_.exchange(false)) {
      mailbox_.Wake();
    }
  }
  bool Push(CancelCommand cancel) { return mailbox_.PushReserved(Command(cancel)); }
  bool Push(ReadCommand read) { return mailbox_.PushReserved(Command(std::move(read))); }
  bool Push(ClearCommand clear) { return mailbox_.PushReserved(Command(std::move(clear))); }
  bool Push(DumpCommand dump) { return mailbox_.PushReserved(Command(std::move(dump))); }
  /// What brings a request is as bounded as requests are, the rest relieves the rank.
  [[nodiscard]] bool Push(std::unique_ptr<handoff::Command> command) {
    return command->Submits() ? mailbox_.Push(Command(std::move(command)))
                              : mailbox_.PushReserved(Command(std::move(command)));
  }

  /// Ends the thread after the round it is in; waits for it. Idempotent, one thread at a time.
  void Stop();

 private:
  void Run();
  void ApplyCommands();

  const Clock& clock_;
  RankHost host_;
  const std::uint32_t number_;
  Mailbox<Command> mailbox_;
  std::vector<Command> commands_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> quiet_{false};  ///< something was pushed quietly since the last Wake
  std::thread thread_;
};

}  // namespace understudy::mocker
