// Bodies against the captured exchange of a real etcd 3.4.23 (tests/vectors/wire/etcd_auth.json).
#include "transport/etcd/messages.h"

#include "transport/etcd/base64.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::transport::etcd {
namespace {

using Json = nlohmann::json;

class EtcdVectors : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ifstream file(std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/vectors/wire/etcd_auth.json");
    vectors_ = Json::parse(file, nullptr, false);
    ASSERT_TRUE(vectors_.is_object());
  }
  /// The first exchange with this note.
  [[nodiscard]] Json Exchange(const std::string& note) const {
    for (const char* list : {"exchange", "other"}) {
      for (const Json& each : vectors_[list]) {
        if (each["note"] == note) {
          return each;
        }
      }
    }
    ADD_FAILURE() << "no exchange " << note;
    return {};
  }
  [[nodiscard]] std::string Response(const std::string& note) const {
    return Exchange(note)["response"];
  }

  Json vectors_;
};

TEST_F(EtcdVectors, RequestsAreTheCapturedOnes) {
  EXPECT_EQ(Json::parse(GrantBody(20, 0)), Exchange("token: lease")["request"]);
  EXPECT_EQ(Json::parse(AuthenticateBody("dyn", "s3cret")),
            Exchange("authenticate dyn")["request"]);
  EXPECT_EQ(Json::parse(LeaseBody(1837365478942675469)),
            Exchange("no token: keepalive")["request"]);
  EXPECT_EQ(kAuthenticatePath, Exchange("authenticate dyn")["path"]);
  EXPECT_EQ(kKeepAlivePath, Exchange("no token: keepalive")["path"]);
  EXPECT_EQ(kRevokePath, Exchange("no token: revoke")["path"]);
}

TEST_F(EtcdVectors, ACreateIsTheCapturedTransactionInTheServersSpelling) {
  const std::vector<Record> records = {{"v1/instances/a", "{}"}};
  Json wanted = Exchange("token: txn create")["request"];
  // The capture used the camel-case spelling that the gateway takes as well, and asked for the
  // value back.
  Json& success = wanted["success"][0];
  success = {{"request_put", success["requestPut"]}};
  Json& failure = wanted["failure"][0];
  failure = {{"request_range", failure["requestRange"]}};
  failure["request_range"]["keys_only"] = true;
  EXPECT_EQ(Json::parse(CreateBody(records, 1837365478942675478)), wanted);
}

TEST_F(EtcdVectors, LeasesAreReadFromGrantAndKeepAlive) {
  const auto granted = ParseLease(Response("token: lease"));
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->id, 1837365478942675478U);
  EXPECT_EQ(granted->ttl_s, 20);
  const auto beat = ParseLease(Response("no token: keepalive"));
  ASSERT_TRUE(beat);
  EXPECT_EQ(beat->id, 1837365478942675469U);
  EXPECT_EQ(beat->ttl_s, 20);
  const auto gone = ParseLease(Response("keepalive, unknown lease"));
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->id, 123U);
  EXPECT_EQ(gone->ttl_s, 0);
}

TEST_F(EtcdVectors, ACreateTellsWhatExistsAndUnderWhichLease) {
  const auto created = ParseCreate(Response("token: txn create"));
  ASSERT_TRUE(created);
  EXPECT_TRUE(created->created);
  const auto existed = ParseCreate(Response("token: txn create again"));
  ASSERT_TRUE(existed);
  EXPECT_FALSE(existed->created);
  ASSERT_EQ(existed->existing.size(), 1U);
  EXPECT_EQ(existed->existing[0].key, "v1/instances/a");
  EXPECT_EQ(existed->existing[0].lease, 1837365478942675478U);
}

TEST_F(EtcdVectors, ATokenIsRead) {
  const auto token = ParseToken(Response("authenticate dyn"));
  ASSERT_TRUE(token);
  EXPECT_EQ(*token, "uUWLLfFVmoxJLmgz.16");
}

