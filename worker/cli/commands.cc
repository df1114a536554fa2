#include "worker/cli/commands.h"

#include "worker/cli/version.h"

#include <cstdio>

namespace understudy::worker {
namespace {

constexpr const char* kUsage =
    "understudy: takes a GPU worker's place in an NVIDIA Dynamo deployment\n"
    "\n"
    "  understudy [worker] [flags]   register in Dynamo and serve requests with a simulated engine "
    "(the default)\n"
    "  understudy call [flags]       send a request to a worker without a frontend, or watch the "
    "event plane\n"
    "  understudy ctl OPERATION      drive live workers: stats, clear-kv-blocks, drain, resume, "
    "handoff\n"
    "  understudy relay [flags]      take the KV events of a vLLM or SGLang engine to the routers\n"
    "  understudy replay [flags]     run a trace through simulated workers in simulated time, and "
    "report\n"
    "  understudy --version\n"
    "\n"
    "Every subcommand explains itself with --help.\n";

}  // namespace

int Main(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    return WorkerCommand({});
  }
  const auto& first = arguments.front();
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (first == "worker") {
    return WorkerCommand(rest);
  }
  if (first == "call") {
    return CallCommand(rest);
  }
  if (first == "ctl") {
    return CtlCommand(rest);
  }
  if (first == "relay") {
    return RelayCommand(rest);
  }
  if (first == "replay") {
    return ReplayCommand(rest);
  }
  if (first == "--version") {
    std::printf("understudy %s\n", kVersion);
    return 0;
  }
  if (first == "help" || (first == "--help" && arguments.size() == 1) || first == "-h") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (first.starts_with("-")) {
    return WorkerCommand(arguments);
  }
  std::fprintf(
      stderr,
      "understudy: error: no subcommand '%s' (allowed: worker, call, ctl, relay, replay)\n",
      first.c_str());
  return 2;
}

}  // namespace understudy::worker
