#include "plugin/mocker/live/engine_thread.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <system_error>

namespace understudy::mocker {

namespace {

/// Deadlines are kept to this precision; the default slack of 50 us would be 1 % of a short decode
/// step.
constexpr unsigned long kTimerSlackNs = 1000;
/// How often a thread looks whether a slow reader has caught up.
constexpr Nanoseconds kCongestionPoll = std::chrono::microseconds(200);

}  // namespace

EngineThread::EngineThread(const SchedulerConfig& config,
                           RankHost::Share share,
                           WaitingBound& bound,
                           const Clock& clock)
    : clock_(clock),
      host_(config, share, bound),
      number_(share.first),
      mailbox_(kMailboxCapacity, kMailboxReserve) {}

Status EngineThread::Start(engine::EngineSink& sink, TimePoint ready_at) {
  host_.Start(sink, ready_at);
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    return Fail(Errc::kUnavailable, std::string("no thread for the engine: ") + error.what());
  }
  const std::string name = "engine-" + std::to_string(number_);
  pthread_setname_np(thread_.native_handle(), name.c_str());
  return {};
}

void EngineThread::Stop() {
  stop_.store(true, std::memory_order_relaxed);
  mailbox_.Close();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void EngineThread::Run() {
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  while (!stop_.load(std::memory_order_relaxed)) {
    mailbox_.TryDrain(commands_);
    ApplyCommands();
    const TimePoint now = clock_.Now();
    std::optional<TimePoint> deadline;
    if (host_.Congested()) {
      host_.Flush();
      deadline = now + kCongestionPoll;
    } else {
      const bool more = host_.RunDue(now);
      if (!more || host_.FlushDue(now)) {
        host_.Flush();
      }
      if (more) {
        continue;
      }
      deadline = host_.NextDeadline();
      if (deadline.has_value() && *deadline <= clock_.Now()) {
        continue;  // free running: a wait would cost more than the pass
      }
    }
    mailbox_.Drain(commands_, deadline);
    ApplyCommands();
  }
}

void EngineThread::ApplyCommands() {
  for (Command& command : commands_) {
    host_.Apply(std::move(command));
  }
  commands_.clear();
}

}  // namespace understudy::mocker
