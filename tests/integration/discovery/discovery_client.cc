#include "tests/integration/discovery/discovery_client.h"

#include <chrono>
#include <thread>

namespace understudy::fakes {
namespace {

constexpr auto kLimit = std::chrono::seconds(30);

}  // namespace

using transport::LeaseState;
using transport::Record;

DiscoveryClient::DiscoveryClient(const Maker& maker) {
  thread_.Do([&] {
    discovery_ = maker(thread_.loop());
    discovery_->OnLease([this](LeaseState state, const std::string& text) {
      const std::lock_guard lock(mutex_);
      states_.emplace_back(state, text);
      changed_.notify_all();
    });
  });
}

DiscoveryClient::~DiscoveryClient() {
  Destroy();
}

void DiscoveryClient::Destroy() {
  thread_.Do([this] { discovery_.reset(); });
}

std::unique_ptr<DiscoveryClient> DiscoveryClient::Etcd(transport::EtcdOptions options) {
  return std::make_unique<DiscoveryClient>(
      [&](transport::Loop& loop) { return transport::NewEtcdDiscovery(loop, options); });
}

std::unique_ptr<DiscoveryClient> DiscoveryClient::File(const std::string& root, Nanoseconds ttl) {
  return std::make_unique<DiscoveryClient>([&](transport::Loop& loop) {
    return transport::NewFileDiscovery(loop, {root, ttl});
  });
}

Result<std::uint64_t> DiscoveryClient::Start() {
  return thread_.Ask<Result<std::uint64_t>>(
      [this](auto done) { discovery_->Start(std::move(done)); });
}

Status DiscoveryClient::Put(std::vector<Record> records) {
  return thread_.Ask<Status>([this, records = std::move(records)](auto done) {
    discovery_->Put(records, std::move(done));
  });
}

Status DiscoveryClient::Delete(std::vector<std::string> keys) {
  return thread_.Ask<Status>(
      [this, keys = std::move(keys)](auto done) { discovery_->Delete(keys, std::move(done)); });
}

Result<std::vector<Record>> DiscoveryClient::List(const std::string& prefix) {
  return thread_.Ask<Result<std::vector<Record>>>(
      [this, prefix](auto done) { discovery_->List(prefix, std::move(done)); });
}

std::vector<std::string> DiscoveryClient::Keys(const std::string& prefix) {
  std::vector<std::string> keys;
  if (const auto records = List(prefix)) {
    for (const Record& record : *records) {
      keys.push_back(record.key);
    }
  }
  return keys;
}

std::string DiscoveryClient::ValueOf(const std::string& key) {
  if (const auto records = List(key)) {
    for (const Record& record : *records) {
      if (record.key == key) {
        return record.value;
      }
    }
  }
  return "(none)";
}

Status DiscoveryClient::Close(Nanoseconds limit) {
  return thread_.Ask<Status>(
      [this, limit](auto done) { discovery_->Close(limit, std::move(done)); });
}

bool DiscoveryClient::WaitFor(LeaseState state) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kLimit, [&] {
    while (seen_ < states_.size()) {
      if (states_[seen_++].first == state) {
        return true;
      }
    }
    return false;
  });
}

std::vector<std::pair<LeaseState, std::string>> DiscoveryClient::states() {
  const std::lock_guard lock(mutex_);
  return states_;
}

void DiscoveryClient::Advance(Nanoseconds duration) {
  std::this_thread::sleep_for(duration);
}

bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace understudy::fakes
