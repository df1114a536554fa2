#include "transport/etcd/http_response.h"

#include <algorithm>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace understudy::transport::etcd {
namespace {

using State = ResponseParser::State;

constexpr std::size_t kBodyMax = 1000;

struct Outcome {
  State state = State::kMore;
  int status = 0;
  std::string body;
  bool keep_alive = false;
  bool too_long = false;
  std::string reason;

  bool operator==(const Outcome&) const = default;
};

Outcome OutcomeOf(ResponseParser& parser) {
  Outcome outcome;
  outcome.state = parser.state();
  if (outcome.state == State::kDone) {
    outcome.keep_alive = parser.keep_alive();
    auto reply = parser.TakeReply();
    outcome.status = reply.status;
    outcome.body = std::move(reply.body);
  }
  outcome.too_long = parser.too_long();
  outcome.reason = parser.reason();
  return outcome;
}

Outcome Parse(std::string_view text, bool end = false) {
  ResponseParser parser(kBodyMax);
  parser.Feed(text);
  if (end) {
    parser.FeedEnd();
  }
  return OutcomeOf(parser);
}

void ExpectAnswer(const Outcome& outcome, int status, const std::string& body, bool keep_alive) {
  EXPECT_EQ(outcome.state, State::kDone) << outcome.reason;
  EXPECT_EQ(outcome.status, status);
  EXPECT_EQ(outcome.body, body);
  EXPECT_EQ(outcome.keep_alive, keep_alive);
}

TEST(HttpResponse, ReadsABodyOfGivenLength) {
  ExpectAnswer(Parse("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), 200, "hello", true);
  ExpectAnswer(Parse("HTTP/1.1 404\r\ncontent-length:0\r\n\r\n"), 404, "", true);
  ExpectAnswer(Parse("HTTP/1.1 204 No Content\r\n\r\n"), 204, "", true);
  EXPECT_EQ(Parse("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell").state, State::kMore);
}

TEST(HttpResponse, ReadsChunksAndForgetsExtensionsAndTrailers) {
  ExpectAnswer(Parse("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
                     "5\r\nhello\r\nA;name=\"v\"\r\n, world!!!\r\n0\r\nSum: 1\r\n\r\n"),
               200,
               "hello, world!!!",
               true);
}

TEST(HttpResponse, AnAnswerWithoutALengthGoesToTheEnd) {
  const std::string text = "HTTP/1.1 200 OK\r\n\r\nall of it";
  EXPECT_EQ(Parse(text).state, State::kMore);
  ExpectAnswer(Parse(text, true), 200, "all of it", false);
}

TEST(HttpResponse, SkipsInterimAnswers) {
  ExpectAnswer(Parse("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
                     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"),
               200,
               "x",
               true);
}

TEST(HttpResponse, TellsWhetherTheConnectionMayBeUsedAgain) {
  const std::string length = "Content-Length: 0\r\n";
  EXPECT_TRUE(Parse("HTTP/1.1 200 OK\r\n" + length + "\r\n").keep_alive);
  EXPECT_FALSE(Parse("HTTP/1.1 200 OK\r\n" + length + "Connection: x, Close\r\n\r\n").keep_alive);
  EXPECT_FALSE(Parse("HTTP/1.0 200 OK\r\n" + length + "\r\n").keep_alive);
  EXPECT_TRUE(Parse("HTTP/1.0 200 OK\r\n" + length + "Connection: Keep-Alive\r\n\r\n").keep_alive);
  const Outcome more = Parse("HTTP/1.1 200 OK\r\n" + length + "\r\nHTTP/1.1 200 OK\r\n");
  ExpectAnswer(more, 200, "", false);
}

TEST(HttpResponse, RefusesWhatIsNotHttp) {
  for (const char* text : {"\x15\x03\x01\r\n",
                           "\r\nHTTP/1.1 200 OK\r\n",
                           "HTTP/2 200 OK\r\n",
                           "HTTP/1.1 20 OK\r\n",
                           "HTTP/1.1 2000 OK\r\n",
                           "HTTP/1.1 +20 OK\r\n",
                           "HTTP/1.1 099 OK\r\n",
                           "HTTP/1.1 600 OK\r\n",
                           "HTTP/1.1 101 Switching Protocols\r\n",
                           "HTTP/1.1  200 OK\r\n",
                           "HTTP/1.1 200 OK\n",
                           "HTTP/1.1 200 OK\r\n\n",
                           "HTTP/1.1 200 OK\r\nA: \x01\r\n",
                           "HTTP/1.1 200 OK\r\nA : b\r\n",
                           "HTTP/1.1 200 OK\r\n: b\r\n",
                           "HTTP/1.1 200 OK\r\nno colon\r\n",
                           "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n"}) {
    const Outcome outcome = Parse(text);
    EXPECT_EQ(outcome.state, State::kBad) << text;
    EXPECT_FALSE(outcome.reason.empty());
    EXPECT_FALSE(outcome.too_long);
  }
}

TEST(HttpResponse, RefusesLengthsThatAreNone) {
  for (const char* fields : {"Content-Length: -1\r\n",
                             "Content-Length: +1\r\n",
                             "Content-Length: 0x1\r\n",
                             "Content-Length: 1, 1\r\n",
                             "Content-Length:\r\n",
                             "Content-Length: 1\r\nContent-Length: 1\r\n",
                             "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                             "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
                             "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                             "Transfer-Encoding: gzip, chunked\r\n",
                             "Transfer-Encoding: identity\r\n"}) {
    const Outcome outcome = Parse(std::string("HTTP/1.1 200 OK\r\n") + fields);
    EXPECT_EQ(outcome.state, State::kBad) << fields;
    EXPECT_FALSE(outcome.too_long) << fields;
  }
  EXPECT_EQ(Parse("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n").state, State::kBad);
}

TEST(HttpResponse, RefusesBadChunks) {
  const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char* chunks : {"\r\n",
                             "g\r\n",
                             "-1\r\n",
                             "0x1\r\n",
                             "1 1\r\n",
                             ";a\r\n",
                             "1\n",
                             "1\r\nxx",
                             "1\r\nx\rx",
                             "1\r\nx\n"}) {
    const Outcome outcome = Parse(head + chunks);
    EXPECT_EQ(outcome.state, State::kBad) << chunks;
    EXPECT_FALSE(outcome.too_long) << chunks;
  }
}

TEST(HttpResponse, RefusesABodyBeyondTheLimitInEveryForm) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  const std::string full(kBodyMax, 'x');
  const std::string chunked = ok + "Transfer-Encoding: chunked\r\n\r\n";
  ExpectAnswer(Parse(ok + "Content-Length: 1000\r\n\r\n" + full), 200, full, true);
  ExpectAnswer(Parse(ok + "\r\n" + full, true), 200, full, false);
  ExpectAnswer(Parse(chunked + "3e8\r\n" + full + "\r\n0\r\n\r\n"), 200, full, true);
  for (const std::string& text : {ok + "Content-Length: 1001\r\n",
                                  ok + "Content-Length: 18446744073709551617\r\n",
                                  ok + "\r\n" + full + "x",
                                  chunked + "3e8\r\n" + full + "\r\n1\r\n",
                                  chunked + "3e9\r\n",
                                  chunked + "FFFFFFFFFFFFFFFFF\r\n"}) {
    const Outcome outcome = Parse(text);
    EXPECT_EQ(outcome.state, State::kBad) << text;
    EXPECT_TRUE(outcome.too_long) << text;
    EXPECT_EQ(outcome.reason, "answer longer than 1000 bytes");
  }
}

TEST(HttpResponse, BoundsTheHeadAlsoOverInterimAnswers) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  const std::string filler(ResponseParser::kHeadBytesMax, 'a');
  EXPECT_EQ(Parse(filler).state, State::kMore);
  EXPECT_EQ(Parse(filler + "a").state, State::kBad);
  EXPECT_EQ(Parse(ok + "A: " + filler).state, State::kBad);
  std::string interim;
  while (interim.size() <= ResponseParser::kHeadBytesMax) {
    interim += "HTTP/1.1 100 Continue\r\n\r\n";
  }
  EXPECT_EQ(Parse(interim).state, State::kBad);
}

TEST(HttpResponse, BoundsExtensionsAndTrailersButNotTheNumberOfChunks) {
  const std::string chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string filler(ResponseParser::kHeadBytesMax, 'a');
  EXPECT_EQ(Parse(chunked + "1;" + filler).state, State::kBad);
  EXPECT_EQ(Parse(chunked + "0\r\nA: " + filler).state, State::kBad);
  std::string tiny = chunked;
  constexpr std::size_t kChunks = 100000;
  for (std::size_t i = 0; i < kChunks; ++i) {
    tiny += "1\r\nx\r\n";
  }
  ResponseParser parser;
  EXPECT_EQ(parser.Feed(tiny + "0\r\n\r\n"), State::kDone) << parser.reason();
  EXPECT_EQ(parser.TakeReply().body.size(), kChunks);
}

TEST(HttpResponse, AnEarlyEndIsNoAnswer) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  const std::string texts[] = {ok + "Content-Length: 5\r\n\r\nhello",
                               ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"};
  for (const std::string& text : texts) {
    for (std::size_t size = 0; size < text.size(); ++size) {
      EXPECT_EQ(Parse(text.substr(0, size), true).state, State::kBad) << size;
    }
    ExpectAnswer(Parse(text, true), 200, "hello", false);
  }
}

/// Streams as a server may send them, now and then damaged.
std::string RandomStream(std::mt19937& random) {
  std::string text;
  for (auto interim = random() % 3; interim > 0; --interim) {
    text += "HTTP/1.1 100 Continue\r\nA: b\r\n\r\n";
  }
  text += random() % 8 == 0 ? "HTTP/1.0 200 OK\r\n" : "HTTP/1.1 503 Not now\r\nServer: it\r\n";
  const std::string body(random() % (kBodyMax + 50), 'b');
  switch (random() % 3) {
    case 0:
      text += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
      break;
    case 1:
      text += "\r\n" + body;
      break;
    default:
      text += "Transfer-Encoding: chunked\r\n\r\n";
      for (std::size_t at = 0; at < body.size();) {
        const std::size_t size = std::min<std::size_t>(1 + random() % 15, body.size() - at);
        text +=
            std::string(1, "0123456789abcdef"[size]) + ";e\r\n" + body.substr(at, size) + "\r\n";
        at += size;
      }
      text += "0\r\nTrailer: t\r\n\r\n";
  }
  text += random() % 4 == 0 ? "more" : "";
  if (random() % 3 == 0) {
    text[random() % text.size()] = static_cast<char>(random() & 0xFFU);
  }
  return text;
}

class HttpResponseCuts : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(HttpResponseCuts, AnyCutGivesTheSameAnswer) {
  std::mt19937 random(GetParam());
  const std::string text = RandomStream(random);
  for (const bool end : {false, true}) {
    const Outcome whole = Parse(text, end);
    for (const std::size_t piece_max : {1U, 7U, 300U}) {
      ResponseParser parser(kBodyMax);
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t size = 1 + random() % piece_max;
        parser.Feed(std::string_view(text).substr(at, size));
        at += size;
      }
      if (end) {
        parser.FeedEnd();
      }
      EXPECT_EQ(OutcomeOf(parser), whole) << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, HttpResponseCuts, ::testing::Range(0U, 300U));

}  // namespace
}  // namespace understudy::transport::etcd
