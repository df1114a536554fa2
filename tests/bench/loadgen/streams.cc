// The dialled-back response streams.
#include "tests/bench/loadgen/driver.h"
#include "tests/bench/loadgen/encode.h"

#include <cerrno>
#include <sys/socket.h>

namespace understudy::loadgen {
namespace {

constexpr std::size_t kReadBytes = 262144;
constexpr std::uint64_t kHeaderBytesMax = 1 << 24;
constexpr std::uint64_t kBodyBytesMax = 1 << 28;
constexpr std::size_t kHeadBytes = 24;
constexpr std::size_t kSubjectChars = 36;

}  // namespace

/// Counts the stream's end; the connection is done with it.
void Driver::Finish(Connection* connection, bool complete) {
  Stream* stream = connection->stream;
  connection->stream = nullptr;
  const std::uint64_t now = MonotonicNs();
  if (stream->measured) {
    if (stream->cancel_ns > 0) {
      ++stats_.cancelled;
      stats_.cancel.Add(static_cast<double>(now - stream->cancel_ns) / 1e3);
    } else if (!complete) {
      ++stats_.errors;
    } else {
      ++stats_.done;
      stats_.latency.Add(static_cast<double>(stream->last_ns - stream->sent_ns) / 1e3);
    }
    stats_.ended_ns = now;
  }
  ++finished_;
  --in_flight_;
  streams_.erase(std::string(stream->subject));
  if (options_.rate <= 0 && launched_ < to_launch_) {
    Launch();
  }
}

void Driver::OnHandshake(Connection* connection, std::string_view header) {
  connection->handshaken = true;
  constexpr std::string_view kKey = R"("subject":")";
  const std::size_t key = header.find(kKey);
  const auto found =
      key == std::string_view::npos
          ? streams_.end()
          : streams_.find(std::string(header.substr(key + kKey.size(), kSubjectChars)));
  if (found == streams_.end()) {
    std::fprintf(stderr, "loadgen: a stream that nobody asked for\n");
    Bury(connection);
    return;
  }
  connection->stream = found->second.get();
}

void Driver::OnPrologue(Connection* connection, std::string_view header) {
  connection->prologue = true;
  if (header.find(R"("error":null)") == std::string_view::npos) {
    std::fprintf(
        stderr, "loadgen: error prologue: %.*s\n", static_cast<int>(header.size()), header.data());
    Finish(connection, false);
    Bury(connection);
  }
}

/// The worker is done and waits for us to close.
void Driver::OnSentinel(Connection* connection) {
  const Stream& stream = *connection->stream;
  const bool complete =
      stream.final && (stream.tokens == options_.output_tokens || stream.cancel_ns > 0);
  if (!complete && stream.measured) {
    std::fprintf(stderr,
                 "loadgen: stream ended with %llu tokens, final=%d\n",
                 static_cast<unsigned long long>(stream.tokens),
                 static_cast<int>(stream.final));
  }
  Finish(connection, complete);
  Bury(connection);
}

void Driver::OnTokens(Connection* connection, std::uint64_t count, std::uint64_t now_ns) {
  Stream& stream = *connection->stream;
  if (stream.measured) {
    stats_.tokens += count;
    ++stats_.frames;
    if (stream.first_ns == 0) {
      stats_.ttft.Add(static_cast<double>(now_ns - stream.sent_ns) / 1e3);
    } else {
      stats_.itl.Add(static_cast<double>(now_ns - stream.last_ns) / 1e3);
    }
    if (trace_ != nullptr) {
      std::fprintf(trace_,
                   "%llu,%llu,%.3f\n",
                   static_cast<unsigned long long>(stream.index),
                   static_cast<unsigned long long>(stream.tokens),
                   static_cast<double>(now_ns - run_started_ns_) / 1e3);
    }
  }
  if (stream.first_ns == 0) {
    stream.first_ns = now_ns;
  }
  stream.last_ns = now_ns;
  stream.tokens += count;
  if (options_.cancel_after > 0 && stream.cancel_ns == 0 &&
      stream.tokens >= options_.cancel_after) {
    stream.cancel_ns = MonotonicNs();
    Queue(connection, TwoPart("\"" + options_.cancel + "\"", ""));
  }
}

void Driver::OnFrame(Connection* connection,
                     std::string_view header,
                     std::string_view body,
                     std::uint64_t now_ns) {
  if (options_.dump) {
    std::fprintf(stderr,
                 "frame h=%.*s b=%.*s\n",
                 static_cast<int>(header.size()),
                 header.data(),
                 static_cast<int>(body.size()),
                 body.data());
  }
  if (!connection->handshaken) {
    return OnHandshake(connection, header);
  }
  if (!connection->prologue) {
    return OnPrologue(connection, header);
  }
  if (!header.empty()) {
    return OnSentinel(connection);
  }
  if (IsFinal(options_.codec, body)) {
    connection->stream->final = true;
    return;
  }
  if (const std::uint64_t count = CountTokens(options_.codec, body); count > 0) {
    OnTokens(connection, count, now_ns);
  } else if (body.find("error") != std::string_view::npos &&
             body.find(R"("error":null)") == std::string_view::npos) {
    std::fprintf(stderr,
                 "loadgen: frame without tokens: %.*s\n",
                 static_cast<int>(std::min<std::size_t>(body.size(), 400)),
                 body.data());
  }
}

/// Handles the whole frames in `bytes`; returns how many bytes they took.
std::size_t Driver::TakeFrames(Connection* connection,
                               std::string_view bytes,
                               std::uint64_t now_ns) {
  std::size_t used = 0;
  while (bytes.size() - used >= kHeadBytes && !connection->dead) {
    const std::uint64_t header_bytes = GetBigEndian(bytes.data() + used, 8);
    const std::uint64_t body_bytes = GetBigEndian(bytes.data() + used + 8, 8);
    if (header_bytes > kHeaderBytesMax || body_bytes > kBodyBytesMax) {
      std::fprintf(stderr, "loadgen: bad frame\n");
      if (connection->stream != nullptr) {
        Finish(connection, false);
      }
      Bury(connection);
      break;
    }
    const std::size_t size = kHeadBytes + header_bytes + body_bytes;
    if (bytes.size() - used < size) {
      break;
    }
    OnFrame(connection,
            bytes.substr(used + kHeadBytes, header_bytes),
            bytes.substr(used + kHeadBytes + header_bytes, body_bytes),
            now_ns);
    used += size;
  }
  return used;
}

void Driver::OnResponse(Connection* connection) {
  static char buffer[kReadBytes];
  for (;;) {
    const ssize_t got = recv(connection->fd, buffer, sizeof buffer, 0);
    if (got < 0 && errno == EAGAIN) {
      return;
    }
    const std::uint64_t now = MonotonicNs();
    if (got <= 0) {  // closed without sentinel: normal only after a cancel
      if (connection->stream != nullptr) {
        Finish(connection, false);
      }
      Bury(connection);
      return;
    }
    const auto size = static_cast<std::size_t>(got);
    if (measuring_) {
      ++stats_.reads;
      stats_.bytes += size;
    }
    std::string_view bytes(buffer, size);
    if (!connection->in.empty()) {
      bytes = connection->in.append(buffer, size);
    }
    const std::size_t used = TakeFrames(connection, bytes, now);
    if (connection->dead) {
      return;
    }
    if (connection->in.empty()) {
      connection->in.assign(bytes.substr(used));
    } else {
      connection->in.erase(0, used);
    }
    if (size < sizeof buffer) {
      return;
    }
  }
}

}  // namespace understudy::loadgen
