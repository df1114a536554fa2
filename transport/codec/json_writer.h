// Compact JSON text, in the order it is asked for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace understudy::transport {

/// Quoted and escaped as serde_json does it; bytes that are not UTF-8 become U+FFFD, one for each
/// maximal bad part.
void AppendJsonString(std::string& out, std::string_view text);
void AppendDecimal(std::string& out, std::uint64_t number);

/// Writes one value. Commas are placed by the writer; Begin and End calls must match.
class JsonWriter {
 public:
  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  JsonWriter& Key(std::string_view key);
  JsonWriter& Text(std::string_view text);
  JsonWriter& Number(std::uint64_t number);
  JsonWriter& Bool(bool value) { return Raw(value ? "true" : "false"); }
  JsonWriter& Null() { return Raw("null"); }
  /// Text that is JSON already.
  JsonWriter& Raw(std::string_view json);

  [[nodiscard]] std::string Take() { return std::move(out_); }

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  void Separate();

  std::string out_;
  bool comma_ = false;
};

}  // namespace understudy::transport
