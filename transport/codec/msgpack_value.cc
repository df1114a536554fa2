#include "transport/codec/msgpack_value.h"

#include "transport/codec/json_value.h"
#include "transport/codec/utf8.h"

#include <bit>

#include <simdjson.h>

namespace understudy::transport {
namespace {

constexpr std::uint8_t kNil = 0xc0, kFalse = 0xc2, kTrue = 0xc3;
constexpr std::uint8_t kBin8 = 0xc4, kExt8 = 0xc7, kFloat32 = 0xca, kFloat64 = 0xcb;
constexpr std::uint8_t kUint8 = 0xcc, kUint64 = 0xcf, kInt8 = 0xd0, kInt64 = 0xd3;
constexpr std::uint8_t kFixExt1 = 0xd4, kFixExt16 = 0xd8, kStr8 = 0xd9, kStr32 = 0xdb;
constexpr std::uint8_t kArray16 = 0xdc, kArray32 = 0xdd, kMap16 = 0xde, kMap32 = 0xdf;

constexpr const char* kCutShort = "ends inside a value";

bool IsFixStr(std::uint8_t tag) {
  return (tag & 0xe0U) == 0xa0U;
}
bool IsFixArray(std::uint8_t tag) {
  return (tag & 0xf0U) == 0x90U;
}
bool IsFixMap(std::uint8_t tag) {
  return (tag & 0xf0U) == 0x80U;
}
bool IsUtf8(std::string_view text) {
  return IsAscii(text) || simdjson::validate_utf8(text);
}

}  // namespace

bool MsgpackReader::Peek(std::uint8_t& tag) {
  if (broken_ != nullptr) {
    return false;
  }
  if (at_ >= bytes_.size()) {
    return Break(kCutShort);
  }
  tag = static_cast<std::uint8_t>(bytes_[at_]);
  return true;
}

bool MsgpackReader::TakeUint(std::size_t width, std::uint64_t& out) {
  if (bytes_.size() - at_ < width + 1) {
    return Break(kCutShort);
  }
  out = 0;
  for (std::size_t i = 1; i <= width; ++i) {
    out = out << 8U | static_cast<std::uint8_t>(bytes_[at_ + i]);
  }
  at_ += width + 1;
  return true;
}

bool MsgpackReader::TakeInt(std::uint8_t tag, std::int64_t& out) {
  const unsigned width = 1U << static_cast<unsigned>(tag - kInt8);
  std::uint64_t raw = 0;
  if (!TakeUint(width, raw)) {
    return false;
  }
  const unsigned unused_bits = 64U - 8U * width;
  out = static_cast<std::int64_t>(raw << unused_bits) >> unused_bits;
  return true;
}

bool MsgpackReader::TakeBytes(std::uint64_t size, std::string_view& out) {
  if (bytes_.size() - at_ < size) {
    return Break(kCutShort);
  }
  out = bytes_.substr(at_, size);
  at_ += size;
  return true;
}

bool MsgpackReader::TakeSize(std::uint8_t tag, std::uint8_t narrow, std::uint64_t& size) {
  return TakeUint(std::size_t{1} << static_cast<unsigned>(tag - narrow), size);
}

bool MsgpackReader::TakeNull() {
  std::uint8_t tag = 0;
  if (!Peek(tag) || tag != kNil) {
    return false;
  }
  ++at_;
  return true;
}

bool MsgpackReader::Bool(bool& out) {
  std::uint8_t tag = 0;
  if (!Peek(tag) || (tag != kFalse && tag != kTrue)) {
    return false;
  }
  out = tag == kTrue;
  ++at_;
  return true;
}

bool MsgpackReader::Unsigned(std::uint64_t& out) {
  std::uint8_t tag = 0;
  if (!Peek(tag)) {
    return false;
  }
  if (tag < 0x80) {
    out = tag;
    ++at_;
    return true;
  }
  if (tag >= kUint8 && tag <= kUint64) {
    return TakeUint(std::size_t{1} << static_cast<unsigned>(tag - kUint8), out);
  }
  if (tag >= kInt8 && tag <= kInt64) {
    std::int64_t number = 0;
    if (!TakeInt(tag, number) || number < 0) {
      return false;
    }
    out = static_cast<std::uint64_t>(number);
    return true;
  }
  double number = 0;
  return Number(number) && JsonValue::WholeNumber(number, out);
}

bool MsgpackReader::Number(double& out) {
  std::uint8_t tag = 0;
  if (!Peek(tag)) {
    return false;
  }
  std::uint64_t raw = 0;
  if (tag < 0x80 || tag >= 0xe0) {
    out = static_cast<std::int8_t>(tag);
    ++at_;
    return true;
  }
  if (tag == kFloat32) {
    if (!TakeUint(4, raw)) {
      return false;
    }
    out = static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(raw)));
    return true;
  }
  if (tag == kFloat64) {
    if (!TakeUint(8, raw)) {
      return false;
    }
    out = std::bit_cast<double>(raw);
    return true;
  }
  if (tag >= kUint8 && tag <= kUint64) {
    if (!TakeUint(std::size_t{1} << static_cast<unsigned>(tag - kUint8), raw)) {
      return false;
    }
    out = static_cast<double>(raw);
    return true;
  }
  if (tag >= kInt8 && tag <= kInt64) {
    std::int64_t number = 0;
    if (!TakeInt(tag, number)) {
      return false;
    }
    out = static_cast<double>(number);
    return true;
  }
  return false;
}

