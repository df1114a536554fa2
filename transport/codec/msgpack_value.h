// Pull reader over msgpack with the same members as JsonValue, so that one template reads both
// codecs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace understudy::transport {

/// Reads one value after the other; each member consumes exactly one value when it returns true.
/// Nothing is allocated, a declared count is believed only if that many bytes are left. A false
/// return that leaves `broken()` null is a value of another type; otherwise the bytes themselves
/// are bad, and every later call fails.
class MsgpackReader {
 public:
  /// Levels of maps and arrays; the option's value is cut to this, because Skip recurses.
  static constexpr std::size_t kNestingMax = 512;

  MsgpackReader(std::string_view bytes, std::size_t nesting_max)
      : bytes_(bytes), nesting_max_(nesting_max < kNestingMax ? nesting_max : kNestingMax) {}

  [[nodiscard]] bool TakeNull();
  [[nodiscard]] bool Bool(bool& out);
  /// Integers of any width, and float32/float64 without a fraction.
  [[nodiscard]] bool Unsigned(std::uint64_t& out);
  [[nodiscard]] bool Number(double& out);
  /// Integers of any width and sign, no floats: the 64 bits of two's complement. `negative` tells
  /// -1 from 2^64 - 1.
  [[nodiscard]] bool Integer(std::uint64_t& bits, bool& negative);
  /// A str; UTF-8 is checked. Views into the input.
  [[nodiscard]] bool Text(std::string_view& out);
  /// A bin. Views into the input.
  [[nodiscard]] bool Binary(std::string_view& out);
  /// A str or a bin, UTF-8 either way: some writers of msgpack do not tell them apart.
  [[nodiscard]] bool TextOrBinary(std::string_view& out);
  /// Any value, with everything in it (str must be UTF-8 there too).
  [[nodiscard]] bool Skip();
  /// Like Skip, but a str may hold anything: to get past a value that was refused.
  [[nodiscard]] bool SkipAnyBytes();
  /// The type of the next value. Nothing is consumed.
  [[nodiscard]] bool AtMap() const;
  [[nodiscard]] bool AtArray() const;
  [[nodiscard]] bool AtText() const;
  [[nodiscard]] bool AtInteger() const;

  /// Calls f(key, reader) -> bool for each member of a map with str keys; f consumes the value.
  template <class F>
  [[nodiscard]] bool Fields(F&& f) {
    std::uint64_t count = 0;
    if (!EnterMap(count)) {
      return false;
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      std::string_view key;
      if (!Text(key)) {
        return Break("map key is not a string");
      }
      if (!f(key, *this)) {
        return false;
      }
    }
    --depth_;
    return true;
  }

  /// Calls begin(count) -> bool once, then f(reader) -> bool for each item; f consumes the item.
  template <class B, class F>
  [[nodiscard]] bool Items(B&& begin, F&& f) {
    std::uint64_t count = 0;
    if (!EnterArray(count) || !begin(count)) {
      return false;
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      if (!f(*this)) {
        return false;
      }
    }
    --depth_;
    return true;
  }

  [[nodiscard]] const char* broken() const { return broken_; }
  [[nodiscard]] bool AtEnd() const { return at_ == bytes_.size(); }
  [[nodiscard]] std::size_t bytes_left() const { return bytes_.size() - at_; }

 private:
  [[nodiscard]] bool EnterMap(std::uint64_t& count);
  [[nodiscard]] bool EnterArray(std::uint64_t& count);
  [[nodiscard]] bool Enter(std::uint64_t count, std::uint64_t values_per_item);
  [[nodiscard]] bool Peek(std::uint8_t& tag);
  /// The big-endian number of `width` bytes behind the tag; consumes both.
  [[nodiscard]] bool TakeUint(std::size_t width, std::uint64_t& out);
  /// A signed integer form with the tag `tag`.
  [[nodiscard]] bool TakeInt(std::uint8_t tag, std::int64_t& out);
  [[nodiscard]] bool TakeBytes(std::uint64_t size, std::string_view& out);
  /// Size of a str or bin: `narrow` is the tag of its 8-bit form, the 16 and 32-bit forms follow
  /// it.
  [[nodiscard]] bool TakeSize(std::uint8_t tag, std::uint8_t narrow, std::uint64_t& size);
  [[nodiscard]] bool SkipContents(std::uint64_t values);
  bool Break(const char* why) {
    if (broken_ == nullptr) {
      broken_ = why;
    }
    return false;
  }

  std::string_view bytes_;
  std::size_t nesting_max_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  bool check_text_ = true;
  const char* broken_ = nullptr;
};

}  // namespace understudy::transport
