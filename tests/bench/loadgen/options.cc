#include "tests/bench/loadgen/options.h"

#include <charconv>
#include <functional>
#include <map>
#include <string_view>
#include <system_error>

namespace understudy::loadgen {
namespace {

template <class Number>
bool ParseNumber(std::string_view text, Number& out) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, out);
  return result.ec == std::errc{} && result.ptr == end;
}

bool ParseTarget(std::string_view text, Options& options) {
  if (text.rfind("nats://", 0) == 0) {
    options.plane = Plane::kNats;
    text.remove_prefix(7);
  } else if (text.rfind("tcp://", 0) == 0) {
    options.plane = Plane::kTcp;
    text.remove_prefix(6);
  } else {
    return false;
  }
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return false;
  }
  options.host_port = text.substr(0, slash);
  options.path = text.substr(slash + 1);
  return options.host_port.find(':') != std::string::npos && !options.path.empty();
}

bool ParseProcess(std::string_view text, Options& options) {
  const std::size_t equals = text.find('=');
  WatchedProcess process;
  if (equals == std::string_view::npos || !ParseNumber(text.substr(equals + 1), process.pid)) {
    return false;
  }
  process.name = text.substr(0, equals);
  options.processes.push_back(process);
  return true;
}

bool ParseCodec(std::string_view text, Options& options) {
  options.codec = text == "msgpack" ? Codec::kMsgpack : Codec::kJson;
  return text == "json" || text == "msgpack";
}

using Setter = std::function<bool(std::string_view)>;

std::map<std::string_view, Setter> ValueFlags(Options& options) {
  const auto count = [](std::uint64_t& field) -> Setter {
    return [&field](std::string_view text) { return ParseNumber(text, field); };
  };
  const auto word = [](std::string& field) -> Setter {
    return [&field](std::string_view text) {
      field = text;
      return !text.empty();
    };
  };
  return {
      {"-c", count(options.in_flight)},
      {"-n", count(options.requests)},
      {"--isl", count(options.prompt_tokens)},
      {"--osl", count(options.output_tokens)},
      {"--warmup", count(options.warmup)},
      {"--shared", count(options.shared_tokens)},
      {"--distinct", count(options.distinct)},
      {"--cancel-after", count(options.cancel_after)},
      {"--conns", count(options.connections)},
      {"--timeout", count(options.timeout_s)},
      {"--model", word(options.model)},
      {"--cancel", word(options.cancel)},
      {"--listen", word(options.listen_ip)},
      {"--trace", word(options.trace_file)},
      {"--rate", [&options](std::string_view text) { return ParseNumber(text, options.rate); }},
      {"--target", [&options](std::string_view text) { return ParseTarget(text, options); }},
      {"--pid", [&options](std::string_view text) { return ParseProcess(text, options); }},
      {"--codec", [&options](std::string_view text) { return ParseCodec(text, options); }},
  };
}

}  // namespace

std::optional<Options> ParseOptions(int argc, char** argv) {
  Options options;
  const auto value_flags = ValueFlags(options);
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--json") {
      options.json = true;
    } else if (flag == "--dump") {
      options.dump = true;
    } else if (flag == "--no-rank") {
      options.with_rank = false;
    } else if (const auto found = value_flags.find(flag);
               found == value_flags.end() || ++i >= argc || !found->second(argv[i])) {
      return std::nullopt;
    }
  }
  const bool usable = !options.path.empty() && options.in_flight > 0 && options.requests > 0 &&
                      options.connections > 0 && options.output_tokens > 0;
  if (!usable) {
    return std::nullopt;
  }
  return options;
}

const char* UsageText() {
  return "understudy_loadgen --target nats://HOST:PORT/SUBJECT | tcp://HOST:PORT/PATH [options]\n"
         "  -c N              requests in flight (1)          -n N             requests to measure "
         "(100)\n"
         "  --isl N           prompt tokens (128)             --osl N          output tokens (64)\n"
         "  --warmup N        unmeasured requests first (0)   --rate R         open loop, "
         "requests/s\n"
         "  --shared N        leading tokens common to all    --distinct N     number of different "
         "prompts (all)\n"
         "  --codec json|msgpack                              --model NAME     model field of the "
         "request\n"
         "  --cancel-after K  send a cancel after K tokens    --cancel stop|kill\n"
         "  --pid NAME=PID    report CPU and memory (repeat)  --conns N        TCP request "
         "connections (1)\n"
         "  --listen IP       address the worker dials back   --timeout S      give up (120)\n"
         "  --trace FILE      CSV: request,token,us of the run  --json         one JSON line on "
         "stdout\n"
         "  --no-rank         omit routing.dp_rank            --dump           print every "
         "response frame\n"
         "exit: 0 all streams complete, 1 some short or without a final frame, 2 cannot start, 3 "
         "timeout\n";
}

}  // namespace understudy::loadgen
