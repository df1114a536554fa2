// A fixture: a NATS server of its own, and a client of ours that is connected to it.
#pragma once

#include "tests/fakes/loop_thread.h"
#include "tests/fakes/server_process.h"
#include "tests/integration/nats/nats_peer.h"

#include <memory>
#include <utility>

#include <gtest/gtest.h>

namespace understudy::transport {

class ConnectedClient : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = fakes::ServerProcess::Nats();
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    client_ = std::make_unique<TestClient>(thread_, server_->url());
    const auto started = client_->Start();
    ASSERT_TRUE(started) << started.error().message;
  }

  std::unique_ptr<fakes::ServerProcess> server_;
  fakes::LoopThread thread_;
  std::unique_ptr<TestClient> client_;
};

}  // namespace understudy::transport
