// A JSON file that holds arrays of numbers.
#pragma once

#include "understudy/base/result.h"

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::mocker {

/// Members are named by their way from the top: "prefill.batch". Errors: kMalformed with the file,
/// the member, and what is wrong. Not thread-safe; used at start only.
class JsonFile {
 public:
  /// Errors: no regular file, unreadable, larger than `bytes_max`, no JSON (line and column), or
  /// something else than an object at the top.
  [[nodiscard]] static Result<JsonFile> Open(const std::string& path, std::size_t bytes_max);
  JsonFile(JsonFile&&) noexcept;
  JsonFile& operator=(JsonFile&&) noexcept;
  ~JsonFile();

  [[nodiscard]] bool Has(std::string_view name) const;
  [[nodiscard]] Result<double> Number(std::string_view name) const;
  [[nodiscard]] Result<std::string> Text(std::string_view name) const;
  /// An array of numbers.
  [[nodiscard]] Result<std::vector<double>> Numbers(std::string_view name) const;
  /// Arrays of arrays of numbers, of exactly `shape`; in C order.
  [[nodiscard]] Result<std::vector<double>> Nested(std::string_view name,
                                                   const std::vector<std::size_t>& shape) const;
  /// Fails when the object `name` ("" = the top) has a member that is not `allowed`.
  [[nodiscard]] Status CheckMembers(std::string_view name,
                                    std::initializer_list<std::string_view> allowed) const;

  [[nodiscard]] const std::string& path() const;

 private:
  struct Impl;
  explicit JsonFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace understudy::mocker
