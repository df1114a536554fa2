// The file backend in real folders, with several loops and processes.
#include "tests/fakes/server_process.h"
#include "tests/integration/discovery/discovery_client.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <signal.h>
#include <sstream>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

using fakes::DiscoveryClient;
using fakes::TempDir;
using Keys = std::vector<std::string>;

constexpr Nanoseconds kTtl = std::chrono::milliseconds(1500);  // touched every second

class FileDiscoveryTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<DiscoveryClient> Client(Nanoseconds ttl = kTtl) const {
    return DiscoveryClient::File(root_, ttl);
  }
  [[nodiscard]] std::string PathOf(const std::string& relative) const {
    return root_ + "/" + relative;
  }
  [[nodiscard]] bool Exists(const std::string& relative) const {
    return std::filesystem::exists(PathOf(relative));
  }
  void Write(const std::string& relative, const std::string& text, int age_s) const {
    const std::string path = PathOf(relative);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
    struct timespec times[2] = {};
    ::clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= age_s;
    times[1] = times[0];
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }

  TempDir dir_;
  std::string root_ = dir_.path() + "/not/there/yet";
};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_F(FileDiscoveryTest, WritesTheLayoutThatTheReferenceReads) {
  auto worker = Client();
  const auto id = worker->Start();
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_GT(*id, 0U);
  EXPECT_LT(*id, std::uint64_t{1} << 63);
  ASSERT_TRUE(worker->Put({{"v1/instances/dynamo/backend/generate/8d6d8a21f69b3ebf", "{\"a\":1}"},
                           {"v1/event_channels/dynamo//kv_metrics/c-1", "{}"}}));
  EXPECT_EQ(ReadFile(PathOf("v1/instances/dynamo%2Fbackend%2Fgenerate%2F8d6d8a21f69b3ebf")),
            "{\"a\":1}");
  EXPECT_EQ(ReadFile(PathOf("v1/event_channels/dynamo%2F%2Fkv%5Fmetrics%2Fc%2D1")), "{}");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root_)) {
    EXPECT_NE(entry.path().filename().string().rfind(".tmp_", 0), 0U) << entry.path();
  }
}

TEST_F(FileDiscoveryTest, PublishedRecordsAreSeenByOthersUntilClose) {
  auto worker = Client();
  auto reader = Client();
  ASSERT_TRUE(worker->Start());
  ASSERT_TRUE(
      worker->Put({{"v1/instances/a/b", "1"}, {"v1/instances/a/c", "2"}, {"v1/mdc/a/b", "3"}}));
  EXPECT_EQ(reader->Keys("v1/instances/a/"), (Keys{"v1/instances/a/b", "v1/instances/a/c"}));
  EXPECT_EQ(reader->Keys("v1/instances/a/c"), (Keys{"v1/instances/a/c"}));
  EXPECT_EQ(reader->Keys("v1/"), (Keys{"v1/instances/a/b", "v1/instances/a/c", "v1/mdc/a/b"}));
  EXPECT_EQ(reader->Keys(""), reader->Keys("v1/"));
  EXPECT_EQ(reader->ValueOf("v1/mdc/a/b"), "3");
  ASSERT_TRUE(worker->Delete({"v1/instances/a/b"}));
  EXPECT_EQ(reader->Keys("v1/"), (Keys{"v1/instances/a/c", "v1/mdc/a/b"}));
  ASSERT_TRUE(worker->Close());
  EXPECT_EQ(reader->Keys("v1/"), Keys{});
  EXPECT_FALSE(Exists("v1/mdc/a%2Fb"));
}

TEST_F(FileDiscoveryTest, ListsAFolderThatDoesNotExistAsEmpty) {
  auto reader = Client();
  const auto records = reader->List("v1/instances/");
  ASSERT_TRUE(records) << records.error().message;
  EXPECT_TRUE(records->empty());
  EXPECT_FALSE(std::filesystem::exists(root_));
}

TEST_F(FileDiscoveryTest, AnExistingKeyKeepsItsValueAndItsOwner) {
  auto first = Client();
  auto second = Client();
  ASSERT_TRUE(first->Start());
  ASSERT_TRUE(second->Start());
  ASSERT_TRUE(first->Put({{"v1/x/b", "first"}}));
  ASSERT_TRUE(second->Put({{"v1/x/a", "second"}, {"v1/x/b", "second"}}));
  EXPECT_EQ(second->ValueOf("v1/x/b"), "first");
  ASSERT_TRUE(second->Delete({"v1/x/b"}));
  ASSERT_TRUE(second->Close());
  EXPECT_EQ(first->Keys("v1/x/"), (Keys{"v1/x/b"}));
}

