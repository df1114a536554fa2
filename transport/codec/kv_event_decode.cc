// Source: events.md 1.3.
#include "transport/codec/kv_event_decode.h"

#include "transport/codec/kv_event_fields.h"

#include <array>
#include <utility>

namespace understudy::transport {
namespace {

constexpr std::string_view kStored = "BlockStored";
constexpr std::string_view kRemoved = "BlockRemoved";
constexpr std::string_view kCleared = "AllBlocksCleared";
constexpr std::string_view kIgnored = "Ignored";

/// Which of the fields that an event needs were there.
struct Given {
  bool hashes = false, tokens = false, block_size = false;
};

/// Turns what was read (all fields of all types) into the event that `type` names.
bool Finish(std::string_view type,
            EngineKvStored&& fields,
            const Given& given,
            EngineKvEvent& out,
            Problem& problem) {
  if (type == kCleared) {
    out = EngineKvCleared{std::move(fields.scope.ownership)};
    return true;
  }
  if (type == kIgnored) {
    out = EngineKvIgnored{};
    return true;
  }
  if (!given.hashes) {
    return problem.Malformed("block_hashes", "missing");
  }
  if (type == kRemoved) {
    out = EngineKvRemoved{std::move(fields.scope), std::move(fields.hashes)};
    return true;
  }
  if (!given.tokens) {
    return problem.Malformed("token_ids", "missing");
  }
  if (!given.block_size) {
    return problem.Malformed("block_size", "missing");
  }
  out = std::move(fields);
  return true;
}

bool IsKnown(std::string_view type) {
  return type == kStored || type == kRemoved || type == kCleared || type == kIgnored;
}

bool UnknownType(std::string_view type, Problem& problem) {
  constexpr std::size_t kShownMax = 64;
  return problem.Unsupported("type",
                             "'" + std::string(type.substr(0, kShownMax)) +
                                 "' (known: BlockStored, BlockRemoved, AllBlocksCleared, Ignored)");
}

// ---- map form ----

class MapForm {
 public:
  MapForm(const KvBatchLimits& limits, std::size_t& mm_items, Problem& problem)
      : problem_(problem), read_(limits, mm_items, fields_, problem) {}

  bool Read(MsgpackReader& value, EngineKvEvent& out) {
    const bool is_map = value.Fields(
        [&](std::string_view key, MsgpackReader& member) { return Member(key, member); });
    if (!is_map) {
      return problem_.Malformed("", "unreadable map");
    }
    if (!has_type_) {
      return problem_.Malformed("type", "missing");
    }
    const Given given{seen_.Has(1), seen_.Has(3), seen_.Has(4)};
    return IsKnown(type_) ? Finish(type_, std::move(fields_), given, out, problem_)
                          : UnknownType(type_, problem_);
  }

 private:
  bool Member(std::string_view key, MsgpackReader& value) {
    const auto known = Index(key);
    if (known == kKeys.size()) {
      return value.Skip();
    }
    if (!seen_.First(static_cast<unsigned>(known), key, problem_)) {
      return false;
    }
    KvScope& scope = fields_.scope;
    switch (known) {
      case 0:
        has_type_ = value.TextOrBinary(type_);
        return has_type_ || problem_.Malformed(key, "not a text");
      case 1:
        return read_.Hashes(value, key);
      case 2:
        return read_.Parent(value, key);
      case 3:
        return read_.Tokens(value, key);
      case 4:
        return read_.BlockSize(value, key);
      case 5:
        return read_.Name(value, key, scope.medium);
      case 6:
        return read_.Name(value, key, fields_.lora_name);
      case 7:
        return read_.Name(value, key, fields_.cache_salt);
      case 8:
        return read_.Name(value, key, fields_.session_id);
      case 9:
        return read_.ExtraKeys(value, key);
      case 10:
        return read_.MmInfos(value, key);
      case 11:
        return read_.Number(value, key, scope.group_idx);
      case 12:
        return read_.Name(value, key, scope.spec_kind);
      case 13:
        return read_.Number(value, key, scope.sliding_window);
      case 14:
        return read_.Name(value, key, scope.locality);
      default:
        return read_.Name(value, key, scope.ownership);
    }
  }

