#include "plugin/mocker/perf_model/json_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

namespace understudy::mocker {

namespace {

using Json = nlohmann::json;

/// Appends the numbers of `value`, which must be arrays within arrays of the sizes that are left in
/// `shape`. Returns what is wrong, "" when nothing is.
std::string Flatten(const Json& value,
                    const std::string& place,
                    const std::vector<std::size_t>& shape,
                    std::size_t depth,
                    std::vector<double>& out) {
  if (depth == shape.size()) {
    if (!value.is_number()) {
      return place + " is no number";
    }
    out.push_back(value.get<double>());
    return "";
  }
  if (!value.is_array()) {
    return place + " is no array";
  }
  if (value.size() != shape[depth]) {
    return place + " has " + std::to_string(value.size()) + " elements, expected " +
           std::to_string(shape[depth]);
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    std::string wrong =
        Flatten(value[i], place + "[" + std::to_string(i) + "]", shape, depth + 1, out);
    if (!wrong.empty()) {
      return wrong;
    }
  }
  return "";
}

}  // namespace

struct JsonFile::Impl {
  std::string path;
  Json top = nullptr;

  [[nodiscard]] tl::unexpected<Error> Bad(const std::string& what) const {
    return Fail(Errc::kMalformed, path + ": " + what);
  }
  [[nodiscard]] const Json* Find(std::string_view name) const {
    const Json* at = &top;
    while (!name.empty()) {
      const std::string_view step = name.substr(0, name.find('.'));
      name.remove_prefix(std::min(name.size(), step.size() + 1));
      if (!at->is_object()) {
        return nullptr;
      }
      const auto found = at->find(std::string(step));
      if (found == at->end()) {
        return nullptr;
      }
      at = &*found;
    }
    return at;
  }
  [[nodiscard]] Result<const Json*> Need(std::string_view name) const {
    const Json* found = Find(name);
    if (found == nullptr) {
      return Bad(std::string(name) + " is missing");
    }
    return found;
  }
  [[nodiscard]] Status Parse(const std::string& text) {
    try {
      top = Json::parse(text);
    } catch (const Json::exception& error) {  // the only way to learn line and column
      return Bad(std::string("no JSON: ") + error.what());
    }
    return top.is_object() ? Status{} : Status(Bad("no JSON object at the top"));
  }
};

JsonFile::JsonFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JsonFile::JsonFile(JsonFile&&) noexcept = default;
JsonFile& JsonFile::operator=(JsonFile&&) noexcept = default;
JsonFile::~JsonFile() = default;

Result<JsonFile> JsonFile::Open(const std::string& path, std::size_t bytes_max) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return impl->Bad("no such file");
  }
  const auto size = std::filesystem::file_size(path, error);
  if (error || size > bytes_max) {
    return impl->Bad(error ? "unreadable"
                           : std::to_string(size) + " bytes, limit " + std::to_string(bytes_max));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(size), '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(size))) {
    return impl->Bad("unreadable");
  }
  UNDERSTUDY_TRY_STATUS(impl->Parse(text));
  return JsonFile(std::move(impl));
}

bool JsonFile::Has(std::string_view name) const {
  return impl_->Find(name) != nullptr;
}

Result<double> JsonFile::Number(std::string_view name) const {
  UNDERSTUDY_TRY(const Json* value, impl_->Need(name));
  if (!value->is_number()) {
    return impl_->Bad(std::string(name) + " is no number");
  }
  return value->get<double>();
}

Result<std::string> JsonFile::Text(std::string_view name) const {
  UNDERSTUDY_TRY(const Json* value, impl_->Need(name));
  if (!value->is_string()) {
    return impl_->Bad(std::string(name) + " is no text");
  }
  return value->get<std::string>();
}

Result<std::vector<double>> JsonFile::Numbers(std::string_view name) const {
  UNDERSTUDY_TRY(const Json* value, impl_->Need(name));
  return Nested(name, {value->is_array() ? value->size() : 0});
}

Result<std::vector<double>> JsonFile::Nested(std::string_view name,
                                             const std::vector<std::size_t>& shape) const {
  UNDERSTUDY_TRY(const Json* value, impl_->Need(name));
  std::vector<double> numbers;
  const std::string wrong = Flatten(*value, std::string(name), shape, 0, numbers);
  if (!wrong.empty()) {
    return impl_->Bad(wrong);
  }
  return numbers;
}

Status JsonFile::CheckMembers(std::string_view name,
                              std::initializer_list<std::string_view> allowed) const {
  UNDERSTUDY_TRY(const Json* object, impl_->Need(name));
  if (!object->is_object()) {
    return impl_->Bad(std::string(name) + " is no object");
  }
  for (const auto& [key, value] : object->items()) {
    if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) {
      continue;
    }
    std::string text = "unknown member '";
    if (!name.empty()) {
      text.append(name).append(".");
    }
    text.append(key).append("', known are");
    const char* separator = " ";
    for (const std::string_view one : allowed) {
      text.append(separator).append(one);
      separator = ", ";
    }
    return impl_->Bad(text);
  }
  return {};
}

const std::string& JsonFile::path() const {
  return impl_->path;
}

}  // namespace understudy::mocker
