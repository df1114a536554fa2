// Source: wire.md 3.1, 3.3; vectors/wire/etcd_1.3.0_nats.json (what the mocker publishes for a
// local folder).
#include "transport/codec/blake3.h"
#include "transport/codec/json_value.h"
#include "understudy/transport/records.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>

namespace understudy::transport {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kFileBytesMax = 512U << 20;
constexpr std::size_t kNestingMax = 256;

Result<std::string> ReadFile(const fs::path& path) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  if (error) {
    return Fail(Errc::kInvalidConfig, path.string() + ": " + error.message());
  }
  if (size > kFileBytesMax) {
    return Fail(Errc::kInvalidConfig,
                path.string() + ": " + std::to_string(size) + " bytes, limit " +
                    std::to_string(kFileBytesMax));
  }
  std::string bytes(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) {
    return Fail(Errc::kInvalidConfig, path.string() + ": cannot be read");
  }
  return bytes;
}

/// The number under `key`, if it is there and fits.
std::optional<std::uint32_t> NumberIn(JsonValue object, std::string_view key) {
  std::optional<std::uint32_t> found;
  const bool is_object = object.Fields([&](std::string_view name, JsonValue value) {
    std::uint64_t number = 0;
    if (name == key && value.Unsigned(number) &&
        number <= std::numeric_limits<std::uint32_t>::max()) {
      found = static_cast<std::uint32_t>(number);
    }
    return true;
  });
  return is_object ? found : std::nullopt;
}

/// max_position_embeddings, which multimodal models keep in text_config.
Result<std::optional<std::uint32_t>> ContextLength(const std::string& path,
                                                   const std::string& config) {
  constexpr std::string_view kKey = "max_position_embeddings";
  auto root = ParseJson(config, kNestingMax);
  if (!root) {
    return Fail(Errc::kInvalidConfig, path + ": " + root.error().message);
  }
  std::optional<std::uint32_t> found = NumberIn(*root, kKey);
  std::optional<std::uint32_t> inner;
  const bool is_object = root->Fields([&](std::string_view name, JsonValue value) {
    if (name == "text_config") {
      inner = NumberIn(value, kKey);
    }
    return true;
  });
  if (!is_object) {
    return Fail(Errc::kInvalidConfig, path + ": not an object");
  }
  return found ? found : inner;
}

struct LoadedFile {
  CardFile card;
  std::string bytes;
};

Result<LoadedFile> LoadFile(const fs::path& path) {
  UNDERSTUDY_TRY(std::string bytes, ReadFile(path));
  CardFile card{path.string(), "blake3:" + Blake3Hex(bytes), bytes.size()};
  return LoadedFile{std::move(card), std::move(bytes)};
}

/// Leaves `out` empty when there is no such file.
Status LoadIfThere(const fs::path& path, std::optional<CardFile>& out) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return {};
  }
  UNDERSTUDY_TRY(LoadedFile file, LoadFile(path));
  out = std::move(file.card);
  return {};
}

}  // namespace

Result<ModelCard> LoadModelFolder(const std::string& folder,
                                  const std::optional<std::string>& name) {
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  if (error) {
    return Fail(Errc::kInvalidConfig, "model folder '" + folder + "': " + error.message());
  }
  if (!fs::is_directory(root, error)) {
    return Fail(Errc::kInvalidConfig, "model folder '" + folder + "': not a folder");
  }
  ModelCard card;
  // Without a name the mocker serves the model under the text of --model-path as it was typed,
  // relative or not.
  card.display_name = name.value_or(folder);
  card.slug = Slugify(card.display_name);
  UNDERSTUDY_TRY(LoadedFile config, LoadFile(root / "config.json"));
  UNDERSTUDY_TRY(card.architectural_max_context_length,
                 ContextLength(config.card.path, config.bytes));
  card.config = std::move(config.card);
  UNDERSTUDY_TRY(LoadedFile tokenizer, LoadFile(root / "tokenizer.json"));
  card.tokenizer = std::move(tokenizer.card);
  UNDERSTUDY_TRY_STATUS(LoadIfThere(root / "tokenizer_config.json", card.tokenizer_config));
  UNDERSTUDY_TRY_STATUS(LoadIfThere(root / "generation_config.json", card.generation_config));
  return card;
}

}  // namespace understudy::transport
