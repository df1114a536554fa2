#include "worker/replay/output_file.h"

#include "tests/fakes/server_process.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string Path(const std::string& name) const {
    return folder_.path() + "/" + name;
  }
  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void Put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  [[nodiscard]] std::ptrdiff_t FilesInFolder() const {
    return std::distance(fs::directory_iterator(folder_.path()), {});
  }

  fakes::TempDir folder_;
};

TEST_F(OutputFileTest, IsThereWholeAfterCommit) {
  auto file = OutputFile::Open("--report", Path("a.json"));
  ASSERT_TRUE(file) << file.error().message;
  (*file)->Write("one ");
  (*file)->Write("two");
  EXPECT_FALSE(fs::exists(Path("a.json")));
  ASSERT_TRUE((*file)->Commit());
  EXPECT_EQ(Read(Path("a.json")), "one two");
  EXPECT_EQ(FilesInFolder(), 1);
}

TEST_F(OutputFileTest, LeavesAnEarlierFileWhenItIsNotCommitted) {
  Put(Path("a.json"), "earlier");
  {
    auto file = OutputFile::Open("--report", Path("a.json"));
    ASSERT_TRUE(file);
    (*file)->Write("half");
  }
  EXPECT_EQ(Read(Path("a.json")), "earlier");
  EXPECT_EQ(FilesInFolder(), 1);
}

TEST_F(OutputFileTest, ReplacesWhatALinkPointsTo) {
  Put(Path("real.json"), "earlier");
  fs::create_symlink("real.json", Path("link.json"));
  auto file = OutputFile::Open("--report", Path("link.json"));
  ASSERT_TRUE(file);
  (*file)->Write("new");
  ASSERT_TRUE((*file)->Commit());
  EXPECT_TRUE(fs::is_symlink(Path("link.json")));
  EXPECT_EQ(Read(Path("real.json")), "new");
}

TEST_F(OutputFileTest, WritesADeviceInPlace) {
  auto file = OutputFile::Open("--report", "/dev/null");
  ASSERT_TRUE(file);
  (*file)->Write("gone");
  EXPECT_TRUE((*file)->Commit());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(OutputFileTest, TellsAtOnceWhatCannotBeWritten) {
  const auto folder = OutputFile::Open("--html", folder_.path());
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().message,
            "--html '" + folder_.path() + "' cannot be written: Is a directory");
  const auto nowhere = OutputFile::Open("--report", Path("no/such/folder.json"));
  ASSERT_FALSE(nowhere);
  EXPECT_NE(nowhere.error().message.find("No such file or directory"), std::string::npos);
}

TEST_F(OutputFileTest, TellsAFullDiskAtTheEnd) {
  auto file = OutputFile::Open("--requests", "/dev/full");
  ASSERT_TRUE(file);
  (*file)->Write(std::string(1 << 20, 'x'));
  const auto written = (*file)->Commit();
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message,
            "--requests '/dev/full' cannot be written: No space left on device");
}

}  // namespace
}  // namespace understudy::worker
