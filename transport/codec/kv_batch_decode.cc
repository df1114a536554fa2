// The batch around an engine's events. Source: events.md 1.2.
#include "transport/codec/kv_event_decode.h"

#include <limits>
#include <utility>

namespace understudy::transport {
namespace {

constexpr std::size_t kEventsReservedMax = 64;  // more grow as they come: they are large

class BatchReader {
 public:
  BatchReader(std::string_view payload, const KvBatchLimits& limits)
      : limits_(limits), reader_(payload, limits.nesting_max) {}

  Result<EngineKvBatch> Read() {
    const bool done = reader_.AtMap() ? Map() : Array();
    if (reader_.broken() != nullptr) {
      return Fail(Errc::kMalformed, std::string("kv batch: not msgpack: ") + reader_.broken());
    }
    if (!done) {
      return FailWith("kv batch", problem_.Take());
    }
    batch_.trailing_bytes = reader_.bytes_left();
    return std::move(batch_);
  }

 private:
  bool Map() {
    bool has_events = false;
    const bool is_map = reader_.Fields([&](std::string_view key, MsgpackReader& value) {
      if (key == "ts") {
        return Timestamp(value);
      }
      if (key == "data_parallel_rank") {
        return Rank(value);
      }
      if (key != "events") {
        return value.Skip();
      }
      if (has_events) {
        return problem_.Malformed("events", "given twice");
      }
      has_events = true;
      return Events(value);
    });
    return (is_map && has_events) || problem_.Malformed("events", "missing");
  }

  bool Array() {
    std::size_t at = 0;
    const auto begin = [&](std::uint64_t count) {
      return count == 2 || count == 3 ||
             problem_.Malformed("batch", std::to_string(count) + " elements (allowed: 2 or 3)");
    };
    const bool is_list = reader_.Items(begin, [&](MsgpackReader& value) {
      const std::size_t position = at++;
      return position == 0 ? Timestamp(value) : position == 1 ? Events(value) : Rank(value);
    });
    return is_list || problem_.Malformed("batch", "neither an array nor a map");
  }

  bool Timestamp(MsgpackReader& value) {
    return value.Number(batch_.timestamp_s) || problem_.Malformed("ts", "not a number");
  }

  bool Rank(MsgpackReader& value) {
    if (value.TakeNull()) {
      return true;
    }
    std::uint64_t bits = 0;
    bool negative = false;
    if (!value.Integer(bits, negative)) {
      return problem_.Malformed("data_parallel_rank", "neither nil nor an integer");
    }
    // Dynamo takes -1 for rank 4294967295 and tells its router about a rank that nobody serves.
    if (negative || bits > std::numeric_limits<std::int32_t>::max()) {
      return problem_.Malformed("data_parallel_rank", "outside 0..2147483647");
    }
    batch_.dp_rank = static_cast<std::uint32_t>(bits);
    return true;
  }

  bool Events(MsgpackReader& value) {
    const auto begin = [&](std::uint64_t count) {
      if (count > limits_.events_max) {
        return problem_.Unsupported("events",
                                    std::to_string(count) + " items, at most " +
                                        std::to_string(limits_.events_max) + " are allowed");
      }
      batch_.events.reserve(count < kEventsReservedMax ? count : kEventsReservedMax);
      return true;
    };
    std::size_t position = 0;
    const bool is_list =
        value.Items(begin, [&](MsgpackReader& item) { return Event(item, position++); });
    return is_list || problem_.Malformed("events", "not a list");
  }

  bool Event(MsgpackReader& value, std::size_t position) {
    const MsgpackReader before = value;
    Problem problem;
    EngineKvEvent& event = batch_.events.emplace_back();
    if (ReadKvEvent(value, limits_, mm_items_, event, problem)) {
      return true;
    }
    batch_.events.pop_back();
    const std::string why = value.broken() != nullptr ? value.broken() : problem.Take().message;
    value = before;
    if (!value.SkipAnyBytes()) {
      return false;  // the bytes themselves are bad: where would the next event begin?
    }
    ++batch_.problems_total;
    if (batch_.problems.size() < kKvProblemsKept) {
      batch_.problems.push_back({position, why});
    }
    return true;
  }

  const KvBatchLimits& limits_;
  MsgpackReader reader_;
  Problem problem_;
  EngineKvBatch batch_;
  std::size_t mm_items_ = 0;
};

}  // namespace

Result<EngineKvBatch> DecodeKvBatch(std::string_view payload, const KvBatchLimits& limits) {
  if (payload.size() > limits.payload_bytes_max) {
    return Fail(Errc::kUnsupported,
                "kv batch: " + std::to_string(payload.size()) + " bytes, at most " +
                    std::to_string(limits.payload_bytes_max) + " are allowed");
  }
  return BatchReader(payload, limits).Read();
}

}  // namespace understudy::transport
