#include "transport/codec/blake3.h"
#include "understudy/transport/records.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

namespace fs = std::filesystem;

class ModelFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "understudy-model-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = fs::canonical(pattern);
    fs::create_directory(root_ / "Tiny");
    Write("config.json", R"({"max_position_embeddings":2048,"x":{"y":[1]}})");
    Write("tokenizer.json", R"({"version":"1.0"})");
    Write("tokenizer_config.json", "{}");
    Write("generation_config.json", "{ }");
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(root_ / "Tiny" / name, std::ios::binary) << text;
  }
  void Remove(const std::string& name) { fs::remove(root_ / "Tiny" / name); }
  [[nodiscard]] std::string Folder() const { return (root_ / "Tiny").string(); }
  [[nodiscard]] Error Refusal() const {
    const auto card = LoadModelFolder(Folder(), std::nullopt);
    return card ? Error{Errc::kInternal, "accepted"} : card.error();
  }

  fs::path root_;
};

TEST_F(ModelFolder, FillsFilesAndContextLength) {
  const auto card = LoadModelFolder(Folder(), std::nullopt);
  ASSERT_TRUE(card.has_value()) << card.error().message;
  EXPECT_EQ(card->display_name, Folder());
  EXPECT_EQ(card->slug, Slugify(Folder()));
  EXPECT_FALSE(card->source_path.has_value());
  EXPECT_EQ(card->architectural_max_context_length, 2048U);
  ASSERT_TRUE(card->tokenizer.has_value());
  EXPECT_EQ(card->tokenizer->path, Folder() + "/tokenizer.json");
  EXPECT_EQ(card->tokenizer->checksum, "blake3:" + Blake3Hex(R"({"version":"1.0"})"));
  EXPECT_EQ(card->tokenizer->size, 17U);
  EXPECT_EQ(card->config->path, Folder() + "/config.json");
  EXPECT_EQ(card->tokenizer_config->size, 2U);
  EXPECT_EQ(card->generation_config->size, 3U);
}

TEST_F(ModelFolder, GivenNameIsServedInstead) {
  const auto card = LoadModelFolder(Folder(), "Org/Model");
  ASSERT_TRUE(card.has_value());
  EXPECT_EQ(card->display_name, "Org/Model");
  EXPECT_EQ(card->slug, "org_model");
  EXPECT_FALSE(card->source_path.has_value());
  EXPECT_EQ(card->config->path, Folder() + "/config.json");
}

// As the 1.3.0 mocker: --model-path DIR/link/ gave the display name "DIR/link/" and the paths of
// the folder behind the link.
TEST_F(ModelFolder, NameIsThePathAsTypedAndFilesAreCanonical) {
  fs::create_symlink(root_ / "Tiny", root_ / "linked");
  const std::string typed = (root_ / "linked").string() + "/";
  const auto card = LoadModelFolder(typed, std::nullopt);
  ASSERT_TRUE(card.has_value());
  EXPECT_EQ(card->display_name, typed);
  EXPECT_EQ(card->config->path, Folder() + "/config.json");
}

TEST_F(ModelFolder, LinkedFilesKeepTheirNames) {
  fs::rename(root_ / "Tiny" / "tokenizer.json", root_ / "blob");
  fs::create_symlink(root_ / "blob", root_ / "Tiny" / "tokenizer.json");
  EXPECT_EQ(LoadModelFolder(Folder(), std::nullopt)->tokenizer->path, Folder() + "/tokenizer.json");
}

TEST_F(ModelFolder, GenerationConfigIsOptional) {
  Remove("generation_config.json");
  const auto card = LoadModelFolder(Folder(), std::nullopt);
  ASSERT_TRUE(card.has_value());
  EXPECT_FALSE(card->generation_config.has_value());
}

TEST_F(ModelFolder, ContextLengthMayStandInTextConfig) {
  Write("config.json", R"({"text_config":{"max_position_embeddings":4096}})");
  EXPECT_EQ(LoadModelFolder(Folder(), std::nullopt)->architectural_max_context_length, 4096U);
  Write("config.json", "{}");
  EXPECT_FALSE(
      LoadModelFolder(Folder(), std::nullopt)->architectural_max_context_length.has_value());
}

TEST_F(ModelFolder, MandatoryFileMissingIsNamed) {
  for (const char* name : {"tokenizer.json", "config.json"}) {
    Remove(name);
    EXPECT_EQ(Refusal().code, Errc::kInvalidConfig);
    EXPECT_EQ(Refusal().message, Folder() + "/" + name + ": No such file or directory");
  }
}

TEST_F(ModelFolder, ConfigThatIsNoJsonObjectIsNamed) {
  Write("config.json", "{");
  EXPECT_EQ(Refusal().code, Errc::kInvalidConfig);
  EXPECT_EQ(Refusal().message.find(Folder() + "/config.json: not JSON"), 0U);
  Write("config.json", "[]");
  EXPECT_EQ(Refusal().message, Folder() + "/config.json: not an object");
}

TEST_F(ModelFolder, FolderThatIsNoneIsNamed) {
  auto card = LoadModelFolder((root_ / "none").string(), std::nullopt);
  ASSERT_FALSE(card.has_value());
  EXPECT_EQ(card.error().code, Errc::kInvalidConfig);
  EXPECT_EQ(card.error().message,
            "model folder '" + (root_ / "none").string() + "': No such file or directory");
  card = LoadModelFolder(Folder() + "/config.json", std::nullopt);
  ASSERT_FALSE(card.has_value());
  EXPECT_EQ(card.error().message, "model folder '" + Folder() + "/config.json': not a folder");
  EXPECT_FALSE(LoadModelFolder("", std::nullopt).has_value());
}

}  // namespace
}  // namespace understudy::transport
