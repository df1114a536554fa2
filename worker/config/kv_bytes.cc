#include "worker/config/kv_bytes.h"

#include "worker/config/text_file.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kConfigBytesMax = 16U << 20;
/// A field beyond it is no model's; four of them multiply without overflow.
constexpr std::uint64_t kFieldMax = 1U << 15;
constexpr std::uint64_t kUnknownDtypeBytes = 2;
constexpr std::array<std::pair<std::string_view, std::uint64_t>, 10> kDtypeBytes = {{
    {"float16", 2},
    {"bfloat16", 2},
    {"float32", 4},
    {"float8_e4m3fn", 1},
    {"float8_e5m2", 1},
    {"fp8", 1},
    {"fp8_ds_mla", 1},
    {"fp8_e4m3", 1},
    {"fp8_inc", 1},
    {"int8", 1},
}};

std::uint64_t BytesOf(std::string_view dtype) {
  constexpr std::string_view kTorch = "torch.";
  if (dtype.starts_with(kTorch)) {
    dtype.remove_prefix(kTorch.size());
  }
  const auto* found = std::find_if(
      kDtypeBytes.begin(), kDtypeBytes.end(), [dtype](const auto& e) { return e.first == dtype; });
  return found == kDtypeBytes.end() ? kUnknownDtypeBytes : found->second;
}

/// The first of `names` that is there and not null.
const Json* Member(const Json& config, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto found = config.find(name); found != config.end() && !found->is_null()) {
      return &*found;
    }
  }
  return nullptr;
}

Result<std::uint64_t> Count(const Json& config, std::initializer_list<const char*> names) {
  const Json* value = Member(config, names);
  const bool whole = value != nullptr && value->is_number_unsigned();
  if (!whole || value->get<std::uint64_t>() == 0 || value->get<std::uint64_t>() > kFieldMax) {
    return Fail(
        Errc::kInvalidConfig,
        std::string("config.json: ") + *names.begin() + " must be a number between 1 and " +
            std::to_string(kFieldMax) +
            (value == nullptr ? ", it is missing" : ", got " + value->dump().substr(0, 80)));
  }
  return value->get<std::uint64_t>();
}

}  // namespace

Result<std::uint64_t> KvBytesPerToken(const std::string& model, const std::string& dtype) {
  auto text = ReadTextFile(model + "/config.json", kConfigBytesMax);
  if (!text) {
    return FailWith("config.json", text.error());
  }
  const auto config = Json::parse(*text, nullptr, false);
  if (!config.is_object()) {
    return Fail(Errc::kInvalidConfig, "config.json is not a JSON object");
  }
  UNDERSTUDY_TRY(const auto layers, Count(config, {"num_hidden_layers"}));
  UNDERSTUDY_TRY(const auto hidden_size, Count(config, {"hidden_size"}));
  UNDERSTUDY_TRY(const auto heads, Count(config, {"num_attention_heads"}));
  UNDERSTUDY_TRY(const auto kv_heads,
                 Count(config, {"num_key_value_heads", "num_kv_heads", "num_attention_heads"}));
  const Json* own = Member(config, {"dtype", "torch_dtype"});
  const std::string name = dtype != "auto"                      ? dtype
                           : own != nullptr && own->is_string() ? own->get<std::string>()
                                                                : "";
  return layers * 2 * kv_heads * (hidden_size / heads) * BytesOf(name);
}

}  // namespace understudy::worker
