#include "tests/integration/worker/worker_test.h"

#include "understudy/base/assert.h"

#include <algorithm>
#include <filesystem>
#include <unistd.h>
#include <utility>

namespace understudy::worker {
namespace {

std::unique_ptr<ServerProcess> Must(Result<std::unique_ptr<ServerProcess>> server) {
  if (!server) {
    ADD_FAILURE() << server.error().message;
  }
  UNDERSTUDY_ASSERT(server.has_value());
  return std::move(*server);
}

std::string FreshNamespace() {
  static int number = 0;
  return "t" + std::to_string(::getpid()) + "-" + std::to_string(++number);
}

}  // namespace

std::vector<std::uint32_t> Prompt(std::size_t count, std::uint32_t seed) {
  std::vector<std::uint32_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i) {
    tokens[i] = seed * 7919U + static_cast<std::uint32_t>(i);
  }
  return tokens;
}

Arguments operator+(Arguments left, const Arguments& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

bool Reading::Has(Kind kind) const {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

Reading Read(std::string_view bytes, PayloadCodec codec) {
  Reading reading;
  while (const auto frame = transport::ParseTwoPart(bytes, 64U << 20)) {
    const auto decoded = transport::DecodeResponseFrame(codec, *frame);
    if (!decoded) {
      ADD_FAILURE() << decoded.error().message;
      break;
    }
    reading.kinds.push_back(decoded->kind);
    reading.tokens.insert(
        reading.tokens.end(), decoded->token_ids.begin(), decoded->token_ids.end());
    bytes.remove_prefix(frame->frame_bytes);
  }
  reading.whole_frames = bytes.empty();
  return reading;
}

std::string ReadTokens(Peer& peer, std::size_t tokens) {
  std::string bytes;
  while (Read(bytes).tokens.size() < tokens) {
    const auto more = peer.Read(1);
    if (more.empty()) {
      ADD_FAILURE() << "the stream ended after " << Read(bytes).tokens.size() << " tokens";
      break;
    }
    bytes += more;
  }
  return bytes;
}

WorkerTest::WorkerTest() : ns_(FreshNamespace()) {
  environment["DYN_NAMESPACE"] = ns_;
  environment["DYN_DISCOVERY_BACKEND"] = "file";
  environment["DYN_EVENT_PLANE"] = "nats";  // one connection shows what all publishers say
  environment["DYN_FILE_KV"] = folder_.path();
  environment["DYN_SYSTEM_PORT"] = "0";
  environment["DYN_SYSTEM_HOST"] = "127.0.0.1";
}

WorkerTest::~WorkerTest() = default;

ServerProcess& WorkerTest::SharedNats() {
  static const auto kServer = Must(ServerProcess::Nats());
  return *kServer;
}

void WorkerTest::UseNats(std::vector<std::string> extra) {
  own_nats_ = Must(ServerProcess::Nats(std::move(extra)));
}

ServerProcess& WorkerTest::UseEtcd(const std::string& lease_ttl_s) {
  etcd_ = Must(ServerProcess::Etcd());
  environment["DYN_DISCOVERY_BACKEND"] = "etcd";
  environment["ETCD_ENDPOINTS"] = etcd_->url();
  environment["ETCD_LEASE_TTL"] = lease_ttl_s;
  return *etcd_;
}

ServerProcess& WorkerTest::nats() {
  return own_nats_ ? *own_nats_ : SharedNats();
}

FakeFrontend& WorkerTest::frontend() {
  if (!frontend_) {
    auto made = FakeFrontend::New(nats().url());
    UNDERSTUDY_ASSERT(made.has_value());
    frontend_ = std::move(*made);
  }
  return *frontend_;
}

WorkerTest::Worker WorkerTest::Launch(const Arguments& arguments) {
  environment.try_emplace("NATS_SERVER", nats().url());
  return std::make_unique<WorkerProcess>(arguments, environment);
}

WorkerTest::Worker WorkerTest::Start(const Arguments& arguments) {
  auto worker = Launch(arguments);
  if (!worker->WaitReady()) {
    ADD_FAILURE() << "the worker did not get ready:\n" << worker->err();
  }
  UNDERSTUDY_ASSERT(!worker->Ready("instance").empty());
  return worker;
}

CallSpec WorkerTest::Spec(const WorkerProcess& worker,
                          std::size_t prompt_tokens,
                          std::uint32_t max_tokens,
                          PayloadCodec codec) const {
  CallSpec spec;
  spec.subject = worker.SubjectIn(ns_);
  spec.codec = codec;
  spec.request.model = "dynamo";
  spec.request.token_ids = Prompt(prompt_tokens);
  spec.request.max_tokens = max_tokens;
  return spec;
}

CallPtr WorkerTest::Send(const WorkerProcess& worker,
                         std::size_t prompt_tokens,
                         std::uint32_t max_tokens,
                         PayloadCodec codec) {
  return frontend().Send(Spec(worker, prompt_tokens, max_tokens, codec));
}

std::string WorkerTest::WhyNotServing(const WorkerProcess& worker) {
  const auto call = Send(worker, 5, 3);
  return call->WaitClosed() ? call->WhyNotWhole(3)
                            : "no end of the stream: " + call->WhyNotWhole(3);
}

std::vector<std::string> WorkerTest::Records(const std::string& bucket) const {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder_.path() + "/v1/" + bucket, none)) {
    if (!entry.path().filename().string().starts_with(".")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> WorkerTest::ServingRecords() const {
  auto names = Records("instances");
  std::erase_if(names, [](const std::string& name) {
    return name.find("%2Fgenerate%2F") == std::string::npos;
  });
  return names;
}

}  // namespace understudy::worker
