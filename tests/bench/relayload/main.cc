// understudy_relay_load: plays engines in front of a relay and reads what it tells routers over
// NATS. Says as a line of JSON what was sent, what came, how late, and what the relay needed for
// it.
#include "tests/bench/relayload/engines.h"
#include "understudy/base/clock.h"
#include "understudy/transport/codec.h"
#include "understudy/transport/nats.h"
#include "understudy/transport/router_event.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace understudy::relayload {
namespace {

constexpr Nanoseconds kTick = std::chrono::milliseconds(2);
constexpr Nanoseconds kQuiet = std::chrono::seconds(3);  ///< nothing came for so long: that was all
constexpr std::uint64_t kSamplesMax = 1U << 24;          ///< blocks whose times are kept

using Flags = std::map<std::string, std::string, std::less<>>;

std::uint64_t Number(const Flags& flags, std::string_view name, std::uint64_t fallback) {
  const auto found = flags.find(name);
  if (found == flags.end()) {
    return fallback;
  }
  std::uint64_t value = 0;
  const std::string& text = found->second;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    std::fprintf(
        stderr, "relay_load: --%s: not a number: %s\n", found->first.c_str(), text.c_str());
    std::exit(2);
  }
  return value;
}

struct Usage {
  double cpu_s = 0;
  std::uint64_t rss_kb = 0;
};

/// Of a process, from /proc.
Usage UsageOf(std::uint64_t pid) {
  Usage usage;
  const std::string folder = "/proc/" + std::to_string(pid) + "/";
  std::ifstream stat(folder + "stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) {
    return usage;
  }
  double user = 0;
  double system = 0;
  std::sscanf(text.c_str() + name_end + 1,
              " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lf %lf",
              &user,
              &system);
  usage.cpu_s = (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream status(folder + "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) {
      usage.rss_kb = std::strtoull(line.c_str() + 6, nullptr, 10);
    }
  }
  return usage;
}

class Load {
 public:
  explicit Load(const Flags& flags)
      : flags_(flags),
        rate_(static_cast<double>(Number(flags, "rate", 1000))),
        until_(
            static_cast<std::uint64_t>(rate_ * static_cast<double>(Number(flags, "seconds", 10)))),
        loop_(transport::Loop::New()),
        timer_(loop_->NewTimer()) {}

  int Run() {
    loop_->Post([this] { Start(); });
    loop_->Run();
    engines_.reset();
    return exit_code_;
  }

 private:
  void Fail(const std::string& why) {
    std::fprintf(stderr, "relay_load: %s\n", why.c_str());
    exit_code_ = 2;
    loop_->Stop();
  }

  void Start() {
    EnginesOptions options;
    options.base_port = static_cast<std::uint16_t>(Number(flags_, "base-port", 0));
    options.replay_base = static_cast<std::uint16_t>(Number(flags_, "replay-base", 0));
    options.engines = static_cast<std::uint32_t>(Number(flags_, "engines", 1));
    options.ranks = static_cast<std::uint32_t>(Number(flags_, "ranks", 1));
    options.blocks_per_batch = static_cast<std::uint32_t>(Number(flags_, "blocks-per-batch", 8));
    blocks_per_batch_ = options.blocks_per_batch;
    options.blocks_held =
        static_cast<std::uint32_t>(Number(flags_, "blocks-held", options.blocks_held));
    auto engines = Engines::New(*loop_, transport::ZmqContext::New(), options);
    if (!engines) {
      Fail(engines.error().message);
      return;
    }
    engines_ = std::move(*engines);
    transport::NatsOptions nats;
    nats.url = flags_.at("nats");
    nats_ = transport::NatsClient::New(*loop_, nats);
    nats_->Start([this](const Status& connected) {
      if (!connected) {
        Fail(connected.error().message);
        return;
      }
      nats_->Subscribe(flags_.at("subject"), "", [this](const transport::NatsMessage& message) {
        OnMessage(message);
      });
      nats_->Flush(std::chrono::seconds(5), [this](const Status&) { Ready(); });
    });
  }

  /// The caller starts the relay now and says its process id as a line; 0: it comes later.
  void Ready() {
    std::printf("engines are up\n");
    std::fflush(stdout);
    std::array<char, 32> line{};
    if (std::fgets(line.data(), static_cast<int>(line.size()), stdin) == nullptr) {
      Fail("nobody is there");
      return;
    }
    pid_ = std::strtoull(line.data(), nullptr, 10);
    before_ = UsageOf(pid_);
    began_ = clock_.Now();
    sent_at_.reserve(std::min(until_, kSamplesMax) + 1);
    sent_at_.push_back(TimePoint{});
    Tick();
  }

  void Tick() {
    const TimePoint now = clock_.Now();
    const double elapsed = std::chrono::duration<double>(now - began_).count();
    const auto due = std::min(until_, static_cast<std::uint64_t>(elapsed * rate_));
    // Stored and removed blocks are events alike.
    while (engines_->blocks_stored() + engines_->blocks_removed() < due) {
      const TimePoint at = clock_.Now();
      engines_->PublishBatch();
      while (sent_at_.size() <= engines_->blocks_stored() && sent_at_.size() < kSamplesMax) {
        sent_at_.push_back(at);
      }
    }
    if (due * 3 >= until_ && first_third_.rss_kb == 0) {
      first_third_ = UsageOf(pid_);
    }
    if (due < until_) {
      timer_->After(kTick, [this] { Tick(); });
      return;
    }
    ended_ = now;
    heard_at_ = now;
    AwaitQuiet();
  }

