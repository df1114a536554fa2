#include "tests/integration/nats/nats_peer.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

namespace understudy::transport {
namespace {

constexpr auto kLimit = std::chrono::minutes(1);
constexpr auto kPollStep = std::chrono::milliseconds(2);

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

NatsClient::Handler Inbox::Handler() {
  return [this](const NatsMessage& message) {
    const std::lock_guard lock(mutex_);
    messages_.push_back({std::string(message.subject),
                         std::string(message.reply),
                         TextOf(message.payload),
                         message.header("Status"),
                         message.header("x-word")});
    changed_.notify_all();
  };
}

std::vector<Received> Inbox::WaitFor(std::size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kLimit, [&] { return messages_.size() >= count; });
  return messages_;
}

std::size_t Inbox::size() {
  const std::lock_guard lock(mutex_);
  return messages_.size();
}

void Inbox::Clear() {
  const std::lock_guard lock(mutex_);
  messages_.clear();
}

TestClient::TestClient(fakes::LoopThread& thread, NatsOptions options) : thread_(thread) {
  thread_.Do([&] {
    client_ = NatsClient::New(thread_.loop(), std::move(options));
    client_->OnEvent([this](Event event, const std::string&) {
      const std::lock_guard lock(mutex_);
      events_.push_back(event);
      changed_.notify_all();
    });
  });
}

TestClient::TestClient(fakes::LoopThread& thread, const std::string& url)
    : TestClient(thread, [&] {
        NatsOptions options;
        options.url = url;
        return options;
      }()) {}

TestClient::~TestClient() {
  Destroy();
}

std::future<Status> TestClient::BeginStart() {
  auto promise = std::make_shared<std::promise<Status>>();
  auto future = promise->get_future();
  Do([&](NatsClient& client) {
    client.Start([promise](Status status) { promise->set_value(std::move(status)); });
  });
  return future;
}

Status TestClient::Start() {
  return fakes::Await(BeginStart());
}

NatsClient::SubscriptionId TestClient::Subscribe(const std::string& subject,
                                                 Inbox& inbox,
                                                 const std::string& queue) {
  return Do([&](NatsClient& client) { return client.Subscribe(subject, queue, inbox.Handler()); });
}

Status TestClient::Publish(const std::string& subject,
                           std::string_view payload,
                           const std::string& reply) {
  return Do([&](NatsClient& client) {
    return client.Publish(subject, std::as_bytes(std::span(payload.data(), payload.size())), reply);
  });
}

std::future<Status> TestClient::BeginFlush(Nanoseconds limit) {
  auto promise = std::make_shared<std::promise<Status>>();
  auto future = promise->get_future();
  Do([&](NatsClient& client) {
    client.Flush(limit, [promise](Status status) { promise->set_value(std::move(status)); });
  });
  return future;
}

Status TestClient::Flush(Nanoseconds limit) {
  return fakes::Await(BeginFlush(limit));
}

void TestClient::Close(Nanoseconds limit) {
  auto promise = std::make_shared<std::promise<void>>();
  auto future = promise->get_future();
  Do([&](NatsClient& client) { client.Close(limit, [promise] { promise->set_value(); }); });
  fakes::Await(std::move(future));
}

void TestClient::Destroy() {
  thread_.Do([this] { client_.reset(); });
}

bool TestClient::WaitConnected(bool wanted) {
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  while (Do([](NatsClient& client) { return client.connected(); }) != wanted) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(kPollStep);
  }
  return true;
}

int TestClient::Count(Event event) {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::count(events_.begin(), events_.end(), event));
}

bool FakeServerLink::Welcome() {
  peer_->Send(
      "INFO "
      "{\"server_id\":\"fake\",\"version\":\"2.9.10\",\"proto\":1,\"host\":\"127.0.0.1\",\"port\":"
      "4222,"
      "\"headers\":true,\"max_payload\":1048576}\r\n");
  if (ReadLine("CONNECT").empty() || ReadLine("PING").empty()) {
    return false;
  }
  return true;
}

std::string FakeServerLink::ReadLine(std::string_view prefix) {
  while (true) {
    const auto end = pending_.find("\r\n");
    if (end == std::string::npos) {
      const auto more = peer_->Read(1);
      if (more.empty()) {
        return {};
      }
      pending_ += more;
      continue;
    }
    const auto line = pending_.substr(0, end);
    pending_.erase(0, end + 2);
    if (line == "PING") {
      peer_->Send("PONG\r\n");
    }
    if (line.starts_with(prefix)) {
      return line;
    }
  }
}

std::size_t Threads() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/self/task")) {
    ++count;
  }
  return count;
}

}  // namespace understudy::transport
