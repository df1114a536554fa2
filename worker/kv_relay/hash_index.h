// A hash table of places: the keys stand in somebody else's array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace understudy::worker {

/// Open addressing with linear probing, 4 bytes a slot. `key_of(place)` gives the key of an entry;
/// the caller passes it to every member that moves or compares entries.
class HashIndex {
 public:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;

  [[nodiscard]] std::size_t size() const { return size_; }

  template <class KeyOf>
  [[nodiscard]] std::uint32_t Find(std::uint64_t key, KeyOf key_of) const {
    if (slots_.empty()) {
      return kNone;
    }
    for (std::size_t slot = Home(key); slots_[slot] != kNone; slot = Next(slot)) {
      if (key_of(slots_[slot]) == key) {
        return slots_[slot];
      }
    }
    return kNone;
  }

  /// `key` is not in the table.
  template <class KeyOf>
  void Insert(std::uint64_t key, std::uint32_t place, KeyOf key_of) {
    if ((size_ + 1) * 4 > slots_.size() * 3) {
      Grow(key_of);
    }
    Put(key, place);
    ++size_;
  }

  /// `key` is in the table. Entries behind the hole move up, so that no tombstones are left.
  template <class KeyOf>
  void Erase(std::uint64_t key, KeyOf key_of) {
    std::size_t hole = Home(key);
    while (key_of(slots_[hole]) != key) {
      hole = Next(hole);
    }
    for (std::size_t slot = Next(hole); slots_[slot] != kNone; slot = Next(slot)) {
      const std::size_t home = Home(key_of(slots_[slot]));
      if (((slot - home) & Mask()) >= ((slot - hole) & Mask())) {
        slots_[hole] = slots_[slot];
        hole = slot;
      }
    }
    slots_[hole] = kNone;
    --size_;
  }

  void Clear() {
    std::vector<std::uint32_t>().swap(slots_);
    size_ = 0;
  }

 private:
  static constexpr std::size_t kSlotsFirst = 16;

  [[nodiscard]] std::size_t Mask() const { return slots_.size() - 1; }
  [[nodiscard]] std::size_t Next(std::size_t slot) const { return (slot + 1) & Mask(); }
  /// Engines number blocks as they like, one after the other too: the high bits are well mixed.
  [[nodiscard]] std::size_t Home(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9E37'79B9'7F4A'7C15ULL) >> 32U) & Mask();
  }
  void Put(std::uint64_t key, std::uint32_t place) {
    std::size_t slot = Home(key);
    while (slots_[slot] != kNone) {
      slot = Next(slot);
    }
    slots_[slot] = place;
  }
  template <class KeyOf>
  void Grow(KeyOf key_of) {
    const std::vector<std::uint32_t> old = std::move(slots_);
    slots_.assign(old.empty() ? kSlotsFirst : old.size() * 2, kNone);
    for (const std::uint32_t place : old) {
      if (place != kNone) {
        Put(key_of(place), place);
      }
    }
  }

  std::vector<std::uint32_t> slots_;  ///< a power of two of them
  std::size_t size_ = 0;
};

}  // namespace understudy::worker
