// msgpack -> RouterEvent, for readers of the event plane and for tests. Source: events.md 3.
#include "transport/codec/field_readers.h"
#include "transport/codec/msgpack_value.h"
#include "transport/codec/whole_msgpack.h"
#include "understudy/transport/router_event.h"

#include <utility>

namespace understudy::transport {
namespace {

constexpr std::size_t kReservedMax = 64;  // more grow as they come: they are large

class EventReader {
 public:
  EventReader(RouterEvent& event, Problem& problem) : event_(event), problem_(problem) {
    event_.domain = ResidencyDomain::kNone;
  }

  bool Read(MsgpackReader& value) {
    const bool is_map = value.Fields([&](std::string_view key, MsgpackReader& member) {
      if (key == "worker_id") {
        std::uint64_t id = 0;
        return Once(0, key) && ReadU64(member, key, id, problem_) &&
               (event_.worker_id = WorkerId{id}, true);
      }
      if (key == "storage_tier") {
        return Once(1, key) && Tier(member, key);
      }
      if (key == "residency_domain") {
        return Once(2, key) && Domain(member, key);
      }
      if (key == "event") {
        return Once(3, key) && Inner(member, key);
      }
      if (key == "session_id") {
        return Once(4, key) && ReadOptionalText(member, key, event_.session_id, problem_);
      }
      return member.Skip();
    });
    if (!is_map) {
      return problem_.Malformed("", "not a map");
    }
    return Needs(0, "worker_id") && Needs(3, "event") && Needs(5, "event_id") && Needs(6, "data") &&
           Needs(7, "dp_rank");
  }

 private:
  bool Once(unsigned bit, std::string_view key) { return seen_.First(bit, key, problem_); }
  bool Needs(unsigned bit, std::string_view key) {
    return seen_.Has(bit) || problem_.Malformed(key, "missing");
  }

  bool Tier(MsgpackReader& value, std::string_view key) {
    std::string name;
    if (!ReadText(value, key, name, problem_)) {
      return false;
    }
    const auto tier = TierOfName(name);
    if (!tier) {
      return problem_.Unsupported(key,
                                  "'" + name + "' (allowed: device, host_pinned, disk, external)");
    }
    event_.tier = *tier;
    return true;
  }

  bool Domain(MsgpackReader& value, std::string_view key) {
    std::string name;
    if (!ReadText(value, key, name, problem_)) {
      return false;
    }
    if (name != "worker") {
      return problem_.Unsupported(key, "'" + name + "' (allowed: worker)");
    }
    event_.domain = ResidencyDomain::kWorker;
    return true;
  }

  bool Inner(MsgpackReader& value, std::string_view field) {
    const bool is_map = value.Fields([&](std::string_view key, MsgpackReader& member) {
      if (key == "event_id") {
        return Once(5, key) && ReadU64(member, key, event_.event_id, problem_);
      }
      if (key == "data") {
        return Once(6, key) && Data(member, key);
      }
      if (key == "dp_rank") {
        std::uint32_t rank = 0;
        return Once(7, key) && ReadU32(member, key, rank, problem_) &&
               (event_.dp_rank = DpRank{rank}, true);
      }
      return member.Skip();
    });
    return is_map || problem_.Malformed(field, "not a map");
  }

  bool Data(MsgpackReader& value, std::string_view field) {
    if (value.AtText()) {
      std::string_view word;
      if (!value.Text(word) || word != "cleared") {
        return problem_.Malformed(field, "a word other than cleared");
      }
      event_.kind = RouterEvent::Kind::kCleared;
      return true;
    }
    std::size_t variants = 0;
    const bool is_map = value.Fields([&](std::string_view key, MsgpackReader& member) {
      ++variants;
      if (key == "stored") {
        event_.kind = RouterEvent::Kind::kStored;
        return Stored(member);
      }
      event_.kind = RouterEvent::Kind::kRemoved;
      return key == "removed" ? Removed(member)
                              : problem_.Malformed(key, "neither stored nor removed");
    });
    return (is_map && variants == 1) || problem_.Malformed(field, "not one variant");
  }

  bool Stored(MsgpackReader& value) {
    const bool is_map = value.Fields([&](std::string_view key, MsgpackReader& member) {
      if (key == "parent_hash") {
        std::optional<std::uint64_t> parent;
        if (!Once(8, key) || !ReadOptionalU64(member, key, parent, problem_)) {
          return false;
        }
        if (parent) {
          event_.parent = BlockHash{*parent};
        }
        return true;
      }
      if (key == "start_position") {
        return Once(9, key) && ReadOptionalU32(member, key, event_.start_position, problem_);
      }
      if (key == "blocks") {
        return Once(10, key) && Blocks(member);
      }
      return member.Skip();
    });
    return (is_map || problem_.Malformed("stored", "not a map")) && Needs(10, "blocks");
  }

