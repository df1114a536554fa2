// The other end of a response connection, for tests: blocking sockets on loopback with deadlines.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace understudy::transport {

/// One connection. Every wait ends after kLimit; what came by then is returned.
class Peer {
 public:
  static constexpr int kLimitMs = 30'000;

  explicit Peer(int fd) : fd_(fd) {}
  ~Peer() { Close(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// Dials host:port (IPv4) or [v6]:port; null when refused.
  static std::unique_ptr<Peer> Dial(const std::string& address);

  /// At least `bytes`, or less when the other end closed or the limit came.
  std::string Read(std::size_t bytes);
  enum class End { kFin, kReset, kNothing };
  /// Reads and drops bytes until the other end closes; kNothing = the limit came.
  End ReadToEnd(std::string* rest = nullptr);
  /// False when the other end is gone.
  bool Send(std::string_view bytes);
  void Close();      ///< FIN
  void Reset();      ///< RST
  void HalfClose();  ///< FIN, still reading
  /// Segments with data that this end received so far, as the kernel counts them.
  [[nodiscard]] std::uint32_t DataSegmentsIn() const;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

/// Listens on a port of its own. `receive_buffer` bytes = small socket buffers, so that a peer that
/// does not read is felt soon.
class PeerListener {
 public:
  explicit PeerListener(bool v6 = false, int receive_buffer = 0);
  ~PeerListener();
  PeerListener(const PeerListener&) = delete;
  PeerListener& operator=(const PeerListener&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// `127.0.0.1:<port>`, or `::1:<port>` without brackets.
  [[nodiscard]] std::string address() const;
  /// Null after Peer::kLimitMs.
  std::unique_ptr<Peer> Accept();

 private:
  int fd_;
  bool v6_;
  std::uint16_t port_ = 0;
};

/// Open descriptors of this process.
[[nodiscard]] std::size_t OpenDescriptors();
/// Resident memory of this process, bytes.
[[nodiscard]] std::size_t ResidentBytes();

}  // namespace understudy::transport
