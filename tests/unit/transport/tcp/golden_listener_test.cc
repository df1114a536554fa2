// Openings that an original prefill worker closed without a word: ours does the same. Data:
// tests/vectors/disagg/bootstrap_{source,destination}_probes.json.
#include "tests/unit/transport/codec/golden.h"
#include "tests/unit/transport/tcp/bootstrap_rig.h"

#include <ostream>

namespace understudy::transport {
namespace {

struct Opened {
  const char* name;
  std::string bytes;
  friend void PrintTo(const Opened& opened, std::ostream* out) { *out << opened.name; }
};

class ClosedOpening : public ::testing::TestWithParam<Opened> {
 protected:
  fakes::LoopThread thread_;
  ListenerRig rig_{thread_};
};

golden::Json CapturedCase(const char* file, const char* name) {
  return golden::Load(std::string("disagg/") + file + ".json").at("cases").at(name);
}

TEST_P(ClosedOpening, M136_M137_M138_M139_IsClosedWithoutAWordAndNeverHandedOver) {
  const golden::Json captured = CapturedCase("bootstrap_source_probes", GetParam().name);
  ASSERT_EQ(captured.size(), 1U);
  EXPECT_EQ(captured.at(0).at("message"), "EOF");
  ASSERT_TRUE(rig_.Listen({}));
  rig_.Take();
  const auto peer = rig_.Dial();
  peer->Send(GetParam().bytes);
  std::string said;
  EXPECT_EQ(peer->ReadToEnd(&said), Peer::End::kFin);
  EXPECT_EQ(said, "");
  EXPECT_EQ(rig_.counts().bad_total, 1U);
  EXPECT_EQ(rig_.counts().registered_total, 0U);
}

std::string OfRole(const std::string& role) {
  std::string frame = Framed(Registration());
  const std::string destination = "Destination";
  frame.replace(frame.find(destination), destination.size(), role);
  frame[0] = static_cast<char>(frame.size() - kBootstrapLengthBytes);
  return frame;
}

INSTANTIATE_TEST_SUITE_P(
    Cases,
    ClosedOpening,
    ::testing::Values(Opened{"bad_magic", std::string("XXXX\x01\0\0\0", 8)},
                      Opened{"version_2", std::string("DMHF\x02\0\0\0", 8)},
                      Opened{"flags_1", std::string("DMHF\x01\0\x01\0", 8)},
                      Opened{"malformed_json", Header() + std::string("\x05\0\0\0{nope", 9)},
                      Opened{"oversized_len", Header() + std::string("\x01\0\x01\0", 4)},
                      Opened{"zero_len", Header() + std::string(4, '\0')},
                      Opened{"first_not_register", Header() + Framed(BootstrapComplete())},
                      Opened{"role_source", Header() + OfRole("Source")}),
    [](const auto& opened) { return std::string(opened.param.name); });

TEST(HalfOpen, M140_ThirtySecondsAreAllAPeerHasToRegister) {
  const golden::Json captured =
      CapturedCase("bootstrap_destination_probes", "half_open_registration_timeout");
  const std::chrono::duration<double, std::milli> limit =
      BootstrapListener::Options().registration_timeout;
  EXPECT_EQ(limit.count(), 30'000.0);
  EXPECT_EQ(captured.at(0).at("message"), "EOF");
  EXPECT_GE(captured.at(0).at("t_ms").get<double>(), limit.count());
  EXPECT_LT(captured.at(0).at("t_ms").get<double>(), limit.count() + 10.0);
}

}  // namespace
}  // namespace understudy::transport
