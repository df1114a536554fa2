#include "tests/unit/transport/codec/golden.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace understudy::transport::golden {
namespace {

std::filesystem::path Root() {
  return std::filesystem::path(UNDERSTUDY_SOURCE_DIR) / "tests/vectors";
}

}  // namespace

Json Load(const std::string& name) {
  std::ifstream file(Root() / name);
  if (!file) {
    throw std::runtime_error("no vector " + name);
  }
  return Json::parse(file);
}

std::vector<std::string> WireFiles(const std::string& prefix) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(Root() / "wire")) {
    const std::string name = entry.path().filename().string();
    if (name.compare(0, prefix.size(), prefix) == 0) {
      names.push_back("wire/" + name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

PayloadCodec CodecOf(const Json& vector) {
  return vector.at("payload_codec") == "json" ? PayloadCodec::kJson : PayloadCodec::kMsgpack;
}

}  // namespace understudy::transport::golden
