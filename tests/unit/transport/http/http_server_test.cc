// The status HTTP server on real sockets.
#include "tests/fakes/loop_thread.h"
#include "transport/http/server.h"

#include <arpa/inet.h>
#include <atomic>
#include <cstring>
#include <memory>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

using fakes::LoopThread;

constexpr int kReadLimitMs = 20000;

/// A blocking client socket.
class Client {
 public:
  explicit Client(const std::string& address) {
    const auto colon = address.rfind(':');
    const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1)));
    if (address.front() == '[') {
      sockaddr_in6 peer{};
      peer.sin6_family = AF_INET6;
      peer.sin6_addr = in6addr_loopback;
      peer.sin6_port = htons(port);
      fd_ = ::socket(AF_INET6, SOCK_STREAM, 0);
      connected_ = Connect(peer);
    } else {
      sockaddr_in peer{};
      peer.sin_family = AF_INET;
      peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      peer.sin_port = htons(port);
      fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
      connected_ = Connect(peer);
    }
  }
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  bool Send(const std::string& text) const {
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t size = ::send(fd_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (size <= 0) {
        return false;
      }
      done += static_cast<std::size_t>(size);
    }
    return true;
  }
  /// Reads until `end` was seen; an empty `end` reads until the server closes.
  std::string Read(const std::string& end = {}) {
    std::string text;
    char bytes[4096];
    pollfd readable{fd_, POLLIN, 0};
    while (end.empty() || text.find(end) == std::string::npos) {
      if (::poll(&readable, 1, kReadLimitMs) != 1) {
        return text + "(nothing more came)";
      }
      const ssize_t size = ::recv(fd_, bytes, sizeof(bytes), 0);
      if (size <= 0) {
        return text + (size == 0 ? "(closed)" : "(reset)");
      }
      text.append(bytes, static_cast<std::size_t>(size));
    }
    return text;
  }
  std::string Ask(const std::string& request) {
    Send(request);
    return Read();
  }

 private:
  template <class Address>
  bool Connect(const Address& peer) {
    sockaddr_storage storage{};
    std::memcpy(&storage, &peer, sizeof(peer));
    return ::connect(fd_, static_cast<sockaddr*>(static_cast<void*>(&storage)), sizeof(peer)) == 0;
  }

  int fd_ = -1;
  bool connected_ = false;
};

HttpResponse Echo(const HttpRequest& request) {
  HttpResponse response;
  if (request.path == "/missing") {
    response.status = 404;
  }
  response.body = request.method + " " + request.path + " " + request.query + " " + request.body;
  return response;
}

class HttpServerTest : public ::testing::Test {
 protected:
  void Serve(const std::string& host, http::Limits limits = {}) {
    thread_.Do([&] {
      auto server = http::Serve(thread_.loop(), host, 0, Echo, limits);
      ASSERT_TRUE(server) << server.error().message;
      server_ = std::move(*server);
    });
    ASSERT_NE(server_, nullptr);
    address_ = server_->address();
  }
  void TearDown() override {
    thread_.Do([this] { server_.reset(); });
  }

  LoopThread thread_;
  std::unique_ptr<HttpServer> server_;
  std::string address_;
};

