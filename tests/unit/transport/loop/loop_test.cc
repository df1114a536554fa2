#include "understudy/transport/loop.h"

#include "tests/fakes/loop_thread.h"

#include <chrono>
#include <csignal>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

using fakes::Await;
using fakes::LoopThread;
using std::chrono::milliseconds;

TEST(Loop, RunsPostsInTheOrderOfTheirThread) {
  LoopThread thread;
  std::vector<int> seen;
  for (int i = 0; i < 1000; ++i) {
    thread.loop().Post([&seen, i] { seen.push_back(i); });
  }
  thread.Do([] {});
  ASSERT_EQ(seen.size(), 1000U);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
  }
}

TEST(Loop, LosesNoPostOfManyThreads) {
  LoopThread thread;
  int count = 0;  // only touched on the loop
  std::vector<std::thread> producers;
  for (int p = 0; p < 4; ++p) {
    producers.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        thread.loop().Post([&count] { ++count; });
      }
    });
  }
  for (auto& producer : producers) {
    producer.join();
  }
  EXPECT_EQ(thread.Do([&] { return count; }), 20'000);
}

TEST(Loop, StopLetsTheTaskUnderWayEndAndDropsTheRest) {
  const auto alive = std::make_shared<int>(0);
  {
    const auto loop = Loop::New();
    bool first_ended = false;
    bool second_ran = false;
    loop->Post([&] {
      loop->Stop();
      first_ended = true;
    });
    loop->Post([&second_ran, alive] { second_ran = true; });
    loop->Run();
    EXPECT_TRUE(first_ended);
    EXPECT_FALSE(second_ran);
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(alive.use_count(), 1) << "a dropped task was not destroyed with its loop";
}

TEST(Loop, StopFromAnotherThreadEndsAnIdleLoop) {
  const auto loop = Loop::New();
  std::promise<void> running;
  std::promise<void> ended;
  auto over = ended.get_future();
  loop->Post([&] { running.set_value(); });
  std::thread runner([&] {
    loop->Run();
    ended.set_value();
  });
  Await(running.get_future());
  loop->Stop();
  Await(std::move(over));
  runner.join();
}

TEST(Loop, KnowsItsThread) {
  const auto loop = Loop::New();
  EXPECT_TRUE(loop->OnThread()) << "set-up before Run is allowed";
  std::promise<void> running;
  std::thread runner([&] { loop->Run(); });
  loop->Post([&] {
    EXPECT_TRUE(loop->OnThread());
    running.set_value();
  });
  Await(running.get_future());
  EXPECT_FALSE(loop->OnThread());
  loop->Stop();
  runner.join();
  EXPECT_TRUE(loop->OnThread());
}

TEST(LoopTimer, FiresOnceAndNotEarly) {
  LoopThread thread;
  std::unique_ptr<Timer> timer;
  int fired = 0;
  std::promise<TimePoint> when;
  const SteadyClock clock;
  const auto armed = clock.Now();
  thread.Do([&] {
    timer = thread.loop().NewTimer();
    timer->After(milliseconds(20), [&] {
      ++fired;
      when.set_value(clock.Now());
    });
  });
  EXPECT_GE(Await(when.get_future()) - armed, milliseconds(20));
  // A later timer that has fired proves that the first one's time for a second shot is over.
  std::promise<void> later;
  auto second = thread.Do([&] {
    auto other = thread.loop().NewTimer();
    other->After(milliseconds(40), [&] { later.set_value(); });
    return other;
  });
  Await(later.get_future());
  EXPECT_EQ(thread.Do([&] { return fired; }), 1);
  thread.Do([&] {
    timer.reset();
    second.reset();
  });
}

TEST(LoopTimer, ArmingAgainDropsTheEarlierTask) {
  LoopThread thread;
  std::string order;
  std::promise<void> done;
  auto timer = thread.Do([&] {
    auto one = thread.loop().NewTimer();
    one->After(milliseconds(1), [&] { order += "old "; });
    one->After(milliseconds(10), [&] {
      order += "new";
      done.set_value();
    });
    return one;
  });
  Await(done.get_future());
  EXPECT_EQ(thread.Do([&] { return order; }), "new");
  thread.Do([&] { timer.reset(); });
}

TEST(LoopTimer, CanArmItselfFromItsOwnTask) {
  LoopThread thread;
  int fired = 0;
  std::promise<void> done;
  std::unique_ptr<Timer> timer;
  std::function<void()> again = [&] {
    if (++fired == 5) {
      done.set_value();
    } else {
      timer->After(milliseconds(1), [&] { again(); });
    }
  };
  thread.Do([&] {
    timer = thread.loop().NewTimer();
    timer->After(milliseconds(0), [&] { again(); });
  });
  Await(done.get_future());
  thread.Do([&] { timer.reset(); });
  EXPECT_EQ(fired, 5);
}

TEST(LoopTimer, MayBeDestroyedInItsOwnTask) {
  LoopThread thread;
  std::promise<void> done;
  std::unique_ptr<Timer> timer;
  thread.Do([&] {
    timer = thread.loop().NewTimer();
    timer->After(milliseconds(0), [&] {
      timer.reset();
      done.set_value();
    });
  });
  Await(done.get_future());
}

/// Due timers whose handlers wait in the loop's queue already, when `stop` cancels them: a task may
/// not run all the same.
void CancelWhenDue(const std::function<void(std::unique_ptr<Timer>&)>& stop) {
  LoopThread thread;
  bool fired = false;
  std::promise<void> later;
  std::unique_ptr<Timer> timer;
  std::unique_ptr<Timer> other;
  thread.Do([&] {
    timer = thread.loop().NewTimer();
    other = thread.loop().NewTimer();
    timer->After(milliseconds(0), [&] { fired = true; });
    const auto until = std::chrono::steady_clock::now() + milliseconds(5);
    while (std::chrono::steady_clock::now() < until) {
    }
    stop(timer);
    other->After(milliseconds(5), [&] { later.set_value(); });
  });
  Await(later.get_future());
  EXPECT_FALSE(thread.Do([&] { return fired; }));
  thread.Do([&] {
    timer.reset();
    other.reset();
  });
}

TEST(LoopTimer, ACancelledOneDoesNotFireEvenWhenDue) {
  CancelWhenDue([](std::unique_ptr<Timer>& timer) { timer->Cancel(); });
}

TEST(LoopTimer, ADestroyedOneDoesNotFireEvenWhenDue) {
  CancelWhenDue([](std::unique_ptr<Timer>& timer) { timer.reset(); });
}

TEST(LoopTimer, CancelFreesItsTaskAtOnce) {
  LoopThread thread;
  const auto held = std::make_shared<int>(0);
  thread.Do([&] {
    const auto timer = thread.loop().NewTimer();
    timer->After(std::chrono::hours(1), [held] { FAIL(); });
    EXPECT_EQ(held.use_count(), 2);
    timer->Cancel();
    EXPECT_EQ(held.use_count(), 1);
  });
}

TEST(LoopSignal, CallsTheHandlerForEachDelivery) {
  LoopThread thread;
  int count = 0;
  std::promise<void> first;
  std::promise<void> second;
  thread.Do([&] {
    thread.loop().OnSignal(SIGUSR2, [&] {
      EXPECT_TRUE(thread.loop().OnThread());
      ++count;
      (count == 1 ? first : second).set_value();
    });
  });
  ::kill(::getpid(), SIGUSR2);
  Await(first.get_future());
  ::kill(::getpid(), SIGUSR2);
  Await(second.get_future());
  EXPECT_EQ(thread.Do([&] { return count; }), 2);
}

}  // namespace
}  // namespace understudy::transport
