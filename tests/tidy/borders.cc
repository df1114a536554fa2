#include "tests/tidy/rules.h"

#include <algorithm>
#include <array>
#include <regex>
#include <span>

namespace understudy::tidy {
namespace {

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

/// Where public headers live; a quoted include is looked up from the root and from these.
constexpr std::array<std::string_view, 3> kPublicRoots = {
    "plugin/include/", "transport/include/", "worker/include/"};

/// Files under `from` must not include what begins with `prefix` (as written, or as found from the
/// root).
struct Border {
  std::string_view from;
  std::string_view prefix;
  std::string_view reason;
};

constexpr std::string_view kArrows =
    "arrows point left only: base <- engine <- plugin, base <- transport, worker sees all";
constexpr std::string_view kBase = "base knows only the standard library and tl::expected";
constexpr std::string_view kPure = "the simulation has no socket, clock or wire";

constexpr std::array kBorders = {
    Border{"plugin/", "transport/", kArrows},
    Border{"plugin/", "understudy/transport/", kArrows},
    Border{"plugin/", "worker/", kArrows},
    Border{"plugin/", "understudy/worker/", kArrows},
    Border{"plugin/include/understudy/base/", "understudy/engine/", kBase},
    Border{"plugin/include/understudy/base/", "plugin/", kBase},
    Border{"plugin/include/", "plugin/mocker/", "the promise knows no engine"},
    Border{"plugin/include/", "plugin/host/", "the promise knows no host"},
    Border{"plugin/mocker/", "plugin/host/", "an engine does not know who loads it"},
    Border{"transport/", "understudy/engine/", kArrows},
    Border{"transport/", "plugin/host/", kArrows},
    Border{"transport/", "plugin/mocker/", kArrows},
    Border{"transport/", "worker/", kArrows},
    Border{"transport/", "understudy/worker/", kArrows},
    Border{"plugin/", "tests/", "sources do not know their tests"},
    Border{"transport/", "tests/", "sources do not know their tests"},
    Border{"worker/", "tests/", "sources do not know their tests"},
    Border{"plugin/mocker/", "sys/socket.h", kPure},
    Border{"plugin/mocker/", "netinet/", kPure},
    Border{"plugin/mocker/", "sys/epoll.h", kPure},
    Border{"plugin/mocker/", "arpa/", kPure},
    Border{"plugin/", "asio", kArrows},
    Border{"plugin/", "nats/", kArrows},
    Border{"plugin/", "zmq", kArrows},
    Border{"plugin/", "curl/", kArrows},
    Border{"plugin/", "prometheus/", kArrows},
};

/// Headers that cost seconds to compile or that must not leak: only .cc files include them.
constexpr std::array<std::string_view, 7> kHeavy = {
    "asio", "msgpack", "nlohmann/", "spdlog/", "nats/", "zmq", "CLI/"};

/// What the inner headers of a wire may include all the same: the adapter of a wire is one class
/// spread over files.
constexpr std::array<std::string_view, 3> kInnerHeadersOfWires = {"asio/", "nats/", "zmq"};

struct Include {
  std::size_t line = 0;
  bool quoted = false;
  std::string target;
};

std::vector<Include> Includes(std::string_view text) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"].*)");
  std::vector<Include> includes;
  std::size_t number = 0;
  for (const std::string_view line : Lines(text)) {
    ++number;
    std::match_results<std::string_view::const_iterator> match;
    if (std::regex_match(line.begin(), line.end(), match, kInclude)) {
      includes.push_back({number, match[1].str() == "\"", match[2].str()});
    }
  }
  return includes;
}

/// True when the include is a path from the root (also of a header that CMake makes from
/// `<header>.in`) or a public one.
bool IsFound(const std::string& target, const Exists& exists) {
  return exists(target) || exists(target + ".in") ||
         std::any_of(kPublicRoots.begin(), kPublicRoots.end(), [&](std::string_view root) {
           return exists(std::string(root) + target);
         });
}

void CheckBorders(const SourceFile& file, const Include& include, std::vector<Finding>& out) {
  for (const Border& border : kBorders) {
    if (StartsWith(file.path, border.from) && StartsWith(include.target, border.prefix)) {
      out.push_back({file.path,
                     include.line,
                     "forbidden include " + include.target + ": " + std::string(border.reason)});
    }
  }
  if (StartsWith(file.path, "plugin/include/understudy/base/") && !include.quoted &&
      include.target.find('/') != std::string::npos && !StartsWith(include.target, "tl/")) {
    out.push_back({file.path,
                   include.line,
                   "forbidden include " + include.target + ": " + std::string(kBase)});
  }
}

bool IsProductCode(std::string_view path) {
  return StartsWith(path, "plugin/") || StartsWith(path, "transport/") ||
         StartsWith(path, "worker/");
}

bool StartsWithAny(std::string_view text, std::span<const std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [text](std::string_view prefix) {
    return StartsWith(text, prefix);
  });
}

bool LeaksThroughHeader(std::string_view path, const Include& include) {
  if (include.quoted || !IsHeader(path) || !IsProductCode(path) ||
      !StartsWithAny(include.target, kHeavy)) {
    return false;
  }
  const bool inner_of_wire =
      StartsWith(path, "transport/") && !StartsWith(path, "transport/include/");
  return !(inner_of_wire && StartsWithAny(include.target, kInnerHeadersOfWires));
}

}  // namespace

bool IsHeader(std::string_view path) {
  return path.size() > 2 && path.substr(path.size() - 2) == ".h";
}

bool IsCpp(std::string_view path) {
  return IsHeader(path) || (path.size() > 3 && path.substr(path.size() - 3) == ".cc");
}

std::vector<Finding> CheckIncludes(const SourceFile& file, const Exists& exists) {
  std::vector<Finding> findings;
  if (!IsCpp(file.path)) {
    return findings;
  }
  for (const Include& include : Includes(file.text)) {
    CheckBorders(file, include, findings);
    if (include.quoted && !IsFound(include.target, exists)) {
      findings.push_back(
          {file.path,
           include.line,
           "include " + include.target + " is no path from the source root nor a public header"});
    }
    if (LeaksThroughHeader(file.path, include)) {
      findings.push_back(
          {file.path,
           include.line,
           "header includes " + include.target + ": it costs seconds, keep it in a .cc file"});
    }
  }
  return findings;
}

std::vector<Finding> CheckSingleUse(const std::vector<SourceFile>& files) {
  std::vector<Finding> findings;
  std::string first;
  for (const SourceFile& file : files) {
    if (!IsCpp(file.path)) {
      continue;
    }
    for (const Include& include : Includes(file.text)) {
      if (!StartsWith(include.target, "CLI/") || file.path == first) {
        continue;
      }
      if (first.empty()) {
        first = file.path;
      } else {
        findings.push_back({file.path,
                            include.line,
                            include.target + " is included by " + first +
                                " already; one file may (13 s of compile time)"});
      }
    }
  }
  return findings;
}

}  // namespace understudy::tidy