  bool Removed(MsgpackReader& value) {
    const bool is_map = value.Fields([&](std::string_view key, MsgpackReader& member) {
      if (key != "block_hashes") {
        return member.Skip();
      }
      const auto read_hash = [&](MsgpackReader& item) {
        std::uint64_t hash = 0;
        if (!ReadU64(item, key, hash, problem_)) {
          return false;
        }
        event_.blocks.push_back({BlockHash{hash}, {}});
        return true;
      };
      return Once(11, key) && (member.Items([](std::uint64_t) { return true; }, read_hash) ||
                               problem_.Malformed(key, "not a list"));
    });
    return (is_map || problem_.Malformed("removed", "not a map")) && Needs(11, "block_hashes");
  }

  bool Blocks(MsgpackReader& value) {
    const bool is_list = value.Items([](std::uint64_t) { return true; },
                                     [&](MsgpackReader& item) { return Block(item); });
    return is_list || problem_.Malformed("blocks", "not a list");
  }

  bool Block(MsgpackReader& value) {
    SeenKeys seen;
    std::uint64_t block_hash = 0;
    std::uint64_t tokens_hash = 0;
    const bool is_map = value.Fields([&](std::string_view key, MsgpackReader& member) {
      if (key == "block_hash") {
        return seen.First(0, key, problem_) && ReadU64(member, key, block_hash, problem_);
      }
      if (key == "tokens_hash") {
        return seen.First(1, key, problem_) && ReadU64(member, key, tokens_hash, problem_);
      }
      if (key == "mm_extra_info") {
        return seen.First(2, key, problem_) && (member.TakeNull() || MmInfo(member));
      }
      return member.Skip();
    });
    if (!is_map || !seen.Has(0) || !seen.Has(1)) {
      return problem_.Malformed("blocks", "an item is no map with block_hash and tokens_hash");
    }
    event_.blocks.push_back({BlockHash{block_hash}, TokensHash{tokens_hash}});
    return true;
  }

  bool MmInfo(MsgpackReader& value) {
    BlockMmInfo& info = event_.mm_infos.emplace_back();
    info.block = static_cast<std::uint32_t>(event_.blocks.size());
    SeenKeys seen;
    const bool is_map = value.Fields([&](std::string_view key, MsgpackReader& member) {
      if (key != "mm_objects") {
        return member.Skip();
      }
      return seen.First(0, key, problem_) &&
             member.Items(
                 [](std::uint64_t) { return true; },
                 [&](MsgpackReader& item) { return Object(item, info.objects.emplace_back()); });
    });
    return is_map || problem_.Malformed("mm_extra_info", "neither nil nor a map with mm_objects");
  }

  bool Object(MsgpackReader& value, MmObject& out) {
    const bool is_map = value.Fields([&](std::string_view key, MsgpackReader& member) {
      if (key == "mm_hash") {
        return ReadU64(member, key, out.mm_hash, problem_);
      }
      if (key != "offsets") {
        return member.Skip();
      }
      return member.Items([](std::uint64_t) { return true; },
                          [&](MsgpackReader& item) { return Offset(item, out); });
    });
    return is_map || problem_.Malformed("mm_objects", "an item is no map");
  }

  bool Offset(MsgpackReader& value, MmObject& out) {
    std::uint64_t ends[2] = {};
    std::size_t at = 0;
    const bool is_pair = value.Items([](std::uint64_t count) { return count == 2; },
                                     [&](MsgpackReader& end) { return end.Unsigned(ends[at++]); });
    if (!is_pair) {
      return problem_.Malformed("offsets", "an item is not a pair of unsigned integers");
    }
    out.offsets.emplace_back(ends[0], ends[1]);
    return true;
  }

  RouterEvent& event_;
  Problem& problem_;
  SeenKeys seen_;
};

bool ReadEvents(MsgpackReader& reader, std::vector<RouterEvent>& events, Problem& problem) {
  const auto read_one = [&](MsgpackReader& value) {
    return EventReader(events.emplace_back(), problem).Read(value);
  };
  if (!reader.AtArray()) {
    return read_one(reader);
  }
  const auto begin = [&](std::uint64_t count) {
    if (count > kRouterEventsMax) {
      return problem.Unsupported("", std::to_string(count) + " events in one message");
    }
    events.reserve(count < kReservedMax ? count : kReservedMax);
    return true;
  };
  return reader.Items(begin, read_one);
}

}  // namespace

Result<std::vector<RouterEvent>> DecodeRouterEvents(std::string_view msgpack) {
  std::vector<RouterEvent> events;
  UNDERSTUDY_TRY_STATUS(
      ReadWholeMsgpack("router event", msgpack, [&](MsgpackReader& reader, Problem& problem) {
        return ReadEvents(reader, events, problem);
      }));
  return events;
}

}  // namespace understudy::transport
