// What one run of the load generator does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace understudy::loadgen {

enum class Plane { kNats, kTcp };
enum class Codec { kJson, kMsgpack };

/// A process whose CPU and memory are reported under `name`.
struct WatchedProcess {
  std::string name;
  int pid = 0;
};

struct Options {
  Plane plane = Plane::kNats;
  std::string host_port;  ///< of the NATS server, or of the worker on the TCP plane
  std::string path;       ///< NATS subject, or path of the TCP plane
  std::string model = "model";
  Codec codec = Codec::kJson;
  std::string cancel = "stop";  ///< control word sent after `cancel_after` tokens
  std::string trace_file;
  std::string listen_ip = "127.0.0.1";  ///< where the worker dials back
  std::uint64_t in_flight = 1;
  std::uint64_t prompt_tokens = 128;
  std::uint64_t output_tokens = 64;
  std::uint64_t shared_tokens = 0;  ///< leading ids common to all prompts
  std::uint64_t connections = 1;    ///< TCP plane only
  std::uint64_t cancel_after = 0;   ///< tokens; 0 = never
  std::uint64_t timeout_s = 120;
  std::uint64_t requests = 100;
  std::uint64_t warmup = 0;
  std::uint64_t distinct = 0;  ///< number of different prompts; 0 = all differ
  double rate = 0;             ///< requests/s in an open loop; 0 = closed loop
  bool json = false;
  bool dump = false;
  bool with_rank = true;
  std::vector<WatchedProcess> processes;
};

/// Reads the command line. Nothing when it is wrong (the caller prints UsageText and exits 2).
[[nodiscard]] std::optional<Options> ParseOptions(int argc, char** argv);
[[nodiscard]] const char* UsageText();

}  // namespace understudy::loadgen