  static constexpr std::array<std::string_view, 16> kKeys = {"type",
                                                             "block_hashes",
                                                             "parent_block_hash",
                                                             "token_ids",
                                                             "block_size",
                                                             "medium",
                                                             "lora_name",
                                                             "cache_salt",
                                                             "session_id",
                                                             "extra_keys",
                                                             "block_mm_infos",
                                                             "group_idx",
                                                             "kv_cache_spec_kind",
                                                             "kv_cache_spec_sliding_window",
                                                             "locality",
                                                             "ownership"};
  static std::size_t Index(std::string_view key) {
    std::size_t index = 0;
    while (index < kKeys.size() && kKeys[index] != key) {
      ++index;
    }
    return index;
  }

  Problem& problem_;
  EngineKvStored fields_;
  KvFieldReader read_;
  SeenKeys seen_;
  std::string_view type_;
  bool has_type_ = false;
};

// ---- array form ----

/// A value behind the fixed positions, whose meaning depends on its neighbours.
struct Trailing {
  enum class Kind : std::uint8_t { kNil, kNumber, kText, kMmInfos };
  Kind kind = Kind::kNil;
  std::uint32_t number = 0;
  std::optional<std::string> text;
  [[nodiscard]] bool FitsNumber() const { return kind == Kind::kNil || kind == Kind::kNumber; }
  [[nodiscard]] bool FitsText() const { return kind == Kind::kNil || kind == Kind::kText; }
};

/// The first five values behind the fixed positions. Engines of today send group, kind, window,
/// locality, ownership; older ones left out what they had not, so that with fewer than four values
/// (or some of another type) only the type tells: first number the group, second the window, a text
/// the kind.
class TrailingValues {
 public:
  static constexpr std::size_t kCount = 5;

  bool Add(MsgpackReader& value, KvFieldReader& read, Problem& problem) {
    if (size_ == kCount) {
      return value.Skip();
    }
    Trailing& slot = values_[size_++];
    if (value.TakeNull()) {
      return true;
    }
    if (value.AtArray()) {
      slot.kind = Trailing::Kind::kMmInfos;
      return read.MmInfos(value, "block_mm_infos");
    }
    std::uint64_t bits = 0;
    bool negative = false;
    if (value.Integer(bits, negative)) {
      slot.kind = Trailing::Kind::kNumber;
      slot.number = static_cast<std::uint32_t>(bits);
      return (!negative && bits == slot.number) ||
             problem.Malformed("trailing number", "outside 0..4294967295");
    }
    slot.kind = Trailing::Kind::kText;
    return read.Name(value, "trailing value", slot.text);
  }

  void Assign(KvScope& scope) {
    if (size_ >= 4 && IsPositional()) {
      TakeNumber(0, scope.group_idx);
      scope.spec_kind = std::move(values_[1].text);
      TakeNumber(2, scope.sliding_window);
      scope.locality = std::move(values_[3].text);
      scope.ownership = std::move(values_[4].text);
      return;
    }
    for (std::size_t i = 0; i < size_; ++i) {
      if (values_[i].kind == Trailing::Kind::kText) {
        scope.spec_kind = std::move(values_[i].text);
      } else {
        TakeNumber(i, scope.group_idx ? scope.sliding_window : scope.group_idx);
      }
    }
  }

 private:
  [[nodiscard]] bool IsPositional() const {
    return values_[0].FitsNumber() && values_[1].FitsText() && values_[2].FitsNumber() &&
           values_[3].FitsText() && values_[4].FitsText();
  }
  void TakeNumber(std::size_t index, std::optional<std::uint32_t>& out) {
    if (values_[index].kind == Trailing::Kind::kNumber && !out) {
      out = values_[index].number;
    }
  }

  std::array<Trailing, kCount> values_{};
  std::size_t size_ = 0;
};

class ArrayForm {
 public:
  ArrayForm(const KvBatchLimits& limits, std::size_t& mm_items, Problem& problem)
      : problem_(problem), read_(limits, mm_items, fields_, problem) {}

