#include "transport/etcd/http_request.h"

#include <string>

#include <gtest/gtest.h>

namespace understudy::transport::etcd {
namespace {

TEST(HttpUrl, IsTakenApart) {
  struct Example {
    const char* url;
    const char* authority;
    const char* host;
    std::uint16_t port;
    const char* target;
  };
  const Example kExamples[] = {
      {"http://etcd", "etcd", "etcd", 80, "/"},
      {"http://etcd:2379/v3/kv/txn", "etcd:2379", "etcd", 2379, "/v3/kv/txn"},
      {"http://10.0.0.1:1/a?b", "10.0.0.1:1", "10.0.0.1", 1, "/a?b"},
      {"http://[::1]:2379/v3", "[::1]:2379", "::1", 2379, "/v3"},
      {"http://[fe80::1%eth0]/", "[fe80::1%eth0]", "fe80::1%eth0", 80, "/"},
  };
  for (const Example& example : kExamples) {
    const auto url = ParseHttpUrl(example.url);
    ASSERT_TRUE(url) << example.url;
    EXPECT_EQ(url->authority, example.authority);
    EXPECT_EQ(url->host, example.host);
    EXPECT_EQ(url->port, example.port);
    EXPECT_EQ(url->target, example.target);
  }
}

TEST(HttpUrl, RefusesWhatItCannotReach) {
  for (const char* text : {"",
                           "http://",
                           "http:///v3",
                           "https://etcd:2379",
                           "etcd:2379",
                           "http://:2379",
                           "http://etcd:",
                           "http://etcd:0",
                           "http://etcd:65536",
                           "http://etcd:-1",
                           "http://etcd:1x",
                           "http://::1:2379",
                           "http://[::1",
                           "http://[]:1",
                           "http://[::1]2379",
                           "http://user:password@etcd:2379",
                           "http://etcd?a",
                           "http://etcd/a b",
                           "http://etcd/a\r\nB: c"}) {
    const auto url = ParseHttpUrl(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().code, Errc::kInvalidConfig);
  }
}

TEST(HttpRequest, HeadNamesHostLengthAndToken) {
  const auto url = ParseHttpUrl("http://[::1]:2379/v3/kv/range");
  ASSERT_TRUE(url);
  const auto head = PostHead(*url, "token.1", 12);
  ASSERT_TRUE(head);
  EXPECT_EQ(
      *head,
      "POST /v3/kv/range HTTP/1.1\r\nHost: [::1]:2379\r\nAccept: */*\r\n"
      "Content-Type: application/json\r\nContent-Length: 12\r\nAuthorization: token.1\r\n\r\n");
  EXPECT_EQ(PostHead(*url, "", 0)->find("Authorization"), std::string::npos);
}

TEST(HttpRequest, ATokenCannotAddLines) {
  const auto head = PostHead({}, "token\r\nEvil: 1", 0);
  ASSERT_FALSE(head);
  EXPECT_EQ(head.error().code, Errc::kMalformed);
}

}  // namespace
}  // namespace understudy::transport::etcd