  void AwaitQuiet() {
    if (clock_.Now() - heard_at_ > kQuiet) {
      Report();
      return;
    }
    timer_->After(std::chrono::milliseconds(100), [this] { AwaitQuiet(); });
  }

  void OnMessage(const transport::NatsMessage& message) {
    heard_at_ = clock_.Now();
    const std::string_view bytes(reinterpret_cast<const char*>(message.payload.data()),
                                 message.payload.size());
    const auto envelope = transport::DecodeEnvelope(bytes);
    const auto events =
        envelope
            ? transport::DecodeRouterEvents(envelope->payload)
            : Result<std::vector<transport::RouterEvent>>(tl::make_unexpected(envelope.error()));
    if (!events) {
      ++unreadable_;
      return;
    }
    for (const transport::RouterEvent& event : *events) {
      if (event.kind != transport::RouterEvent::Kind::kStored) {
        removed_ += event.blocks.size();
        continue;
      }
      stored_ += event.blocks.size();
      for (const auto& block : event.blocks) {
        const std::uint64_t name = Value(block.block_hash);
        if (name < sent_at_.size()) {
          const Nanoseconds late = heard_at_ - sent_at_[name];
          lateness_us_.push_back(static_cast<float>(static_cast<double>(late.count()) * 1e-3));
        }
      }
    }
  }

  void Report() {
    const Usage after = UsageOf(pid_);
    std::sort(lateness_us_.begin(), lateness_us_.end());
    const auto part = [&](double share) {
      return lateness_us_.empty() ? 0.0
                                  : static_cast<double>(lateness_us_[static_cast<std::size_t>(
                                        share * static_cast<double>(lateness_us_.size() - 1))]);
    };
    const double seconds = std::chrono::duration<double>(ended_ - began_).count();
    const auto sent = engines_->blocks_stored() + engines_->blocks_removed();
    const auto heard = stored_ + removed_;
    const double cpu_s = after.cpu_s - before_.cpu_s;
    std::printf(
        "{\"sent\": %llu, \"heard\": %llu, \"missing\": %lld, \"batches\": %llu, \"unreadable\": "
        "%llu, \"blocks_per_batch\": %u, \"seconds\": %.3f, \"events_s\": %.0f, \"late_us.p50\": "
        "%.0f, \"late_us.p99\": %.0f, \"relay_cpu_s\": %.3f, \"cpu_s_per_1m_events\": %.3f, "
        "\"rss_kb_third\": %llu, \"rss_kb_end\": %llu}\n",
        static_cast<unsigned long long>(sent),
        static_cast<unsigned long long>(heard),
        static_cast<long long>(sent) - static_cast<long long>(heard),
        static_cast<unsigned long long>(engines_->batches()),
        static_cast<unsigned long long>(unreadable_),
        blocks_per_batch_,
        seconds,
        static_cast<double>(sent) / seconds,
        part(0.5),
        part(0.99),
        cpu_s,
        heard > 0 ? cpu_s * 1e6 / static_cast<double>(heard) : 0.0,
        static_cast<unsigned long long>(first_third_.rss_kb),
        static_cast<unsigned long long>(after.rss_kb));
    std::fflush(stdout);
    nats_->Close(std::chrono::milliseconds(500), [this] { loop_->Stop(); });
  }

  const Flags& flags_;
  const double rate_;
  const std::uint64_t until_;  ///< events
  std::uint64_t pid_ = 0;      ///< of the relay
  SteadyClock clock_;
  std::unique_ptr<transport::Loop> loop_;
  std::unique_ptr<transport::Timer> timer_;
  std::unique_ptr<transport::NatsClient> nats_;
  std::unique_ptr<Engines> engines_;
  std::vector<TimePoint> sent_at_;  // by block name
  std::vector<float> lateness_us_;
  Usage before_, first_third_;
  TimePoint began_{}, ended_{}, heard_at_{};
  std::uint64_t stored_ = 0, removed_ = 0, unreadable_ = 0;
  std::uint32_t blocks_per_batch_ = 0;
  int exit_code_ = 0;
};

}  // namespace
}  // namespace understudy::relayload

int main(int argc, char** argv) {
  understudy::relayload::Flags flags;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (!name.starts_with("--")) {
      std::fprintf(stderr, "relay_load: what is %s?\n", argv[i]);
      return 2;
    }
    flags.emplace(name.substr(2), argv[i + 1]);
  }
  if (flags.count("nats") == 0 || flags.count("subject") == 0 || flags.count("base-port") == 0) {
    std::fputs(
        "usage: understudy_relay_load --nats URL --subject SUBJECT --base-port PORT\n"
        "  [--replay-base PORT] [--engines N] [--ranks N] [--rate EVENTS/S] [--seconds S]\n"
        "  [--blocks-per-batch N] [--blocks-held N]\n"
        "Says so when its engines are up, and then waits for a line with the relay's process id.\n",
        stderr);
    return 2;
  }
  return understudy::relayload::Load(flags).Run();
}
