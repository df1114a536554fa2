// Starting, or saying in one line why not. Source: wire.md 1, conformance.md 2; M-008, M-009; U18.
#include "tests/integration/worker/worker_test.h"

#include <csignal>
#include <filesystem>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

class StartUp : public WorkerTest {
 protected:
  void ExpectExit(const Arguments& arguments, int code, const std::string& text) {
    const auto worker = Launch(arguments);
    EXPECT_EQ(worker->WaitExit(), code) << worker->err();
    EXPECT_NE(worker->err().find(text), std::string::npos) << worker->err();
    EXPECT_EQ(worker->out(), "");
  }
  void ExpectOneErrorLine(const WorkerProcess& worker, const std::string& text) {
    EXPECT_EQ(worker.CountErr(" ERROR "), 1U) << worker.err();
    const auto err = worker.err();
    const auto at = err.find(" ERROR ");
    EXPECT_NE(err.substr(at, err.find('\n', at) - at).find(text), std::string::npos) << err;
  }
};

TEST_F(StartUp, U18TellsItsAddressesAndPlanesInOneLine) {
  const auto worker = Start();
  EXPECT_EQ(worker->Instances().size(), 1U);
  EXPECT_EQ(worker->Ready("endpoint"), ns() + ".backend.generate");
  EXPECT_EQ(worker->Ready("request_plane"), "nats");
  EXPECT_EQ(worker->Ready("event_plane"), "nats");
  EXPECT_EQ(worker->Ready("discovery"), "file");
  const auto err = worker->err();
  const auto at = err.find("starting");
  ASSERT_NE(at, std::string::npos);
  const auto line = err.substr(at, err.find('\n', at) - at);
  for (const auto& part :
       {nats().url(), std::string("event_plane=nats"), std::string("NATS_SERVER")}) {
    EXPECT_NE(line.find(part), std::string::npos) << line;
  }
}

TEST_F(StartUp, U18WithoutAServerVariableTellsTheAddressItFellBackTo) {
  environment["NATS_SERVER"] = "";
  const auto worker = Launch({});
  EXPECT_TRUE(worker->WaitErr("nats_server=nats://localhost:4222 nats_server_from=default"));
}

TEST_F(StartUp, IsListedBeforeTheEngineIsReadyAndRequestsWait) {
  const auto worker = Start(kFree + Arguments{"--startup-time", "1.5"});
  EXPECT_EQ(ServingRecords().size(), 1U);
  EXPECT_EQ(worker->Get("/health").status, 503);
  EXPECT_EQ(worker->Get("/live").status, 200);
  const auto call = Send(*worker, 5, 5);
  ASSERT_TRUE(call->WaitFrame(Kind::kPrologue));
  if (worker->Get("/health").status == 503) {
    EXPECT_EQ(call->tokens().size(), 0U);
  }
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->WhyNotWhole(5), "");
  EXPECT_TRUE(Eventually([&] { return worker->Get("/health").status == 200; }));
}

TEST_F(StartUp, WithoutAServerEndsWithOneLineThatNamesIt) {
  const auto port = fakes::FreePort();
  ASSERT_TRUE(port);
  const auto url = "nats://127.0.0.1:" + std::to_string(*port);
  environment["NATS_SERVER"] = url;
  const auto worker = Launch({});
  EXPECT_EQ(worker->WaitExit(), 1);
  ExpectOneErrorLine(*worker, url);
  EXPECT_TRUE(Records("instances").empty());
}

TEST_F(StartUp, WithAWrongPasswordEndsWithOneLine) {
  UseNats({"--user", "worker", "--pass", "right"});
  environment["NATS_SERVER"] = nats().url();
  environment["NATS_AUTH_USERNAME"] = "worker";
  environment["NATS_AUTH_PASSWORD"] = "wrong";
  const auto worker = Launch({});
  EXPECT_EQ(worker->WaitExit(), 1);
  ExpectOneErrorLine(*worker, "uthorization");
  EXPECT_EQ(worker->CountErr("wrong"), 0U) << "a password is never logged";
  environment["NATS_AUTH_PASSWORD"] = "right";
  const auto good = Start();
  EXPECT_EQ(good->Instances().size(), 1U);
}

TEST_F(StartUp, WithoutEtcdEndsWithOneLineThatNamesIt) {
  const auto port = fakes::FreePort();
  ASSERT_TRUE(port);
  environment["DYN_DISCOVERY_BACKEND"] = "etcd";
  environment["ETCD_ENDPOINTS"] = "http://127.0.0.1:" + std::to_string(*port);
  const auto worker = Launch({});
  EXPECT_EQ(worker->WaitExit(), 1);
  ExpectOneErrorLine(*worker, environment["ETCD_ENDPOINTS"]);
}

