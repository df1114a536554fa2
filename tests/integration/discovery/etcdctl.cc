#include "tests/integration/discovery/etcdctl.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#include <gtest/gtest.h>

namespace understudy::fakes {
namespace {

struct PipeClose {
  void operator()(FILE* pipe) const { ::pclose(pipe); }
};

std::string Hex(std::uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%llx", static_cast<unsigned long long>(number));
  return text;
}

}  // namespace

std::string Etcdctl(const ServerProcess& server, const std::string& arguments) {
  const std::string command =
      "ETCDCTL_API=3 etcdctl --endpoints=" + server.url() + " " + arguments + " 2>&1";
  const std::unique_ptr<FILE, PipeClose> pipe(::popen(command.c_str(), "r"));
  std::string output;
  char bytes[512];
  while (std::fgets(bytes, sizeof(bytes), pipe.get()) != nullptr) {
    output += bytes;
  }
  return output;
}

void Revoke(const ServerProcess& server, std::uint64_t lease) {
  const std::string output = Etcdctl(server, "lease revoke " + Hex(lease));
  ASSERT_NE(output.find("revoked"), std::string::npos) << output;
}

std::uint64_t LeaseOf(const ServerProcess& server, const std::string& key) {
  constexpr std::string_view kField = "\"Lease\" : ";
  const std::string output = Etcdctl(server, "get -w fields " + key);
  const auto at = output.find(kField);
  return at == std::string::npos ? 0
                                 : std::strtoull(output.c_str() + at + kField.size(), nullptr, 10);
}

}  // namespace understudy::fakes
