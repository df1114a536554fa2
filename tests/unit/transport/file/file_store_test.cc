#include "transport/file/file_store.h"

#include "tests/fakes/server_process.h"

#include <atomic>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/file.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::transport::file {
namespace {

class FileStoreTest : public ::testing::Test {
 protected:
  fakes::TempDir dir_;
  FileStore store_{dir_.path(), std::chrono::seconds(10)};
};

TEST_F(FileStoreTest, TheFirstOfManyWritersWins) {
  constexpr int kWriters = 8;
  for (int round = 0; round < 20; ++round) {
    const std::string key = "v1/x/" + std::to_string(round);
    std::atomic<int> created{0};
    std::atomic<int> winner{-1};
    std::vector<std::thread> writers;
    for (int i = 0; i < kWriters; ++i) {
      writers.emplace_back([&, i] {
        const auto outcome = store_.Create({key, std::to_string(i)});
        if (outcome && *outcome == FileStore::Outcome::kCreated) {
          ++created;
          winner = i;
        }
      });
    }
    for (std::thread& writer : writers) {
      writer.join();
    }
    ASSERT_EQ(created, 1) << key;
    const auto records = store_.List(key);
    ASSERT_TRUE(records);
    ASSERT_FALSE(records->empty());
    EXPECT_EQ((*records)[0].value, std::to_string(winner));
  }
}

TEST_F(FileStoreTest, ALockHeldByAPeerIsWaitedFor) {
  std::filesystem::create_directories(dir_.path() + "/v1/x");
  const int folder = ::open((dir_.path() + "/v1/x").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(folder, LOCK_EX), 0);
  std::atomic<bool> released{false};
  std::thread peer([&] {
    // Let go once the temporary file would be there if the writer did not wait: it has had 200 ms.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    released = true;
    ::flock(folder, LOCK_UN);
  });
  const auto outcome = store_.Create({"v1/x/a", "1"});
  EXPECT_TRUE(outcome && released);
  peer.join();
  ::close(folder);
}

TEST_F(FileStoreTest, ALockThatIsNeverReleasedDoesNotStopUs) {
  std::filesystem::create_directories(dir_.path() + "/v1/x");
  const int folder = ::open((dir_.path() + "/v1/x").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(folder, LOCK_EX), 0);
  EXPECT_TRUE(store_.Create({"v1/x/a", "1"}));
  ::close(folder);
}

TEST_F(FileStoreTest, TouchTellsWhatIsMissing) {
  ASSERT_TRUE(store_.Create({"v1/x/a", "1"}));
  EXPECT_EQ(*store_.Touch("v1/x/a"), FileStore::Presence::kThere);
  EXPECT_EQ(*store_.Touch("v1/x/b"), FileStore::Presence::kMissing);
  ASSERT_TRUE(store_.Remove("v1/x/a"));
  EXPECT_EQ(*store_.Touch("v1/x/a"), FileStore::Presence::kMissing);
  EXPECT_TRUE(store_.Remove("v1/x/a")) << "gone is what was asked for";
}

TEST_F(FileStoreTest, AFileLongerThanARecordMayBeIsSkipped) {
  ASSERT_TRUE(store_.Create({"v1/x/a", "1"}));
  std::filesystem::resize_file(dir_.path() + "/v1/x/a", FileStore::kRecordBytesMax + 1);
  const auto records = store_.List("v1/x/");
  ASSERT_TRUE(records);
  EXPECT_TRUE(records->empty());
}

}  // namespace
}  // namespace understudy::transport::file
