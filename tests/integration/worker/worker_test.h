// What every test of the worker binary starts from: a nats-server, a frontend, a folder for
// discovery.
#pragma once

#include "tests/fakes/fake_frontend.h"
#include "tests/fakes/server_process.h"
#include "tests/integration/worker/worker_process.h"
#include "tests/unit/transport/tcp/peer.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {

using fakes::CallPtr;
using fakes::CallSpec;
using fakes::FakeFrontend;
using fakes::ServerProcess;
using fakes::TempDir;
using transport::PayloadCodec;
using transport::Peer;
using transport::PeerListener;
using transport::StreamControl;
using Kind = transport::ResponseFrame::Kind;
using Arguments = std::vector<std::string>;

/// A stream of this many tokens doesn't end by itself within a test at the speeds that tests use.
inline constexpr std::uint32_t kEndless = 1'000'000;
/// A worker whose first pass takes minutes: requests stay before their first token.
inline const Arguments kCrawling = {"--speedup-ratio", "0.00001"};
/// No modelled time at all.
inline const Arguments kFree = {"--speedup-ratio", "0"};

/// `count` token ids that differ from those of another `seed`.
[[nodiscard]] std::vector<std::uint32_t> Prompt(std::size_t count, std::uint32_t seed = 0);
[[nodiscard]] Arguments operator+(Arguments left, const Arguments& right);

/// What a raw reader of a response connection makes of the bytes it got.
struct Reading {
  std::vector<Kind> kinds;
  std::vector<std::uint32_t> tokens;
  bool whole_frames = true;  ///< nothing is left behind the last frame
  [[nodiscard]] bool Has(Kind kind) const;
};
[[nodiscard]] Reading Read(std::string_view bytes, PayloadCodec codec = PayloadCodec::kJson);
/// Reads from `peer` until `tokens` tokens have come, and gives back all bytes so far.
[[nodiscard]] std::string ReadTokens(Peer& peer, std::size_t tokens);

class WorkerTest : public ::testing::Test {
 protected:
  using Worker = std::unique_ptr<WorkerProcess>;

  WorkerTest();
  ~WorkerTest() override;

  /// One nats-server for all tests of the program that don't hurt it.
  static ServerProcess& SharedNats();
  /// This test's server from now on; before the first worker and frontend.
  void UseNats(std::vector<std::string> extra = {});
  /// Discovery by an etcd of this test from now on.
  ServerProcess& UseEtcd(const std::string& lease_ttl_s);
  [[nodiscard]] ServerProcess& nats();
  [[nodiscard]] FakeFrontend& frontend();

  /// Variables that every worker of this test gets.
  WorkerProcess::Environment environment;
  [[nodiscard]] Worker Launch(const Arguments& arguments);
  /// The same, and waits for the ready line.
  [[nodiscard]] Worker Start(const Arguments& arguments = {});

  [[nodiscard]] CallSpec Spec(const WorkerProcess& worker,
                              std::size_t prompt_tokens,
                              std::uint32_t max_tokens,
                              PayloadCodec codec = PayloadCodec::kJson) const;
  [[nodiscard]] CallPtr Send(const WorkerProcess& worker,
                             std::size_t prompt_tokens,
                             std::uint32_t max_tokens,
                             PayloadCodec codec = PayloadCodec::kJson);
  /// One small request: empty when it came back whole, else what is wrong.
  [[nodiscard]] std::string WhyNotServing(const WorkerProcess& worker);

  /// Files of a bucket (`instances`, `mdc`, `event_channels`) in the folder of discovery.
  [[nodiscard]] std::vector<std::string> Records(const std::string& bucket) const;
  /// Instance records of `generate`, without those of recovery queries.
  [[nodiscard]] std::vector<std::string> ServingRecords() const;
  [[nodiscard]] const std::string& ns() const { return ns_; }
  [[nodiscard]] const TempDir& folder() const { return folder_; }

 private:
  const std::string ns_;
  TempDir folder_;
  std::unique_ptr<ServerProcess> own_nats_, etcd_;
  std::unique_ptr<FakeFrontend> frontend_;
};

}  // namespace understudy::worker
