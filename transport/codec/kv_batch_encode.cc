// Our own emission. Source: events.md 1.7; vectors/events/mocker_zmq_1.6.1.json.
#include "transport/codec/msgpack_writer.h"
#include "transport/codec/utf8.h"
#include "understudy/transport/kv_batch.h"

#include <utility>

namespace understudy::transport {
namespace {

using OptionalText = std::optional<std::string>;

/// Writes one map; its size is counted first, by a run over the same members that writes nothing.
class EventWriter {
 public:
  explicit EventWriter(std::string& out) : out_(out) {}

  template <class Members>
  void Map(Members members) {
    counting_ = true;
    count_ = 0;
    members();
    AppendMsgpackMap(out_, count_);
    counting_ = false;
    members();
  }

  template <class Write>
  void Member(std::string_view key, Write write) {
    if (counting_) {
      ++count_;
      return;
    }
    AppendMsgpackText(out_, key);
    write();
  }

  void Text(std::string_view key, std::string_view text) {
    Member(key, [&] { AppendMsgpackText(out_, ToUtf8(text)); });
  }
  void Text(std::string_view key, const OptionalText& text) {
    if (text) {
      Text(key, std::string_view(*text));
    }
  }
  void Number(std::string_view key, std::uint64_t number) {
    Member(key, [&] { AppendMsgpackUint(out_, number); });
  }
  void Number(std::string_view key, std::optional<std::uint32_t> number) {
    if (number) {
      Number(key, std::uint64_t{*number});
    }
  }
  void Hashes(const std::vector<BlockHash>& hashes) {
    Member("block_hashes", [&] {
      AppendMsgpackArray(out_, hashes.size());
      for (const BlockHash hash : hashes) {
        AppendMsgpackUint(out_, Value(hash));
      }
    });
  }
  /// What stands behind the medium in every event that has a place.
  void ScopeTail(const KvScope& scope) {
    Number("group_idx", scope.group_idx);
    Text("kv_cache_spec_kind", scope.spec_kind);
    Number("kv_cache_spec_sliding_window", scope.sliding_window);
    Text("locality", scope.locality);
    Text("ownership", scope.ownership);
  }

  std::string& out() { return out_; }

 private:
  std::string& out_;
  std::size_t count_ = 0;
  bool counting_ = false;
};

void AppendTokens(std::string& out, const EngineKvStored& event) {
  const auto& tokens = event.tokens;
  if (!event.is_eagle) {
    AppendMsgpackArray(out, tokens.size());
    for (const std::uint32_t token : tokens) {
      AppendMsgpackUint(out, token);
    }
    return;
  }
  const std::size_t pairs = tokens.empty() ? 0 : tokens.size() - 1;
  AppendMsgpackArray(out, pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    AppendMsgpackArray(out, 2);
    AppendMsgpackUint(out, tokens[i]);
    AppendMsgpackUint(out, tokens[i + 1]);
  }
}

/// One entry per block; `size_of(block)` and `append(block)` write the block's own, 0 and nothing
/// where it has none.
void AppendExtraKeys(std::string& out, const EngineKvStored& event) {
  AppendMsgpackArray(out, event.hashes.size());
  auto next = event.extra_keys.begin();
  for (std::size_t block = 0; block < event.hashes.size(); ++block) {
    const auto first = next;
    while (next != event.extra_keys.end() && next->block == block) {
      ++next;
    }
    if (first == next) {
      AppendMsgpackNil(out);
      continue;
    }
    AppendMsgpackArray(out, static_cast<std::uint64_t>(next - first));
    for (auto key = first; key != next; ++key) {
      AppendMsgpackText(out, ToUtf8(key->text));
    }
  }
}

void AppendMmObject(std::string& out, const MmObject& object) {
  AppendMsgpackMap(out, 2);
  AppendMsgpackText(out, "mm_hash");
  AppendMsgpackUint(out, object.mm_hash);
  AppendMsgpackText(out, "offsets");
  AppendMsgpackArray(out, object.offsets.size());
  for (const auto& [begin, end] : object.offsets) {
    AppendMsgpackArray(out, 2);
    AppendMsgpackUint(out, begin);
    AppendMsgpackUint(out, end);
  }
}

void AppendMmInfos(std::string& out, const EngineKvStored& event) {
  AppendMsgpackArray(out, event.hashes.size());
  auto next = event.mm_infos.begin();
  for (std::size_t block = 0; block < event.hashes.size(); ++block) {
    if (next == event.mm_infos.end() || next->block != block) {
      AppendMsgpackNil(out);
      continue;
    }
    AppendMsgpackMap(out, 1);
    AppendMsgpackText(out, "mm_objects");
    AppendMsgpackArray(out, next->objects.size());
    for (const MmObject& object : next->objects) {
      AppendMmObject(out, object);
    }
    ++next;
  }
}

void Append(EventWriter& writer, const EngineKvStored& event) {
  writer.Map([&] {
    writer.Text("type", std::string_view("BlockStored"));
    writer.Hashes(event.hashes);
    writer.Member("parent_block_hash", [&] {
      if (event.parent) {
        AppendMsgpackUint(writer.out(), Value(*event.parent));
      } else {
        AppendMsgpackNil(writer.out());
      }
    });
    writer.Member("token_ids", [&] { AppendTokens(writer.out(), event); });
    writer.Number("block_size", event.block_size);
    writer.Text("medium", event.scope.medium);
    writer.Text("lora_name", event.lora_name);
    writer.Text("cache_salt", event.cache_salt);
    writer.Text("session_id", event.session_id);
    if (!event.extra_keys.empty()) {
      writer.Member("extra_keys", [&] { AppendExtraKeys(writer.out(), event); });
    }
    if (event.has_mm_infos) {
      writer.Member("block_mm_infos", [&] { AppendMmInfos(writer.out(), event); });
    }
    writer.ScopeTail(event.scope);
  });
}

void Append(EventWriter& writer, const EngineKvRemoved& event) {
  writer.Map([&] {
    writer.Text("type", std::string_view("BlockRemoved"));
    writer.Hashes(event.hashes);
    writer.Text("medium", event.scope.medium);
    writer.ScopeTail(event.scope);
  });
}

void Append(EventWriter& writer, const EngineKvCleared& event) {
  writer.Map([&] {
    writer.Text("type", std::string_view("AllBlocksCleared"));
    writer.Text("ownership", event.ownership);
  });
}

void Append(EventWriter& writer, const EngineKvIgnored& /*event*/) {
  writer.Map([&] { writer.Text("type", std::string_view("Ignored")); });
}

}  // namespace

std::string EncodeKvBatch(double timestamp_s,
                          std::span<const EngineKvEvent> events,
                          std::uint32_t dp_rank) {
  std::string out;
  AppendMsgpackArray(out, 3);
  AppendMsgpackDouble(out, timestamp_s);
  AppendMsgpackArray(out, events.size());
  EventWriter writer(out);
  for (const EngineKvEvent& event : events) {
    std::visit([&](const auto& one) { Append(writer, one); }, event);
  }
  AppendMsgpackUint(out, dp_rank);
  return out;
}

}  // namespace understudy::transport
