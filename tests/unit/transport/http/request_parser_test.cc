#include "transport/http/request_parser.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::transport::http {
namespace {

using State = RequestParser::State;

/// What came out of a stream: one line a request, and at the end the state.
std::vector<std::string> Outcome(const std::vector<std::string>& pieces) {
  RequestParser parser;
  std::vector<std::string> lines;
  for (const std::string& piece : pieces) {
    parser.Feed(piece);
    for (;;) {
      const State state = parser.Next();
      if (state == State::kMore) {
        break;
      }
      if (state == State::kBad) {
        lines.push_back("bad " + std::to_string(parser.status()));
        return lines;
      }
      const HttpRequest& request = parser.request();
      lines.push_back(request.method + " " + request.path + " ?" + request.query + " " +
                      request.body + (parser.keep_alive() ? " stays" : " closes"));
    }
  }
  lines.push_back(parser.idle() ? "idle" : "waiting");
  return lines;
}

std::vector<std::string> Outcome(const std::string& stream) {
  return Outcome(std::vector<std::string>{stream});
}

using Lines = std::vector<std::string>;

TEST(RequestParser, ReadsPathQueryAndBody) {
  EXPECT_EQ(Outcome("GET /health HTTP/1.1\r\nHost: a\r\n\r\n"),
            (Lines{"GET /health ?  stays", "idle"}));
  EXPECT_EQ(Outcome("POST /a%20b/%2Fc?x=%20y HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"),
            (Lines{"POST /a b//c ?x=%20y abc stays", "idle"}));
  EXPECT_EQ(Outcome("GET http://host:1/p?q HTTP/1.1\r\n\r\n"), (Lines{"GET /p ?q  stays", "idle"}));
  EXPECT_EQ(Outcome("GET http://host HTTP/1.1\r\n\r\n"), (Lines{"GET / ?  stays", "idle"}));
  EXPECT_EQ(Outcome("OPTIONS * HTTP/1.1\r\n\r\n"), (Lines{"OPTIONS * ?  stays", "idle"}));
}

TEST(RequestParser, KnowsWhenTheConnectionStays) {
  EXPECT_EQ(Outcome("GET / HTTP/1.1\r\nConnection: foo, Close\r\n\r\n").front(), "GET / ?  closes");
  EXPECT_EQ(Outcome("GET / HTTP/1.0\r\n\r\n").front(), "GET / ?  closes");
  EXPECT_EQ(Outcome("GET / HTTP/1.0\r\nconnection: Keep-Alive\r\n\r\n").front(), "GET / ?  stays");
}

TEST(RequestParser, JoinsChunksAndSkipsTheirExtensionsAndTrailers) {
  EXPECT_EQ(
      Outcome("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
              "3;a=b\r\nabc\r\n0A\r\n0123456789\r\n0\r\nX: y\r\n\r\nGET /next HTTP/1.1\r\n\r\n"),
      (Lines{"POST / ? abc0123456789 stays", "GET /next ?  stays", "idle"}));
}

TEST(RequestParser, SaysThatARequestIsUnderWay) {
  EXPECT_EQ(Outcome(""), (Lines{"idle"}));
  EXPECT_EQ(Outcome("G"), (Lines{"waiting"}));
  EXPECT_EQ(Outcome("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n"), (Lines{"waiting"}));
}

TEST(RequestParser, TellsOnceThatTheClientWaitsForContinue) {
  RequestParser parser;
  parser.Feed("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
  EXPECT_EQ(parser.Next(), State::kMore);
  EXPECT_TRUE(parser.TakeExpectation());
  EXPECT_FALSE(parser.TakeExpectation());
  parser.Feed("x");
  EXPECT_EQ(parser.Next(), State::kRequest);
  EXPECT_FALSE(parser.TakeExpectation());
}

class BadRequest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(BadRequest, IsRefusedWithAStatus) {
  EXPECT_EQ(Outcome(GetParam().first), (Lines{GetParam().second}));
}

INSTANTIATE_TEST_SUITE_P(
    All,
    BadRequest,
    ::testing::Values(
        std::pair("GET\r\n\r\n", "bad 400"),
        std::pair("GET / HTTP/2.0\r\n\r\n", "bad 400"),
        std::pair("GET / HTTP/1.1 \r\n\r\n", "bad 400"),
        std::pair("GET  / HTTP/1.1\r\n\r\n", "bad 400"),
        std::pair("G\x01T / HTTP/1.1\r\n\r\n", "bad 400"),
        std::pair("GET relative HTTP/1.1\r\n\r\n", "bad 400"),
        std::pair("GET /%zz HTTP/1.1\r\n\r\n", "bad 400"),
        std::pair("GET /%4 HTTP/1.1\r\n\r\n", "bad 400"),
        std::pair("GET /%00 HTTP/1.1\r\n\r\n", "bad 400"),
        std::pair("GET / HTTP/1.1\nHost: a\n\n", "bad 400"),
        std::pair("GET / HTTP/1.1\r\nNo colon\r\n\r\n", "bad 400"),
        std::pair("GET / HTTP/1.1\r\nHost : a\r\n\r\n", "bad 400"),
        std::pair("GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", "bad 400"),
        std::pair("GET / HTTP/1.1\r\n: b\r\n\r\n", "bad 400"),
        std::pair("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "bad 400"),
        std::pair("POST / HTTP/1.1\r\nContent-Length: 1 2\r\n\r\n", "bad 400"),
        std::pair("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "bad 400"),
        std::pair("POST / HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n", "bad 413"),
        std::pair("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", "bad 413"),
        std::pair("POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", "bad 400"),
        std::pair("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
                  "bad 400"),
        std::pair("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "bad 400"),
        std::pair("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", "bad 400"),
        std::pair("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc", "bad 400"),
        std::pair("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n100001\r\n", "bad 413"),
        std::pair("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
                  "bad 413")));

TEST(RequestParser, AHeadAtTheLimitIsReadAndOneBeyondIsRefused) {
  const std::string start = "GET / HTTP/1.1\r\nA: ";
  const std::string end = "\r\n\r\n";
  const std::string fits(HttpServer::kHeaderBytesMax - start.size() - end.size(), 'x');
  EXPECT_EQ(Outcome(start + fits + end), (Lines{"GET / ?  stays", "idle"}));
  EXPECT_EQ(Outcome(start + fits + "x" + end), (Lines{"bad 431"}));
  EXPECT_EQ(Outcome(std::string(HttpServer::kHeaderBytesMax + 1, 'x')), (Lines{"bad 431"}));
}

TEST(RequestParser, ABodyAtTheLimitIsRead) {
  const std::string body(HttpServer::kBodyBytesMax, 'x');
  EXPECT_EQ(Outcome("POST / HTTP/1.1\r\nContent-Length: 1048576\r\n\r\n" + body),
            (Lines{"POST / ? " + body + " stays", "idle"}));
}

TEST(RequestParser, TheBytesAroundChunksAreBounded) {
  const std::string head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(Outcome(head + "1;" + std::string(HttpServer::kHeaderBytesMax, 'x')),
            (Lines{"bad 431"}));
  EXPECT_EQ(Outcome(head + "0\r\nA: " + std::string(HttpServer::kHeaderBytesMax, 'x') + "\r\n\r\n"),
            (Lines{"bad 431"}));
  std::string trailers;
  for (int i = 0; i < 5000; ++i) {
    trailers += "A: b\r\n";
  }
  EXPECT_EQ(Outcome(head + "0\r\n" + trailers + "\r\n"), (Lines{"bad 431"}));
}

std::string SampleStream(std::mt19937& random) {
  static const std::vector<std::string> kSamples = {
      "GET /health HTTP/1.1\r\nHost: a\r\n\r\n",
      "\r\n\r\nHEAD /live?x HTTP/1.1\r\n\r\n",
      "POST /b HTTP/1.1\r\nContent-Length: 10\r\n\r\n01234\r\n789",
      "POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab\r\nc\r\n3;x\r\ndef\r\n0\r\nT: "
      "u\r\n\r\n",
      "GET /d HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
      "GET /%7E HTTP/1.1\r\nA:\r\nB: \t c \r\n\r\n",
  };
  static const std::vector<std::string> kEnds = {"",
                                                 "GET /unfinished HTT",
                                                 "BAD\r\n\r\n",
                                                 "GET /\n",
                                                 "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n12"};
  std::string stream;
  for (std::size_t i = random() % 5; i > 0; --i) {
    stream += kSamples[random() % kSamples.size()];
  }
  return stream + kEnds[random() % kEnds.size()];
}

class RequestCuts : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(RequestCuts, AnyCutOfTheStreamGivesTheSameRequests) {
  std::mt19937 random(GetParam());
  const std::string stream = SampleStream(random);
  const std::size_t step = 1 + random() % 20;
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t size = 1 + random() % step;
    pieces.push_back(stream.substr(at, size));
    at += size;
  }
  EXPECT_EQ(Outcome(pieces), Outcome(stream)) << stream;
}

TEST_P(RequestCuts, NoisyBytesNeverDoMoreThanEndInARefusal) {
  std::mt19937 random(GetParam());
  std::string stream = SampleStream(random);
  for (int i = 0; i < 5 && !stream.empty(); ++i) {
    stream[random() % stream.size()] = static_cast<char>(random() & 0xFF);
  }
  const auto lines = Outcome(stream);
  EXPECT_FALSE(lines.empty());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RequestCuts, ::testing::Range(0U, 300U));

}  // namespace
}  // namespace understudy::transport::http
