#include "transport/codec/kv_event_fields.h"

#include "transport/codec/big_endian.h"

#include <limits>

namespace understudy::transport {
namespace {

constexpr std::size_t kHashBytesMin = 8;
constexpr std::size_t kHashBytesMax = 32;

std::string Quoted(std::uint64_t bits, bool negative) {
  return negative ? std::to_string(static_cast<std::int64_t>(bits)) : std::to_string(bits);
}

}  // namespace

bool KvFieldReader::Count(std::string_view field, std::uint64_t count, std::size_t count_max) {
  return count <= count_max || problem_.Unsupported(field,
                                                    std::to_string(count) + " items, at most " +
                                                        std::to_string(count_max) + " are allowed");
}

bool KvFieldReader::U32(MsgpackReader& value, std::string_view field, std::uint32_t& out) {
  std::uint64_t bits = 0;
  bool negative = false;
  if (!value.Integer(bits, negative)) {
    return problem_.Malformed(field, "not an integer");
  }
  if (negative || bits > std::numeric_limits<std::uint32_t>::max()) {
    return problem_.Malformed(field, Quoted(bits, negative) + " is outside 0..4294967295");
  }
  out = static_cast<std::uint32_t>(bits);
  return true;
}

bool KvFieldReader::Number(MsgpackReader& value,
                           std::string_view field,
                           std::optional<std::uint32_t>& out) {
  return value.TakeNull() || U32(value, field, out.emplace());
}

bool KvFieldReader::Name(MsgpackReader& value,
                         std::string_view field,
                         std::optional<std::string>& out) {
  if (value.TakeNull()) {
    return true;
  }
  std::string_view text;
  if (!value.TextOrBinary(text)) {
    return problem_.Malformed(field, "not a text");
  }
  if (text.size() > limits_.text_bytes_max) {
    return problem_.Unsupported(field,
                                std::to_string(text.size()) + " bytes, at most " +
                                    std::to_string(limits_.text_bytes_max) + " are allowed");
  }
  out.emplace(text);
  return true;
}

bool KvFieldReader::Hash(MsgpackReader& value, std::string_view field, BlockHash& out) {
  std::uint64_t bits = 0;
  bool negative = false;
  if (value.Integer(bits, negative)) {
    out = BlockHash{bits};
    return true;
  }
  std::string_view bytes;
  if (!value.Binary(bytes)) {
    return problem_.Malformed(field, "neither an integer nor a byte string");
  }
  if (bytes.size() < kHashBytesMin || bytes.size() > kHashBytesMax) {
    return problem_.Malformed(
        field, "a byte string of " + std::to_string(bytes.size()) + " bytes (allowed: 8 to 32)");
  }
  out = BlockHash{LoadU64(bytes.data() + bytes.size() - kHashBytesMin)};
  return true;
}

bool KvFieldReader::Hashes(MsgpackReader& value, std::string_view field) {
  const bool is_list = value.Items(
      [&](std::uint64_t count) {
        if (!Count(field, count, limits_.hashes_max)) {
          return false;
        }
        stored_.hashes.reserve(count);
        return true;
      },
      [&](MsgpackReader& item) {
        BlockHash hash{};
        if (!Hash(item, field, hash)) {
          return false;
        }
        stored_.hashes.push_back(hash);
        return true;
      });
  return is_list || problem_.Malformed(field, "not a list");
}

bool KvFieldReader::Parent(MsgpackReader& value, std::string_view field) {
  return value.TakeNull() || Hash(value, field, stored_.parent.emplace());
}

bool KvFieldReader::TokenPair(MsgpackReader& value, std::string_view field, std::uint32_t& second) {
  std::size_t at = 0;
  const bool is_pair = value.Items([&](std::uint64_t count) { return count == 2; },
                                   [&](MsgpackReader& item) {
                                     std::uint32_t token = 0;
                                     if (!U32(item, field, token)) {
                                       return false;
                                     }
                                     if (at++ == 0) {
                                       stored_.tokens.push_back(token);
                                     }
                                     second = token;
                                     return true;
                                   });
  return is_pair || problem_.Malformed(field, "neither a list of numbers nor of pairs of them");
}

bool KvFieldReader::Tokens(MsgpackReader& value, std::string_view field) {
  std::uint32_t last = 0;
  const bool is_list = value.Items(
      [&](std::uint64_t count) {
        if (!Count(field, count, limits_.tokens_max)) {
          return false;
        }
        stored_.tokens.reserve(count + 1);
        return true;
      },
      [&](MsgpackReader& item) {
        if (stored_.tokens.empty()) {
          stored_.is_eagle = item.AtArray();
        }
        if (stored_.is_eagle) {
          return TokenPair(item, field, last);
        }
        std::uint32_t token = 0;
        if (!U32(item, field, token)) {
          return false;
        }
        stored_.tokens.push_back(token);
        return true;
      });
  if (!is_list) {
    return problem_.Malformed(field, "not a list");
  }
  if (stored_.is_eagle) {
    stored_.tokens.push_back(last);
  }
  return true;
}

bool KvFieldReader::BlockSize(MsgpackReader& value, std::string_view field) {
  bool negative = false;
  if (!value.Integer(stored_.block_size, negative) || negative) {
    return problem_.Malformed(field, "not an unsigned integer");
  }
  return true;
}

bool KvFieldReader::ExtraKey(MsgpackReader& value, std::string_view field, std::uint32_t block) {
  std::optional<std::string> text;
  if (value.AtArray()) {  // (text, offset of the medium in the block): the offset is not needed
    std::size_t at = 0;
    std::uint64_t items = 0;
    const bool is_list = value.Items(
        [&](std::uint64_t count) {
          items = count;
          return true;
        },
        [&](MsgpackReader& item) {
          return items == 2 && at++ == 0 && item.AtText() ? Name(item, field, text) : item.Skip();
        });
    if (!is_list) {
      return problem_.Malformed(field, "unreadable item");
    }
  } else if (value.AtText() ? !Name(value, field, text) : !value.Skip()) {
    return problem_.Malformed(field, "unreadable item");
  }
  if (text) {
    stored_.extra_keys.push_back({block, std::move(*text)});
  }
  return Count(field, ++mm_items_, limits_.mm_items_max);
}

bool KvFieldReader::KeysOfBlock(MsgpackReader& value, std::string_view field, std::uint32_t block) {
  if (value.TakeNull()) {
    return true;
  }
  const bool is_list =
      value.Items([](std::uint64_t) { return true; },
                  [&](MsgpackReader& item) { return ExtraKey(item, field, block); });
  return is_list || problem_.Malformed(field, "neither nil nor a list of items");
}

bool KvFieldReader::ExtraKeys(MsgpackReader& value, std::string_view field) {
  if (value.TakeNull()) {
    return true;
  }
  std::uint32_t block = 0;
  const bool is_list =
      value.Items([&](std::uint64_t count) { return Count(field, count, limits_.hashes_max); },
                  [&](MsgpackReader& item) { return KeysOfBlock(item, field, block++); });
  return is_list || problem_.Malformed(field, "neither nil nor a list");
}

bool KvFieldReader::Offsets(MsgpackReader& value, std::string_view field, MmObject& out) {
  const auto read_pair = [&](MsgpackReader& item) {
    std::uint64_t ends[2] = {};
    std::size_t at = 0;
    const bool is_pair = item.Items([](std::uint64_t count) { return count == 2; },
                                    [&](MsgpackReader& end) {
                                      bool negative = false;
                                      return end.Integer(ends[at++], negative) && !negative;
                                    });
    if (!is_pair) {
      return problem_.Malformed(field, "an offset is not a pair of unsigned integers");
    }
    out.offsets.emplace_back(ends[0], ends[1]);
    return Count(field, ++mm_items_, limits_.mm_items_max);
  };
  return value.Items([](std::uint64_t) { return true; }, read_pair) ||
         problem_.Malformed(field, "offsets are not a list");
}

bool KvFieldReader::Object(MsgpackReader& value, std::string_view field, MmObject& out) {
  bool has_hash = false;
  const bool is_map = value.Fields([&](std::string_view key, MsgpackReader& member) {
    if (key == "mm_hash") {
      bool negative = false;
      has_hash = member.Integer(out.mm_hash, negative) && !negative;
      return has_hash || problem_.Malformed(field, "mm_hash is not an unsigned integer");
    }
    return key == "offsets" ? Offsets(member, field, out) : member.Skip();
  });
  if (!is_map || !has_hash) {
    return problem_.Malformed(field, "an object is no map with mm_hash");
  }
  return Count(field, ++mm_items_, limits_.mm_items_max);
}

bool KvFieldReader::MmInfo(MsgpackReader& value, std::string_view field, std::uint32_t block) {
  if (value.TakeNull()) {
    return true;
  }
  BlockMmInfo info;
  info.block = block;
  bool has_objects = false;
  const auto read_object = [&](MsgpackReader& item) {
    return Object(item, field, info.objects.emplace_back());
  };
  const bool is_map = value.Fields([&](std::string_view key, MsgpackReader& member) {
    if (key != "mm_objects") {
      return member.Skip();
    }
    has_objects = member.Items([](std::uint64_t) { return true; }, read_object);
    return has_objects || problem_.Malformed(field, "mm_objects is not a list");
  });
  if (!is_map || !has_objects) {
    return problem_.Malformed(field, "neither nil nor a map with mm_objects");
  }
  stored_.mm_infos.push_back(std::move(info));
  return Count(field, ++mm_items_, limits_.mm_items_max);
}

bool KvFieldReader::MmInfos(MsgpackReader& value, std::string_view field) {
  if (value.TakeNull()) {
    return true;
  }
  if (stored_.has_mm_infos) {
    return problem_.Malformed(field, "given twice");
  }
  stored_.has_mm_infos = true;
  std::uint32_t block = 0;
  const bool is_list =
      value.Items([&](std::uint64_t count) { return Count(field, count, limits_.hashes_max); },
                  [&](MsgpackReader& item) { return MmInfo(item, field, block++); });
  return is_list || problem_.Malformed(field, "neither nil nor a list");
}

}  // namespace understudy::transport
