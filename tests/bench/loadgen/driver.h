// Plays the frontend for one worker: sends requests, takes the dialled-back streams, measures them.
// One thread, epoll.
#pragma once

#include "tests/bench/loadgen/options.h"
#include "tests/bench/loadgen/stats.h"

#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace understudy::loadgen {

/// One request in flight.
struct Stream {
  std::string subject;
  std::string id;
  std::uint64_t index = 0;
  std::uint64_t sent_ns = 0;
  std::uint64_t first_ns = 0;
  std::uint64_t last_ns = 0;
  std::uint64_t cancel_ns = 0;  ///< 0 = no cancel was sent
  std::uint64_t tokens = 0;
  bool final = false;
  bool measured = false;
};

struct Connection {
  enum class Kind { kListen, kResponse, kNats, kTcp };
  explicit Connection(Kind connection_kind) : kind(connection_kind) {}
  Kind kind;
  int fd = -1;
  std::string in;
  std::string out;
  Stream* stream = nullptr;  ///< response: known after the handshake
  bool handshaken = false;
  bool prologue = false;
  bool dead = false;
  std::deque<std::uint64_t> ack_sent_ns;  ///< TCP plane: send times in order of the acks to come
};

enum class RunEnd { kComplete, kTimeout };

class Driver {
 public:
  explicit Driver(const Options& options);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// Listens and connects. False, with a text on stderr, when that fails.
  [[nodiscard]] bool Open();
  /// Sends `requests` and waits for their streams. `measured`: count them in stats().
  [[nodiscard]] RunEnd Run(std::uint64_t requests, bool measured);
  [[nodiscard]] Stats& stats() { return stats_; }

 private:
  // driver.cc: sockets and the loop
  bool OpenListener();
  bool OpenRequestConnections();
  Connection* Adopt(std::unique_ptr<Connection> connection);
  void Watch(Connection* connection, bool writable, bool add);
  void Bury(Connection* connection);
  void Flush(Connection* connection);
  void Queue(Connection* connection, std::string_view bytes);
  void Dispatch(Connection* connection, std::uint32_t events);
  int LaunchDue();
  void Accept();

  // requests.cc: sending, acks
  void Launch();
  std::vector<std::uint32_t> MakePrompt(std::uint64_t index);
  void SendNats(Connection* connection, const Stream& stream, std::string_view envelope);
  void SendTcp(Connection* connection, const Stream& stream, std::string_view envelope);
  void OnNats(Connection* connection);
  bool OnNatsLine(Connection* connection,
                  std::string_view line,
                  std::size_t* next,
                  std::uint64_t now_ns);
  void OnTcpAcks(Connection* connection);
  bool Fill(Connection* connection);

  // streams.cc: responses
  void OnResponse(Connection* connection);
  std::size_t TakeFrames(Connection* connection, std::string_view bytes, std::uint64_t now_ns);
  void OnFrame(Connection* connection,
               std::string_view header,
               std::string_view body,
               std::uint64_t now_ns);
  void OnHandshake(Connection* connection, std::string_view header);
  void OnPrologue(Connection* connection, std::string_view header);
  void OnSentinel(Connection* connection);
  void OnTokens(Connection* connection, std::uint64_t count, std::uint64_t now_ns);
  void Finish(Connection* connection, bool complete);

  const Options& options_;
  Stats stats_;
  int epoll_ = -1;
  std::string listen_address_;
  std::string inbox_;
  Connection listener_{Connection::Kind::kListen};
  std::vector<Connection*> request_connections_;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> graveyard_;  ///< destroyed after the events at hand
  std::unordered_map<std::string, std::unique_ptr<Stream>> streams_;  ///< by response subject
  std::unordered_map<std::uint64_t, std::uint64_t> nats_sent_ns_;     ///< by request index
  std::FILE* trace_ = nullptr;
  std::uint64_t salt_ = 0;
  std::uint64_t run_started_ns_ = 0;
  std::uint64_t to_launch_ = 0;
  std::uint64_t launched_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t in_flight_ = 0;
  bool measuring_ = false;
  bool broken_ = false;  ///< a request connection was lost
};

}  // namespace understudy::loadgen
