#include "worker/control/serving_switch.h"

#include "tests/unit/worker/control/control_rig.h"

namespace understudy::worker {
namespace {

class ServingSwitchTest : public ::testing::Test {
 protected:
  ServingSwitchTest() { serving_.Registered({{"a", "{a}"}, {"b", "{b}"}}); }
  ServingSwitch::Done Note(const std::string& name) {
    return [this, name](const Result<bool>& changed) {
      said_.push_back(name + (changed ? (*changed ? " changed" : " same")
                                      : " failed: " + changed.error().message));
    };
  }
  void Answer(Status status = {}) {
    auto change = std::move(discovery_.changes.front());
    discovery_.changes.pop_front();
    change.done(std::move(status));
  }

  SlowDiscovery discovery_;
  std::vector<std::size_t> heard_;
  std::vector<std::string> said_;
  ServingSwitch serving_{discovery_, [this](std::size_t count) { heard_.push_back(count); }};
};

TEST_F(ServingSwitchTest, WishesOfOneWorkerWaitForEachOther) {
  discovery_.answers = false;
  serving_.Drain(0, Note("one"));
  serving_.Drain(0, Note("two"));
  serving_.Resume(0, Note("three"));
  serving_.Drain(1, Note("other"));
  EXPECT_TRUE(serving_.serving(0)) << "the store has not answered";
  EXPECT_EQ(discovery_.calls, (std::vector<std::string>{"delete a", "delete b"}));
  Answer();
  EXPECT_EQ(said_, (std::vector<std::string>{"one changed", "two same"}));
  EXPECT_FALSE(serving_.serving(0));
  Answer();
  Answer();
  EXPECT_EQ(said_.back(), "three changed");
  EXPECT_TRUE(serving_.serving(0));
  EXPECT_FALSE(serving_.serving(1));
  EXPECT_EQ(heard_, (std::vector<std::size_t>{1, 0, 1}));
}

TEST_F(ServingSwitchTest, AFailureChangesNothingAndTheNextCallTriesAgain) {
  discovery_.answers = false;
  serving_.Drain(0, Note("one"));
  serving_.Drain(0, Note("two"));
  Answer(Fail(Errc::kUnavailable, "etcd is away"));
  EXPECT_EQ(said_, (std::vector<std::string>{"one failed: etcd is away"}));
  EXPECT_TRUE(serving_.serving(0));
  EXPECT_TRUE(heard_.empty());
  Answer();
  EXPECT_EQ(said_.back(), "two changed");
}

TEST_F(ServingSwitchTest, BeforeTheRegistrationAndWhileTheProcessEndsItRefuses) {
  ServingSwitch early(discovery_, [](std::size_t) {});
  early.Drain(0, Note("early"));
  serving_.Close();
  serving_.Resume(0, Note("late"));
  EXPECT_EQ(said_,
            (std::vector<std::string>{"early failed: the worker is not registered yet",
                                      "late failed: the worker is shutting down"}));
  EXPECT_TRUE(discovery_.calls.empty());
}

TEST_F(ServingSwitchTest, AnAnswerThatComesTooLateIsDropped) {
  discovery_.answers = false;
  {
    ServingSwitch gone(discovery_, [](std::size_t) { FAIL(); });
    gone.Registered({{"a", "{a}"}});
    gone.Drain(0, Note("gone"));
  }
  Answer();
  EXPECT_TRUE(said_.empty());
}

}  // namespace
}  // namespace understudy::worker