  bool Read(MsgpackReader& value, EngineKvEvent& out) {
    const bool is_list = value.Items([](std::uint64_t) { return true; },
                                     [&](MsgpackReader& item) { return Position(at_++, item); });
    if (!is_list) {
      return problem_.Malformed("", "unreadable array");
    }
    if (at_ == 0) {
      return problem_.Malformed("type", "missing");
    }
    trailing_.Assign(fields_.scope);
    if (type_ == kCleared) {
      fields_.scope.ownership = std::move(cleared_ownership_);
    }
    const Given given{at_ > 1, at_ > 3, at_ > 4};
    return Finish(type_, std::move(fields_), given, out, problem_);
  }

 private:
  bool Position(std::size_t at, MsgpackReader& value) {
    if (at == 0) {
      if (!value.TextOrBinary(type_)) {
        return problem_.Malformed("type", "not a text");
      }
      return IsKnown(type_) || UnknownType(type_, problem_);
    }
    if (type_ == kStored) {
      return Stored(at, value);
    }
    if (type_ == kRemoved) {
      return Removed(at, value);
    }
    // AllBlocksCleared: ownership at 1 in newer engines; whatever else stands there is ignored.
    return type_ == kCleared && at == 1 && value.AtText()
               ? read_.Name(value, "ownership", cleared_ownership_)
               : value.Skip();
  }

  bool Stored(std::size_t at, MsgpackReader& value) {
    switch (at) {
      case 1:
        return read_.Hashes(value, "block_hashes");
      case 2:
        return read_.Parent(value, "parent_block_hash");
      case 3:
        return read_.Tokens(value, "token_ids");
      case 4:
        return read_.BlockSize(value, "block_size");
      case 5:
        return LoraId(value);
      case 6:
        return read_.Name(value, "medium", fields_.scope.medium);
      case 7:
        return value.AtMap() ? Metadata(value) : read_.Name(value, "lora_name", fields_.lora_name);
      case 8:
        return read_.ExtraKeys(value, "extra_keys");
      default:
        return trailing_.Add(value, read_, problem_);
    }
  }

  bool Removed(std::size_t at, MsgpackReader& value) {
    if (at == 1) {
      return read_.Hashes(value, "block_hashes");
    }
    if (at == 2 && !value.AtInteger()) {
      return read_.Name(value, "medium", fields_.scope.medium);
    }
    // Also the integer that dynamo-mocker 1.3.0 puts in the place of the medium: its group_idx.
    return trailing_.Add(value, read_, problem_);
  }

  bool LoraId(MsgpackReader& value) {  // thrown away, so its value cannot be wrong
    std::uint64_t bits = 0;
    bool negative = false;
    return value.TakeNull() || value.Integer(bits, negative) ||
           problem_.Malformed("lora_id", "neither nil nor an integer");
  }

  bool Metadata(MsgpackReader& value) {
    const bool is_map = value.Fields([&](std::string_view key, MsgpackReader& member) {
      return key == "cache_salt" ? read_.Name(member, key, fields_.cache_salt) : member.Skip();
    });
    return is_map || problem_.Malformed("metadata", "unreadable map");
  }

  Problem& problem_;
  EngineKvStored fields_;
  KvFieldReader read_;
  TrailingValues trailing_;
  std::string_view type_;
  std::optional<std::string> cleared_ownership_;
  std::size_t at_ = 0;
};

}  // namespace

bool ReadKvEvent(MsgpackReader& value,
                 const KvBatchLimits& limits,
                 std::size_t& mm_items,
                 EngineKvEvent& out,
                 Problem& problem) {
  if (value.AtMap()) {
    return MapForm(limits, mm_items, problem).Read(value, out);
  }
  if (value.AtArray()) {
    return ArrayForm(limits, mm_items, problem).Read(value, out);
  }
  return problem.Malformed("", "neither a map nor an array");
}

}  // namespace understudy::transport
