// A real nats-server or etcd for integration tests: started on free ports, stopped by its pid, hurt
// on request.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/base/result.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace understudy::fakes {

/// The first of `count` consecutive TCP ports that are free at the time of the call, below those
/// that connections get by themselves: only who asks for one by its number can take it later, and
/// who binds it must be ready to try another one (ServerProcess does).
[[nodiscard]] Result<std::uint16_t> FreePorts(std::uint16_t count);
[[nodiscard]] Result<std::uint16_t> FreePort();

/// A new empty folder below the temporary folder, deleted with everything in it at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A server child in its own process group. It dies with the thread that started it (so a crashed
/// test leaves nothing behind): start it on the test's main thread. Members block; not for the
/// loop.
class ServerProcess {
 public:
  /// nats-server on 127.0.0.1; `extra` goes behind the arguments of our own (`--user`, `-c <file>`,
  /// `-DV`, ...). Ready = the INFO line arrives on a new connection.
  [[nodiscard]] static Result<std::unique_ptr<ServerProcess>> Nats(
      std::vector<std::string> extra = {});

  /// etcd on 127.0.0.1 with short election times, so that lease TTLs from 1 s work. `extra` as
  /// above
  /// (`--auth-token-ttl`, ...). Ready = GET /health says so.
  [[nodiscard]] static Result<std::unique_ptr<ServerProcess>> Etcd(
      std::vector<std::string> extra = {});

  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// `nats://127.0.0.1:<port>` or `http://127.0.0.1:<port>`.
  [[nodiscard]] std::string url() const;
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// What the server wrote to stdout and stderr, over all its starts.
  [[nodiscard]] std::string log() const;

  void Pause();     ///< SIGSTOP; returns when the kernel says it stopped
  void Resume();    ///< SIGCONT
  void Kill();      ///< SIGKILL and reap; the data folder stays
  void Stop();      ///< SIGTERM and reap, SIGKILL after kStopLimit; the data folder stays
  void WipeData();  ///< deletes the data folder's content; only while stopped
  /// Starts again on the same ports and data folder and waits until ready. Only after Kill or Stop.
  [[nodiscard]] Status Restart();

  static constexpr Nanoseconds kReadyLimit = std::chrono::seconds(20);
  static constexpr Nanoseconds kStopLimit = std::chrono::seconds(5);

 private:
  enum class Kind : std::uint8_t { kNats, kEtcd };
  ServerProcess(Kind kind, std::vector<std::string> extra);

  [[nodiscard]] static Result<std::unique_ptr<ServerProcess>> New(Kind kind,
                                                                  std::vector<std::string> extra);
  [[nodiscard]] std::vector<std::string> Command() const;
  [[nodiscard]] std::string DataPath() const;
  [[nodiscard]] Status Launch();
  [[nodiscard]] bool Ready() const;
  [[nodiscard]] bool Reap(Nanoseconds limit);

  Kind kind_;
  std::vector<std::string> extra_;
  TempDir dir_;
  std::uint16_t port_ = 0;
  std::uint16_t peer_port_ = 0;
  pid_t pid_ = -1;
};

}  // namespace understudy::fakes