TEST_F(FileDiscoveryTest, RecordsOutliveTheirTimeToLiveAndThoseOfTheDeadDoNot) {
  auto dead = Client();
  auto worker = Client();
  ASSERT_TRUE(dead->Start());
  ASSERT_TRUE(worker->Start());
  ASSERT_TRUE(dead->Put({{"v1/x/dead", "1"}}));
  ASSERT_TRUE(worker->Put({{"v1/x/live", "1"}}));
  dead->Destroy();  // without Close: as if killed
  EXPECT_EQ(worker->Keys("v1/x/"), (Keys{"v1/x/dead", "v1/x/live"}));
  // Nobody lists: the worker's own touches delete what expired.
  ASSERT_TRUE(fakes::Eventually([&] { return !Exists("v1/x/dead"); }));
  EXPECT_TRUE(Exists("v1/x/live"));
  EXPECT_EQ(worker->states().size(), 1U);
}

TEST_F(FileDiscoveryTest, ListingDeletesExpiredFilesAndOldTemporaryOnes) {
  Write("v1/x/old", "1", 3600);
  Write("v1/x/new", "2", 0);
  Write("v1/x/.tmp_0123456789abcdef", "half a rec", 0);
  Write("v1/x/.tmp_fedcba9876543210", "left behind", 3600);
  auto reader = Client();
  EXPECT_EQ(reader->Keys("v1/x/"), (Keys{"v1/x/new"}));
  EXPECT_FALSE(Exists("v1/x/old"));
  EXPECT_TRUE(Exists("v1/x/.tmp_0123456789abcdef")) << "somebody is writing it";
  EXPECT_FALSE(Exists("v1/x/.tmp_fedcba9876543210"));
}

TEST_F(FileDiscoveryTest, AnExpiredFileOfTheSameKeyIsReplaced) {
  Write("v1/x/a", "dead", 3600);
  auto worker = Client();
  ASSERT_TRUE(worker->Start());
  ASSERT_TRUE(worker->Put({{"v1/x/a", "live"}}));
  EXPECT_EQ(worker->ValueOf("v1/x/a"), "live");
}

TEST_F(FileDiscoveryTest, ForeignThingsInTheFolderAreSkipped) {
  Write("v1/x/a%2", "broken escape", 0);
  Write("v1/x/a", "1", 0);
  Write("v1/loose", "a file among the folders", 0);
  Write("README", "a file among the versions", 0);
  std::filesystem::create_directories(PathOf("v1/x/folder"));
  std::filesystem::create_symlink("/etc/passwd", PathOf("v1/x/link"));
  auto reader = Client();
  EXPECT_EQ(reader->Keys("v1/x/"), (Keys{"v1/x/a"}));
  EXPECT_EQ(reader->Keys(""), (Keys{"v1/x/a"}));
}

TEST_F(FileDiscoveryTest, FilesThatVanishArePutBack) {
  auto worker = Client();
  ASSERT_TRUE(worker->Start());
  ASSERT_TRUE(worker->Put({{"v1/x/a", "1"}, {"v1/y/b", "2"}}));
  std::filesystem::remove_all(root_);
  ASSERT_TRUE(worker->WaitFor(LeaseState::kLost));
  ASSERT_TRUE(worker->WaitFor(LeaseState::kRestored));
  ASSERT_TRUE(worker->WaitFor(LeaseState::kHeld));
  EXPECT_EQ(worker->Keys("v1/"), (Keys{"v1/x/a", "v1/y/b"}));
}

TEST_F(FileDiscoveryTest, AFolderThatCannotBeTouchedIsDegradedThenLostThenRestored) {
  auto worker = Client();
  ASSERT_TRUE(worker->Start());
  ASSERT_TRUE(worker->Put({{"v1/x/a", "1"}}));
  std::filesystem::remove_all(PathOf("v1"));
  Write("v1", "in the way", 0);
  ASSERT_TRUE(worker->WaitFor(LeaseState::kDegraded));
  ASSERT_TRUE(worker->WaitFor(LeaseState::kLost));
  const auto states = worker->states();
  EXPECT_NE(states[1].second.find(PathOf("v1/x/a")), std::string::npos) << states[1].second;
  EXPECT_NE(states[1].second.find("errno 20"), std::string::npos) << states[1].second;
  std::filesystem::remove(PathOf("v1"));
  ASSERT_TRUE(worker->WaitFor(LeaseState::kRestored));
  ASSERT_TRUE(worker->WaitFor(LeaseState::kHeld));
  EXPECT_EQ(worker->Keys("v1/"), (Keys{"v1/x/a"}));
}

