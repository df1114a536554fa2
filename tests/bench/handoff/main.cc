// Times hand-offs between a prefill and a decode worker of any implementation, one after the other,
// as a frontend sees them: from the token of the prefill worker to the first of the decode worker.
#include "tests/fakes/fake_frontend.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string nats, prefill, decode;
  std::uint16_t bootstrap_port = 0;
  std::uint32_t requests = 100, warmup = 5, prompt_tokens = 60;
  double transfer_ms = 0.0;  ///< of a prompt, as the workers model it; taken off
};

template <class T>
bool Read(const std::map<std::string, std::string>& given, const char* flag, T& out) {
  const auto it = given.find(flag);
  if (it == given.end()) {
    return true;
  }
  const char* end = it->second.data() + it->second.size();
  return std::from_chars(it->second.data(), end, out).ptr == end;
}

bool Parse(int argc, char** argv, Options& options) {
  std::map<std::string, std::string> given;
  for (int i = 1; i + 1 < argc; i += 2) {
    given[argv[i]] = argv[i + 1];
  }
  options.nats = given["--nats"];
  options.prefill = given["--prefill"];
  options.decode = given["--decode"];
  return argc % 2 == 1 && Read(given, "--bootstrap-port", options.bootstrap_port) &&
         Read(given, "--requests", options.requests) &&
         Read(given, "--prompt-tokens", options.prompt_tokens) &&
         Read(given, "--transfer-ms", options.transfer_ms) && !options.prefill.empty() &&
         !options.decode.empty() && options.bootstrap_port != 0;
}

class Driver {
 public:
  Driver(fakes::FakeFrontend& frontend, const Options& options)
      : frontend_(frontend), options_(options) {}

  /// Milliseconds between the two tokens, or less than nothing: it failed.
  double HandOver() {
    fakes::CallSpec spec;
    spec.subject = options_.prefill;
    spec.id = ToText(NewId());
    spec.request.model = "bench";
    for (std::uint32_t i = 0; i < options_.prompt_tokens; ++i) {
      spec.request.token_ids.push_back(static_cast<std::uint32_t>(random_() % 30'000));
    }
    spec.request.max_tokens = 1;
    spec.request.bootstrap_info = {"127.0.0.1", options_.bootstrap_port, random_() >> 1, NewId()};
    const auto source = frontend_.Send(spec);
    if (!source->WaitFrame(fakes::Call::Kind::kPrologue)) {
      return -1;
    }
    spec.subject = options_.decode;
    spec.request.max_tokens = 2;
    const auto destination = frontend_.Send(spec);
    if (!source->WaitTokens(1)) {
      return -1;
    }
    const auto computed = Clock::now();
    if (!destination->WaitTokens(1)) {
      return -1;
    }
    const auto decoded = Clock::now();
    if (!source->WaitClosed() || !destination->WaitClosed() ||
        !(source->error() + destination->error()).empty()) {
      return -1;
    }
    return std::chrono::duration<double, std::milli>(decoded - computed).count();
  }

 private:
  Uuid NewId() { return {random_(), random_()}; }

  fakes::FakeFrontend& frontend_;
  const Options& options_;
  std::mt19937_64 random_{std::random_device{}()};
};

double At(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

int Run(const Options& options) {
  auto frontend = fakes::FakeFrontend::New(options.nats);
  if (!frontend) {
    std::fprintf(stderr, "handoff bench: %s\n", frontend.error().message.c_str());
    return 2;
  }
  Driver driver(**frontend, options);
  std::vector<double> overheads;
  for (std::uint32_t i = 0; i < options.warmup + options.requests; ++i) {
    const double took = driver.HandOver();
    if (took < 0) {
      std::fprintf(stderr, "handoff bench: request %u was not handed over\n", i);
      return 1;
    }
    if (i >= options.warmup) {
      overheads.push_back(took - options.transfer_ms);
    }
  }
  std::sort(overheads.begin(), overheads.end());
  std::printf(R"({"handoffs":%zu,"handoff_ms":{"p50":%.4f,"p90":%.4f,"p99":%.4f}})"
              "\n",
              overheads.size(),
              At(overheads, 0.5),
              At(overheads, 0.9),
              At(overheads, 0.99));
  return 0;
}

}  // namespace
}  // namespace understudy::bench

int main(int argc, char** argv) {
  understudy::bench::Options options;
  if (!understudy::bench::Parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: understudy_handoff_bench --nats URL --prefill SUBJECT --decode SUBJECT "
                 "--bootstrap-port PORT [--requests N] [--prompt-tokens N] [--transfer-ms MS]\n");
    return 2;
  }
  return understudy::bench::Run(options);
}
