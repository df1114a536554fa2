// The same calls for JSON and msgpack, so that one function template writes both.
#pragma once

#include "transport/codec/json_writer.h"
#include "transport/codec/msgpack_writer.h"
#include "transport/codec/rust_number.h"
#include "transport/codec/utf8.h"
#include "understudy/base/uuid.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace understudy::transport {

/// Sizes of maps and arrays are known when they begin. `Text` is ours and UTF-8; `PeerText` may
/// hold any bytes, what is not UTF-8 becomes U+FFFD.
class JsonSink {
 public:
  void Map(std::size_t) { writer_.BeginObject(); }
  void EndMap() { writer_.EndObject(); }
  void Array(std::size_t) { writer_.BeginArray(); }
  void EndArray() { writer_.EndArray(); }
  void Key(std::string_view key) { writer_.Key(key); }
  void Text(std::string_view text) { writer_.Text(text); }
  void PeerText(std::string_view text) { writer_.Text(text); }
  void Uint(std::uint64_t number) { writer_.Number(number); }
  void Bool(bool value) { writer_.Bool(value); }
  /// With a point or an exponent always: readers take bare digits for an integer and refuse those
  /// that need more than 64 bits. null when not finite.
  void Double(double number) {
    if (std::isfinite(number)) {
      writer_.Raw(RustJsonNumber(number));
    } else {
      writer_.Null();
    }
  }
  void Null() { writer_.Null(); }
  void Id(const Uuid& id) { writer_.Text(ToText(id)); }
  [[nodiscard]] std::string Take() { return writer_.Take(); }

 private:
  JsonWriter writer_;
};

/// Appends to a text that outlives it.
class MsgpackSink {
 public:
  explicit MsgpackSink(std::string& out) : out_(out) {}
  void Map(std::size_t size) { AppendMsgpackMap(out_, size); }
  void EndMap() {}
  void Array(std::size_t size) { AppendMsgpackArray(out_, size); }
  void EndArray() {}
  void Key(std::string_view key) { AppendMsgpackText(out_, key); }
  void Text(std::string_view text) { AppendMsgpackText(out_, text); }
  void PeerText(std::string_view text) { AppendMsgpackText(out_, ToUtf8(text)); }
  void Uint(std::uint64_t number) { AppendMsgpackUint(out_, number); }
  void Bool(bool value) { AppendMsgpackBool(out_, value); }
  void Double(double number) { AppendMsgpackDouble(out_, number); }
  void Null() { AppendMsgpackNil(out_); }
  /// Peers written in Rust take an id in this form only.
  void Id(const Uuid& id) {
    char bytes[16];
    StoreU64(bytes, id.high);
    StoreU64(bytes + 8, id.low);
    AppendMsgpackBinary(out_, {bytes, sizeof(bytes)});
  }

 private:
  std::string& out_;
};

}  // namespace understudy::transport
