// Sending requests over NATS or the TCP plane, and their acknowledgements.
#include "tests/bench/loadgen/driver.h"
#include "tests/bench/loadgen/encode.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <sys/socket.h>

namespace understudy::loadgen {

/// The first `shared_tokens` ids are the same for everyone, the rest depend on the prompt's number.
std::vector<std::uint32_t> Driver::MakePrompt(std::uint64_t index) {
  const std::uint64_t phase = measuring_ ? 0 : 1ULL << 62;
  const std::uint64_t seed =
      options_.distinct > 0 ? index % options_.distinct : (salt_ << 32) ^ index ^ phase;
  std::minstd_rand common(7);
  std::minstd_rand own(static_cast<unsigned>(seed * 2654435761U + (seed >> 32)) | 1U);
  std::vector<std::uint32_t> ids(options_.prompt_tokens);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto draw = i < options_.shared_tokens ? common() : own();
    ids[i] = static_cast<std::uint32_t>(1000 + draw % 30000);
  }
  return ids;
}

void Driver::Launch() {
  auto owned = std::make_unique<Stream>();
  Stream& stream = *owned;
  stream.index = launched_++;
  stream.id = RandomUuid();
  stream.subject = RandomUuid();
  stream.measured = measuring_;
  const std::string body = EncodeBody(options_, MakePrompt(stream.index));
  const std::string envelope =
      TwoPart(EncodeControl(options_, listen_address_, stream.id, stream.subject), body);
  Connection* connection = request_connections_[stream.index % request_connections_.size()];
  stream.sent_ns = MonotonicNs();
  streams_.emplace(stream.subject, std::move(owned));
  ++in_flight_;
  stats_.in_flight_max = std::max(stats_.in_flight_max, in_flight_);
  if (options_.plane == Plane::kNats) {
    SendNats(connection, stream, envelope);
  } else {
    SendTcp(connection, stream, envelope);
  }
}

void Driver::SendNats(Connection* connection, const Stream& stream, std::string_view envelope) {
  const std::string headers = "NATS/1.0\r\nx-frontend-send-ts-ns: " + std::to_string(WallNs()) +
                              "\r\nrequest-id: " + stream.id + "\r\n\r\n";
  nats_sent_ns_[stream.index] = stream.sent_ns;
  std::string message = "HPUB " + options_.path + " " + inbox_ + "." +
                        std::to_string(stream.index) + " " + std::to_string(headers.size()) + " " +
                        std::to_string(headers.size() + envelope.size()) + "\r\n";
  message.append(headers).append(envelope).append("\r\n");
  Queue(connection, message);
}

void Driver::SendTcp(Connection* connection, const Stream& stream, std::string_view envelope) {
  const std::string headers = R"({"x-frontend-send-ts-ns":")" + std::to_string(WallNs()) +
                              R"(","request-id":")" + stream.id + R"("})";
  std::string message;
  PutBigEndian(message, options_.path.size(), 2);
  message += options_.path;
  PutBigEndian(message, headers.size(), 2);
  message += headers;
  PutBigEndian(message, envelope.size(), 4);
  message += envelope;
  connection->ack_sent_ns.push_back(stream.sent_ns);
  Queue(connection, message);
}

/// Reads all that is there. False when the peer closed: the run cannot go on.
bool Driver::Fill(Connection* connection) {
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t got = recv(connection->fd, buffer.data(), buffer.size(), 0);
    if (got > 0) {
      connection->in.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got < 0 && errno == EAGAIN) {
      return true;
    } else {
      std::fprintf(
          stderr, "loadgen: request connection closed by peer: %s\n", connection->in.c_str());
      broken_ = true;
      return false;
    }
  }
}

void Driver::OnNats(Connection* connection) {
  if (!Fill(connection)) {
    return;
  }
  const std::uint64_t now = MonotonicNs();
  const std::string& in = connection->in;
  std::size_t at = 0;
  for (std::size_t end = in.find("\r\n"); end != std::string::npos; end = in.find("\r\n", at)) {
    std::size_t next = end + 2;
    if (!OnNatsLine(connection, std::string_view(in).substr(at, end - at), &next, now)) {
      break;
    }
    at = next;
  }
  connection->in.erase(0, at);
}

/// `*next` is where the text after the line begins; moved behind a message's payload. False: the
/// payload is not all there.
bool Driver::OnNatsLine(Connection* connection,
                        std::string_view line,
                        std::size_t* next,
                        std::uint64_t now_ns) {
  if (line.substr(0, 4) == "PING") {
    Queue(connection, "PONG\r\n");
    return true;
  }
  if (line.substr(0, 4) == "-ERR") {
    std::fprintf(stderr, "loadgen: NATS: %.*s\n", static_cast<int>(line.size()), line.data());
    broken_ = true;
    return true;
  }
  const bool with_headers = line.substr(0, 5) == "HMSG ";
  if (!with_headers && line.substr(0, 4) != "MSG ") {
    return true;
  }
  const auto size =
      static_cast<std::size_t>(std::strtoul(line.data() + line.rfind(' ') + 1, nullptr, 10));
  if (connection->in.size() < *next + size + 2) {
    return false;
  }
  const std::string_view payload = std::string_view(connection->in).substr(*next, size);
  if (with_headers && payload.find(" 503") != std::string_view::npos) {
    std::fprintf(stderr, "loadgen: nobody listens on %s\n", options_.path.c_str());
    broken_ = true;
  } else if (size > 0 && !with_headers) {
    std::fprintf(stderr, "loadgen: worker refused: %.*s\n", static_cast<int>(size), payload.data());
  }
  const std::size_t subject_end = line.find(' ', with_headers ? 5 : 4);
  const std::size_t dot = line.rfind('.', subject_end);
  const auto sent = nats_sent_ns_.find(std::strtoul(line.data() + dot + 1, nullptr, 10));
  if (sent != nats_sent_ns_.end()) {
    if (measuring_) {
      ++stats_.acks;
      stats_.ack.Add(static_cast<double>(now_ns - sent->second) / 1e3);
    }
    nats_sent_ns_.erase(sent);
  }
  *next += size + 2;
  return true;
}

void Driver::OnTcpAcks(Connection* connection) {
  if (!Fill(connection)) {
    return;
  }
  const std::uint64_t now = MonotonicNs();
  const std::string& in = connection->in;
  std::size_t at = 0;
  while (in.size() - at >= 4) {
    const auto size = static_cast<std::size_t>(GetBigEndian(in.data() + at, 4));
    if (in.size() - at < 4 + size) {
      break;
    }
    if (size > 0) {
      std::fprintf(stderr, "loadgen: worker refused: %s\n", in.substr(at + 4, size).c_str());
    }
    if (!connection->ack_sent_ns.empty()) {
      if (measuring_) {
        ++stats_.acks;
        stats_.ack.Add(static_cast<double>(now - connection->ack_sent_ns.front()) / 1e3);
      }
      connection->ack_sent_ns.pop_front();
    }
    at += 4 + size;
  }
  connection->in.erase(0, at);
}

}  // namespace understudy::loadgen
