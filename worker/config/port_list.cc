#include "worker/config/port_list.h"

#include "worker/config/text_list.h"

#include <charconv>
#include <string_view>

namespace understudy::worker {
namespace {

constexpr std::uint32_t kPortMax = 65535;

std::string Described(const PortRange& range) {
  return range.option + " " + std::to_string(range.first) + ".." +
         std::to_string(range.first + range.count - 1);
}

std::string ListText(const std::vector<std::uint16_t>& ports) {
  std::string text;
  for (const std::uint16_t port : ports) {
    text += (text.empty() ? "" : ", ") + std::to_string(port);
  }
  return "[" + text + "]";
}

}  // namespace

Result<std::vector<std::uint16_t>> ParsePortList(const std::string& option,
                                                 const std::string& text,
                                                 std::uint32_t workers,
                                                 std::uint16_t lowest) {
  std::vector<std::uint16_t> ports;
  if (text.empty()) {
    return ports;
  }
  for (const std::string_view part : SplitList(text, ',')) {
    const std::string_view entry = Trimmed(part);
    std::uint16_t port = 0;
    const auto parsed = std::from_chars(entry.data(), entry.data() + entry.size(), port);
    if (parsed.ec != std::errc() || parsed.ptr != entry.data() + entry.size() || port < lowest) {
      return Fail(Errc::kInvalidConfig,
                  option + " '" + text + "': '" + std::string(entry) +
                      "' is not a port (allowed: whole numbers from " + std::to_string(lowest) +
                      " to 65535, one per worker, "
                      "separated by commas)");
    }
    ports.push_back(port);
  }
  if (ports.size() != workers) {
    return Fail(Errc::kInvalidConfig,
                option + " must have exactly --num-workers (" + std::to_string(workers) +
                    ") ports, got " + std::to_string(ports.size()) + ": " + ListText(ports));
  }
  return ports;
}

Status CheckPortRanges(std::span<const PortRange> ranges) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const PortRange& range = ranges[i];
    if (range.first == 0 || range.first + range.count - 1 > kPortMax) {
      return Fail(Errc::kInvalidConfig, Described(range) + " is outside of the ports 1..65535");
    }
    for (const PortRange& other : ranges.subspan(0, i)) {
      if (range.first < other.first + other.count && other.first < range.first + range.count) {
        return Fail(Errc::kInvalidConfig,
                    Described(other) + " and " + Described(range) + " overlap");
      }
    }
  }
  return {};
}

}  // namespace understudy::worker