TEST_F(EtcdVectors, OnlyRefusalsForWantOfATokenAskForOne) {
  const std::pair<const char*, bool> kCases[] = {
      {"no token: put", true},
      {"no token: range", true},
      {"Bearer scheme", true},
      {"empty token", true},
      {"expired: lease grant", true},
      {"expired: revoke", true},
      {"JWT tokens: role or user changed after the token was issued", true},
      {"wrong password", false},
      {"token: foreign key", false},
      {"no permission", false},
      {"revoke, unknown lease", false},
      {"client certificate with a CommonName, auth enabled: any gateway request", false},
  };
  for (const auto& [note, wanted] : kCases) {
    const Json exchange = Exchange(note);
    const std::string body = exchange["response"];
    EXPECT_EQ(WantsToken(exchange["status"], ParseRefusal(body)), wanted) << note;
  }
}

TEST_F(EtcdVectors, RefusalsKeepCodeAndText) {
  const Refusal gone = ParseRefusal(Response("put with unknown lease"));
  EXPECT_EQ(gone.code, kNotFound);
  EXPECT_EQ(gone.message, "etcdserver: requested lease not found");
  const Refusal text = ParseRefusal(
      Response("client certificate with a CommonName, auth enabled: any gateway request"));
  EXPECT_EQ(text.code, 0);
  EXPECT_EQ(text.message.rfind("CommonName of client", 0), 0U);
  const Refusal stream = ParseRefusal(R"({"error":{"grpc_code":14,"message":"no leader"}})");
  EXPECT_EQ(stream.code, kUnavailableCode);
  EXPECT_EQ(stream.message, "no leader");
  const Refusal newer = ParseRefusal(R"({"message":"etcdserver: no leader","code":14})");
  EXPECT_EQ(newer.code, kUnavailableCode);
  EXPECT_EQ(newer.message, "etcdserver: no leader");
}

TEST(EtcdMessages, PrefixEndIsTheNextKeyBehindAll) {
  EXPECT_EQ(PrefixEnd("v1/"), "v10");
  EXPECT_EQ(PrefixEnd("a\xFF\xFF"), "b");
  EXPECT_EQ(PrefixEnd("\xFF"), std::string(1, '\0'));
  EXPECT_EQ(PrefixEnd(""), std::string(1, '\0'));
}

TEST(EtcdMessages, ARangeMayBeEmptyAndItsValuesMissing) {
  EXPECT_TRUE(ParseRange(R"({"header":{}})")->empty());
  const auto records = ParseRange(R"({"kvs":[{"key":")" + Base64Encode("v1/a") +
                                  R"(","value":""},{"key":"djEvYg=="}]})");
  ASSERT_TRUE(records);
  ASSERT_EQ(records->size(), 2U);
  EXPECT_EQ((*records)[0].key, "v1/a");
  EXPECT_EQ((*records)[1].key, "v1/b");
  EXPECT_EQ((*records)[1].value, "");
}

TEST(EtcdMessages, StrangeAnswersAreRefused) {
  for (const char* body : {"",
                           "[]",
                           "null",
                           "7",
                           "{",
                           R"({"kvs":7})",
                           R"({"kvs":[7]})",
                           R"({"kvs":[{}]})",
                           R"({"kvs":[{"key":"%"}]})",
                           R"({"kvs":[{"key":"djEvYg==","value":"%"}]})"}) {
    EXPECT_FALSE(ParseRange(body)) << body;
  }
  for (const char* body : {"",
                           "{}",
                           R"({"responses":[]})",
                           R"({"responses":[{"response_put":{}}]})",
                           R"({"succeeded":"yes"})"}) {
    EXPECT_FALSE(ParseCreate(body)) << body;
  }
  for (const char* body :
       {"", "{}", R"({"token":""})", R"({"token":"a\r\nX: y"})", R"({"token":7})"}) {
    EXPECT_FALSE(ParseToken(body)) << body;
  }
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_FALSE(ParseRange(deep));
  EXPECT_FALSE(ParseRange(R"({"kvs":)" + deep + "}"));
}

TEST(EtcdMessages, APasswordThatIsNoUtf8DoesNotBreakTheBody) {
  EXPECT_FALSE(Json::parse(AuthenticateBody("u", "\xFF\xFE"), nullptr, false).is_discarded());
}

}  // namespace
}  // namespace understudy::transport::etcd