TEST_F(FileDiscoveryTest, StartNamesTheFolderThatItCannotMake) {
  const std::string file = dir_.path() + "/file";
  std::ofstream(file) << "in the way";
  for (const std::string& root : {file, file + "/x"}) {
    auto worker = DiscoveryClient::File(root, kTtl);
    const auto id = worker->Start();
    ASSERT_FALSE(id) << root;
    EXPECT_EQ(id.error().code, Errc::kUnavailable);
    EXPECT_NE(id.error().message.find(" " + file), std::string::npos) << id.error().message;
    EXPECT_NE(id.error().message.find("(errno "), std::string::npos) << id.error().message;
  }
}

TEST_F(FileDiscoveryTest, RefusesATimeToLiveThatTouchingCannotKeep) {
  auto worker = Client(std::chrono::seconds(1));
  EXPECT_EQ(worker->Start().error().code, Errc::kInvalidConfig);
}

TEST_F(FileDiscoveryTest, ABadKeyIsRefusedAndLeavesNothingBehind) {
  auto worker = Client();
  ASSERT_TRUE(worker->Start());
  for (const char* key : {"", "v1", "v1/x", "v1/x/", "../x/a", "v1/../a", "/v1/x"}) {
    EXPECT_EQ(worker->Put({{key, "1"}}).error().code, Errc::kMalformed) << key;
  }
  EXPECT_EQ(worker->Put({{"v1/x/" + std::string(256, 'a'), "1"}}).error().code, Errc::kMalformed);
  EXPECT_EQ(worker->Keys(""), Keys{});
}

TEST_F(FileDiscoveryTest, CloseCountsOnlyOnceAndEndsEverything) {
  auto worker = Client();
  ASSERT_TRUE(worker->Start());
  ASSERT_TRUE(worker->Close());
  ASSERT_TRUE(worker->Close());
  EXPECT_EQ(worker->Put({{"v1/x/a", "1"}}).error().code, Errc::kCancelled);
}

// A real second process: killed, its files stand until they expire.
TEST_F(FileDiscoveryTest, AKilledProcessDisappearsAfterTheTimeToLive) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto worker = Client();
    const auto id = worker->Start();
    const auto status = worker->Put({{"v1/x/child", "1"}});
    const char told = id.has_value() && status.has_value() ? 'y' : 'n';
    static_cast<void>(!::write(ready[1], &told, 1));
    ::pause();
    ::_exit(0);
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  auto reader = Client();
  EXPECT_EQ(reader->Keys("v1/x/"), (Keys{"v1/x/child"}));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(Exists("v1/x/child"));
  EXPECT_TRUE(fakes::Eventually([&] { return reader->Keys("v1/x/").empty(); }));
  EXPECT_FALSE(Exists("v1/x/child"));
  ::close(ready[0]);
  ::close(ready[1]);
}

/// A folder that takes no more than some kilobytes: a tiny tmpfs where this process may mount one,
/// else a limit on the size of files, which fails the same write with another errno.
class TinyDisk {
 public:
  explicit TinyDisk(const std::string& folder) : folder_(folder) {
    std::filesystem::create_directories(folder_);
    mounted_ = ::mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=32k") == 0;
    if (!mounted_) {
      ::signal(SIGXFSZ, SIG_IGN);
      ::getrlimit(RLIMIT_FSIZE, &before_);
      rlimit tiny = before_;
      tiny.rlim_cur = 32768;
      ::setrlimit(RLIMIT_FSIZE, &tiny);
    }
  }
  ~TinyDisk() {
    if (mounted_) {
      ::umount2(folder_.c_str(), MNT_DETACH);
    } else {
      ::setrlimit(RLIMIT_FSIZE, &before_);
    }
  }
  TinyDisk(const TinyDisk&) = delete;
  TinyDisk& operator=(const TinyDisk&) = delete;
  [[nodiscard]] int error() const { return mounted_ ? ENOSPC : EFBIG; }

 private:
  std::string folder_;
  bool mounted_ = false;
  rlimit before_{};
};

TEST_F(FileDiscoveryTest, AFullDiskIsOneClearErrorAndKeepsWhatStands) {
  const TinyDisk disk(root_);
  auto worker = Client();
  ASSERT_TRUE(worker->Start());
  ASSERT_TRUE(worker->Put({{"v1/x/a", "small"}}));
  const auto status = worker->Put({{"v1/x/b", std::string(1U << 20, 'x')}});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kUnavailable);
  const std::string wanted = "file discovery: cannot write " + PathOf("v1/x/b") + ": " +
                             std::strerror(disk.error()) + " (errno " +
                             std::to_string(disk.error()) + ")";
  EXPECT_EQ(status.error().message, wanted);
  EXPECT_EQ(worker->Keys("v1/x/"), (Keys{"v1/x/a"}));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PathOf("v1/x"))) {
    static_cast<void>(entry);
    ++files;
  }
  EXPECT_EQ(files, 1U) << "no temporary file stays";
  EXPECT_TRUE(worker->Close());
}

}  // namespace
}  // namespace understudy::transport