TEST_F(HttpServerTest, AnswersAndCloses) {
  Serve("127.0.0.1");
  EXPECT_EQ(Client(address_).Ask("GET /a%20b?q HTTP/1.1\r\nConnection: close\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 11\r\n"
            "Connection: close\r\n\r\nGET /a b q (closed)");
}

TEST_F(HttpServerTest, ServesManyRequestsOnOneConnectionInOrder) {
  Serve("127.0.0.1");
  Client client(address_);
  for (int i = 0; i < 3; ++i) {
    client.Send("GET /one HTTP/1.1\r\n\r\n");
    EXPECT_NE(client.Read("GET /one").find("Connection: keep-alive"), std::string::npos);
  }
  std::string pipelined;
  for (int i = 0; i < 50; ++i) {
    pipelined += "POST /" + std::to_string(i) + " HTTP/1.1\r\nContent-Length: 1\r\n\r\nx";
  }
  client.Send(pipelined +
              "GET /end HTTP/1.1\r\nConnection: close\r\n\r\nGET /never HTTP/1.1\r\n\r\n");
  const std::string text = client.Read();
  std::size_t at = 0;
  for (int i = 0; i < 50; ++i) {
    at = text.find("POST /" + std::to_string(i) + "  x", at);
    ASSERT_NE(at, std::string::npos) << i;
  }
  EXPECT_NE(text.find("GET /end", at), std::string::npos);
  EXPECT_EQ(text.find("GET /never"), std::string::npos);
}

TEST_F(HttpServerTest, HeadIsAGetWithoutTheBody) {
  Serve("127.0.0.1");
  const std::string text = Client(address_).Ask("HEAD /a HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_NE(text.find("Content-Length: 8\r\n"), std::string::npos) << text;  // "GET /a  "
  EXPECT_EQ(text.find("GET"), std::string::npos) << text;
}

TEST_F(HttpServerTest, TheHandlersStatusIsSent) {
  Serve("127.0.0.1");
  const std::string text = Client(address_).Ask("GET /missing HTTP/1.0\r\n\r\n");
  EXPECT_EQ(text.rfind("HTTP/1.1 404 Not Found\r\n", 0), 0U) << text;
}

TEST_F(HttpServerTest, RefusalsArriveAlthoughTheClientIsStillSending) {
  Serve("127.0.0.1");
  const std::string filler(2U << 20, 'x');
  EXPECT_EQ(
      Client(address_).Ask("nonsense\r\n\r\n" + filler).rfind("HTTP/1.1 400 Bad Request\r\n", 0),
      0U);
  EXPECT_EQ(Client(address_)
                .Ask("POST / HTTP/1.1\r\nContent-Length: 2097152\r\n\r\n" + filler)
                .rfind("HTTP/1.1 413 Content Too Large\r\n", 0),
            0U);
  EXPECT_EQ(Client(address_)
                .Ask("GET / HTTP/1.1\r\nA: " + filler)
                .rfind("HTTP/1.1 431 Request Header Fields Too Large\r\n", 0),
            0U);
}

TEST_F(HttpServerTest, SaysContinueToAClientThatWaitsForIt) {
  Serve("127.0.0.1");
  Client client(address_);
  client.Send(
      "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.Read("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("ok");
  EXPECT_NE(client.Read().find("POST /  ok"), std::string::npos);
}

TEST_F(HttpServerTest, ASlowClientIsClosedAtTheLimitAlthoughItKeepsSending) {
  http::Limits limits;
  limits.idle = std::chrono::milliseconds(100);
  Serve("127.0.0.1", limits);
  Client client(address_);
  ASSERT_TRUE(client.Send("GET / HTTP/1.1\r\nA: "));
  // One byte every 5 ms: were the limit counted per byte, this would go on until the head is too
  // long (80 s).
  int sent = 0;
  while (sent < 4000 && client.Send("x")) {
    ++sent;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_LT(sent, 4000);
}

TEST_F(HttpServerTest, AClientThatDoesNotReadIsClosedAndOthersAreServed) {
  http::Limits limits;
  limits.idle = std::chrono::milliseconds(200);
  Serve("127.0.0.1", limits);
  Client lazy(address_);
  const std::string request =
      "POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + std::string(1000000, 'x');
  bool open = true;
  for (int i = 0; i < 100 && open; ++i) {
    EXPECT_NE(Client(address_).Ask("GET /live HTTP/1.0\r\n\r\n").find("200 OK"), std::string::npos);
    open = lazy.Send(request);
  }
  EXPECT_FALSE(open) << "100 MB were taken without one answer being read";
}

TEST_F(HttpServerTest, AtTheLimitTheOldestIdleConnectionMakesRoom) {
  http::Limits limits;
  limits.connections_max = 3;
  Serve("127.0.0.1", limits);
  Client first(address_);
  first.Send("GET /1 HTTP/1.1\r\n\r\n");
  first.Read("GET /1");
  Client second(address_);
  second.Send("GET /2 HTTP/1.1\r\n\r\n");
  second.Read("GET /2");
  Client third(address_);
  third.Send("GET /3 HTTP/1.1\r\n\r\n");
  third.Read("GET /3");
  Client probe(address_);
  EXPECT_NE(probe.Ask("GET /live HTTP/1.0\r\n\r\n").find("200 OK"), std::string::npos);
  EXPECT_NE(first.Read().find("(closed)"), std::string::npos);
  second.Send("GET /2 HTTP/1.0\r\n\r\n");
  EXPECT_NE(second.Read().find("GET /2"), std::string::npos);
}

TEST_F(HttpServerTest, WhenNobodyIsIdleANewConnectionIsToldSo) {
  http::Limits limits;
  limits.connections_max = 1;
  Serve("127.0.0.1", limits);
  Client busy(address_);
  busy.Send("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  ASSERT_EQ(busy.Read("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");  // so its head has been read
  const std::string text = Client(address_).Ask("GET / HTTP/1.0\r\n\r\n");
  EXPECT_NE(text.find("HTTP/1.1 503 Service Unavailable"), std::string::npos) << text;
}

TEST_F(HttpServerTest, ListensOnIpv6AndOnAllAddresses) {
  Serve("::1");
  EXPECT_EQ(address_.rfind("[::1]:", 0), 0U) << address_;
  EXPECT_NE(Client(address_).Ask("GET /6 HTTP/1.0\r\n\r\n").find("GET /6"), std::string::npos);
  Serve("0.0.0.0");
  EXPECT_EQ(address_.rfind("0.0.0.0:", 0), 0U) << address_;
  EXPECT_NE(Client(address_).Ask("GET /4 HTTP/1.0\r\n\r\n").find("GET /4"), std::string::npos);
  Serve("[::]");
  const std::string port = address_.substr(address_.rfind(':'));
  EXPECT_NE(Client("127.0.0.1" + port).Ask("GET /4 HTTP/1.0\r\n\r\n").find("GET /4"),
            std::string::npos);
  EXPECT_NE(Client("[::1]" + port).Ask("GET /6 HTTP/1.0\r\n\r\n").find("GET /6"),
            std::string::npos);
  Serve("localhost");
  EXPECT_NE(Client(address_).Ask("GET /l HTTP/1.0\r\n\r\n").find("GET /l"), std::string::npos);
}

TEST_F(HttpServerTest, ATakenPortIsOneClearError) {
  Serve("127.0.0.1");
  const auto port = static_cast<std::uint16_t>(std::stoi(address_.substr(address_.rfind(':') + 1)));
  thread_.Do([&] {
    const auto second = ServeHttp(thread_.loop(), "127.0.0.1", port, Echo);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Errc::kUnavailable);
    EXPECT_EQ(second.error().message,
              "status server cannot listen on " + address_ + ": Address already in use");
    const auto nowhere = ServeHttp(thread_.loop(), "192.0.2.1", 0, Echo);
    ASSERT_FALSE(nowhere);
    EXPECT_NE(nowhere.error().message.find("192.0.2.1:0: Cannot assign requested address"),
              std::string::npos);
  });
}

// reports.md U26: eight scrapers while the series change.
TEST_F(HttpServerTest, EightScrapersAtOnceAreAllServed) {
  Serve("127.0.0.1");
  std::atomic<int> served{0};
  std::vector<std::thread> scrapers;
  for (int i = 0; i < 8; ++i) {
    scrapers.emplace_back([&] {
      Client client(address_);
      for (int k = 0; k < 100; ++k) {
        client.Send("GET /metrics HTTP/1.1\r\n\r\n");
        served += client.Read("GET /metrics").find("200 OK") != std::string::npos ? 1 : 0;
      }
    });
  }
  for (std::thread& scraper : scrapers) {
    scraper.join();
  }
  EXPECT_EQ(served, 800);
}

TEST_F(HttpServerTest, MayBeDestroyedWithRequestsUnderWay) {
  for (int i = 0; i < 20; ++i) {
    Serve("127.0.0.1");
    Client half(address_);
    half.Send("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n123");
    Client whole(address_);
    whole.Send("GET /a HTTP/1.1\r\n\r\n");
    thread_.Do([this] { server_.reset(); });
  }
}

}  // namespace
}  // namespace understudy::transport