bool MsgpackReader::Integer(std::uint64_t& bits, bool& negative) {
  std::uint8_t tag = 0;
  if (!Peek(tag)) {
    return false;
  }
  std::int64_t number = 0;
  if (tag < 0x80 || tag >= 0xe0) {
    number = static_cast<std::int8_t>(tag);
    ++at_;
  } else if (tag >= kInt8 && tag <= kInt64) {
    if (!TakeInt(tag, number)) {
      return false;
    }
  } else {
    negative = false;
    return tag >= kUint8 && tag <= kUint64 &&
           TakeUint(std::size_t{1} << static_cast<unsigned>(tag - kUint8), bits);
  }
  negative = number < 0;
  bits = static_cast<std::uint64_t>(number);
  return true;
}

bool MsgpackReader::Text(std::string_view& out) {
  std::uint8_t tag = 0;
  if (!Peek(tag)) {
    return false;
  }
  std::uint64_t size = tag & 0x1fU;
  if (IsFixStr(tag)) {
    ++at_;
  } else if (tag < kStr8 || tag > kStr32 || !TakeSize(tag, kStr8, size)) {
    return false;
  }
  if (!TakeBytes(size, out)) {
    return false;
  }
  return !check_text_ || IsUtf8(out) || Break("a string is not UTF-8");
}

bool MsgpackReader::TextOrBinary(std::string_view& out) {
  std::uint8_t tag = 0;
  if (!Peek(tag)) {
    return false;
  }
  if (tag < kBin8 || tag >= kExt8) {
    return Text(out);
  }
  return Binary(out) && (IsUtf8(out) || Break("a string is not UTF-8"));
}

bool MsgpackReader::AtMap() const {
  const std::uint8_t tag = AtEnd() ? kNil : static_cast<std::uint8_t>(bytes_[at_]);
  return IsFixMap(tag) || tag == kMap16 || tag == kMap32;
}

bool MsgpackReader::AtArray() const {
  const std::uint8_t tag = AtEnd() ? kNil : static_cast<std::uint8_t>(bytes_[at_]);
  return IsFixArray(tag) || tag == kArray16 || tag == kArray32;
}

bool MsgpackReader::Binary(std::string_view& out) {
  std::uint8_t tag = 0;
  std::uint64_t size = 0;
  return Peek(tag) && tag >= kBin8 && tag < kExt8 && TakeSize(tag, kBin8, size) &&
         TakeBytes(size, out);
}

bool MsgpackReader::Enter(std::uint64_t count, std::uint64_t values_per_item) {
  if (count * values_per_item > bytes_.size() - at_) {
    return Break("declares more items than bytes are left");
  }
  if (depth_ >= nesting_max_) {
    return Break("nested too deep");
  }
  ++depth_;
  return true;
}

bool MsgpackReader::EnterMap(std::uint64_t& count) {
  std::uint8_t tag = 0;
  if (!Peek(tag)) {
    return false;
  }
  count = tag & 0x0fU;
  if (IsFixMap(tag)) {
    ++at_;
  } else if ((tag != kMap16 && tag != kMap32) || !TakeUint(tag == kMap16 ? 2 : 4, count)) {
    return false;
  }
  return Enter(count, 2);
}

bool MsgpackReader::EnterArray(std::uint64_t& count) {
  std::uint8_t tag = 0;
  if (!Peek(tag)) {
    return false;
  }
  count = tag & 0x0fU;
  if (IsFixArray(tag)) {
    ++at_;
  } else if ((tag != kArray16 && tag != kArray32) || !TakeUint(tag == kArray16 ? 2 : 4, count)) {
    return false;
  }
  return Enter(count, 1);
}

bool MsgpackReader::SkipContents(std::uint64_t values) {
  for (std::uint64_t i = 0; i < values; ++i) {
    if (!Skip()) {
      return false;
    }
  }
  --depth_;
  return true;
}

bool MsgpackReader::Skip() {
  std::uint8_t tag = 0;
  if (!Peek(tag)) {
    return false;
  }
  std::uint64_t size = 0;
  std::string_view ignored;
  if (IsFixMap(tag) || tag == kMap16 || tag == kMap32) {
    return EnterMap(size) && SkipContents(2 * size);
  }
  if (IsFixArray(tag) || tag == kArray16 || tag == kArray32) {
    return EnterArray(size) && SkipContents(size);
  }
  if (IsFixStr(tag) || (tag >= kStr8 && tag <= kStr32)) {
    return Text(ignored);
  }
  if (tag == kNil || tag == kFalse || tag == kTrue) {
    ++at_;
    return true;
  }
  if (tag >= kBin8 && tag < kExt8) {
    return Binary(ignored);
  }
  if (tag >= kExt8 && tag < kFloat32) {  // size, one byte of type, data
    return TakeSize(tag, kExt8, size) && TakeBytes(size + 1, ignored);
  }
  if (tag >= kFixExt1 && tag <= kFixExt16) {
    ++at_;
    return TakeBytes((std::uint64_t{1} << static_cast<unsigned>(tag - kFixExt1)) + 1, ignored);
  }
  double number = 0;
  return Number(number) || Break("holds the unused tag 0xc1");
}

bool MsgpackReader::AtText() const {
  const std::uint8_t tag = AtEnd() ? kNil : static_cast<std::uint8_t>(bytes_[at_]);
  return IsFixStr(tag) || (tag >= kStr8 && tag <= kStr32);
}

bool MsgpackReader::AtInteger() const {
  const std::uint8_t tag = AtEnd() ? kNil : static_cast<std::uint8_t>(bytes_[at_]);
  return tag < 0x80 || tag >= 0xe0 || (tag >= kUint8 && tag <= kInt64);
}

bool MsgpackReader::SkipAnyBytes() {
  check_text_ = false;
  const bool done = Skip();
  check_text_ = true;
  return done;
}

}  // namespace understudy::transport