TEST_F(StartUp, WithADiscoveryFolderThatCannotBeMadeEndsWithOneLine) {
  const auto file = folder().path() + "/file";
  ASSERT_EQ(::mknod(file.c_str(), S_IFREG | 0600, 0), 0);
  environment["DYN_FILE_KV"] = file + "/below";  // a folder below a file: no user may make that
  const auto worker = Launch({});
  EXPECT_EQ(worker->WaitExit(), 1);
  ExpectOneErrorLine(*worker, file);
}

TEST_F(StartUp, WithAModelFolderThatIsNotThereEndsWithOneLine) {
  const auto worker = Launch({"--model-path", folder().path() + "/none"});
  EXPECT_EQ(worker->WaitExit(), 1);
  ExpectOneErrorLine(*worker, "/none");
}

TEST_F(StartUp, WithTheStatusPortTakenSaysSoAndServes) {
  PeerListener taken;
  environment["DYN_SYSTEM_PORT"] = std::to_string(taken.port());
  const auto worker = Start(kFree);
  EXPECT_EQ(worker->Ready("status"), "off");
  ExpectOneErrorLine(*worker, std::to_string(taken.port()));
  EXPECT_EQ(WhyNotServing(*worker), "");
}

TEST_F(StartUp, UnknownFlagsAreNamed) {
  ExpectExit({"--no-such-flag", "1"}, 2, "--no-such-flag");
  ExpectExit({"worker", "--speedup-ratioo", "1"}, 2, "--speedup-ratioo");
}

TEST_F(StartUp, ValuesThatAreRefusedAreNamedWithTheirFlag) {
  ExpectExit({"--num-workers", "0"}, 1, "--num-workers");
  ExpectExit({"--num-workers", "many"}, 2, "--num-workers");
  ExpectExit({"--block-size", "-1"}, 1, "--block-size");
  ExpectExit({"--speedup-ratio", "-2"}, 1, "--speedup-ratio");
  ExpectExit({"--speedup-ratio", "nan"}, 1, "--speedup-ratio");
  ExpectExit({"--preemption-mode", "none"}, 2, "--preemption-mode");
  ExpectExit({"--engine-type", "other"}, 2, "--engine-type");
  ExpectExit({"--request-plane", "tcp"}, 1, "--request-plane");
  ExpectExit({"--event-plane", "kafka"}, 1, "--event-plane");
  ExpectExit({"--discovery-backend", "mem"}, 1, "--discovery-backend");
  ExpectExit({"--endpoint", "nonsense"}, 1, "nonsense");
  ExpectExit({"--disaggregation-mode", "both"}, 2, "--disaggregation-mode");
  ExpectExit({"--is-prefill-worker", "--is-decode-worker"}, 1, "Cannot specify both");
  ExpectExit({"--bootstrap-ports", "8998,8999"}, 1, "--bootstrap-ports");
  ExpectExit({"--bootstrap-ports", "70000"}, 1, "--bootstrap-ports");
  ExpectExit({"--zmq-kv-events-ports", "5557,none"}, 1, "'none' is not a port");
}

TEST_F(StartUp, HelpAndVersionExitWithZero) {
  for (const Arguments& arguments :
       {Arguments{"--help"}, {"worker", "--help"}, {"call", "--help"}, {"--version"}, {"help"}}) {
    const auto worker = Launch(arguments);
    EXPECT_EQ(worker->WaitExit(), 0) << arguments[0];
    EXPECT_NE(worker->out(), "") << arguments[0];
    EXPECT_EQ(worker->err(), "") << arguments[0];
  }
  const auto help = Launch({"worker", "--help"});
  EXPECT_EQ(help->WaitExit(), 0);
  for (const auto* flag :
       {"--num-gpu-blocks-override", "--speedup-ratio", "--num-workers", "--seed"}) {
    EXPECT_NE(help->out().find(flag), std::string::npos) << flag;
  }
}

TEST_F(StartUp, JsonLogsParseLineByLine) {
  environment["DYN_LOGGING_JSONL"] = "1";
  environment["DYN_LOG"] = "debug";
  const auto worker = Start(kFree);
  auto spec = Spec(*worker, 5, 5);
  spec.id = "id with \"quotes\"\n and \xf0\x9f\x92\xa1";
  const auto call = frontend().Send(spec);
  ASSERT_TRUE(call->WaitClosed());
  spec.body = "{\xff";
  const auto bad = frontend().Send(spec);
  ASSERT_TRUE(bad->WaitClosed());
  worker->Signal(SIGTERM);
  EXPECT_EQ(worker->WaitExit(), 0);
  std::istringstream lines(worker->err());
  int count = 0;
  bool named = false;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    ASSERT_TRUE(json.is_object()) << line;
    for (const auto* key : {"time", "level", "target", "message"}) {
      EXPECT_TRUE(json.contains(key) && json[key].is_string()) << line;
    }
    named = named || (json.contains("fields") && json["fields"].value("request_id", "") == spec.id);
  }
  EXPECT_GE(count, 5);
  EXPECT_TRUE(named) << "lines about a request carry its id";
}

}  // namespace
}  // namespace understudy::worker
