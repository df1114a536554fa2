#include "transport/etcd/http_client.h"

#include "transport/loop/native.h"
#include "understudy/base/assert.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <asio/posix/stream_descriptor.hpp>
#include <curl/curl.h>

namespace understudy::transport::etcd {
namespace {

struct EasyCleanup {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
using Easy = std::unique_ptr<CURL, EasyCleanup>;

struct HeaderCleanup {
  void operator()(curl_slist* headers) const { curl_slist_free_all(headers); }
};
using Headers = std::unique_ptr<curl_slist, HeaderCleanup>;

void InitLibraryOnce() {
  static const CURLcode done = curl_global_init(CURL_GLOBAL_DEFAULT);
  UNDERSTUDY_ASSERT(done == CURLE_OK);
}

void Append(Headers& headers, const std::string& line) {
  curl_slist* longer = curl_slist_append(headers.get(), line.c_str());
  UNDERSTUDY_ASSERT(longer != nullptr);  // out of memory ends the process
  static_cast<void>(headers.release());
  headers.reset(longer);
}

/// One socket of libcurl's that it wants watched.
struct Watch {
  explicit Watch(asio::io_context& context) : socket(context) {}
  asio::posix::stream_descriptor socket;
  int wanted = 0;  ///< CURL_POLL_IN | CURL_POLL_OUT
  bool reading = false;
  bool writing = false;
};

/// One POST under way.
struct Transfer {
  HttpClient::Call call;
  HttpClient::Done done;
  Easy easy;
  Headers headers;
  std::string body;
  bool too_long = false;
  char error[CURL_ERROR_SIZE] = {};
};

std::size_t OnBody(char* data, std::size_t size, std::size_t count, void* user) noexcept {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::size_t bytes = size * count;
  if (bytes > HttpClient::kReplyBytesMax - transfer.body.size()) {
    transfer.too_long = true;
    return 0;  // libcurl ends the transfer with CURLE_WRITE_ERROR
  }
  transfer.body.append(data, bytes);
  return bytes;
}

Result<HttpReply> Outcome(Transfer& transfer, CURLcode code) {
  if (transfer.too_long) {
    return Fail(Errc::kMalformed,
                "answer longer than " + std::to_string(HttpClient::kReplyBytesMax) + " bytes");
  }
  if (code != CURLE_OK) {
    return Fail(code == CURLE_OPERATION_TIMEDOUT ? Errc::kTimeout : Errc::kUnavailable,
                transfer.error[0] != '\0' ? transfer.error : curl_easy_strerror(code));
  }
  long status = 0;
  curl_easy_getinfo(transfer.easy.get(), CURLINFO_RESPONSE_CODE, &status);
  return HttpReply{static_cast<int>(status), std::move(transfer.body)};
}

void Configure(Transfer& transfer) {
  CURL* easy = transfer.easy.get();
  Append(transfer.headers, "Content-Type: application/json");
  Append(transfer.headers, "Expect:");  // no 100-continue round trip before a long body
  if (!transfer.call.authorization.empty()) {
    Append(transfer.headers, "Authorization: " + transfer.call.authorization);
  }
  const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(transfer.call.timeout);
  const long timeout_ms = std::max(1L, static_cast<long>(timeout.count()));
  curl_easy_setopt(easy, CURLOPT_URL, transfer.call.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");  // the store is never behind http_proxy
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);  // never join a resolver thread on the loop
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(
      easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(transfer.call.body.size()));
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, transfer.call.body.data());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer.headers.get());
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout_ms);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer.error);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
}

}  // namespace

struct HttpClient::Core : std::enable_shared_from_this<HttpClient::Core> {
  explicit Core(Loop& owner) : loop(owner), timer(owner.NewTimer()) {}

  // libcurl's callbacks: they note what it wants and call nothing of it.
  static int OnSocket(CURL*, curl_socket_t fd, int what, void* user, void*) noexcept {
    static_cast<Core*>(user)->WatchSocket(fd, what);
    return 0;
  }
  static int OnTimer(CURLM*, long timeout_ms, void* user) noexcept {
    static_cast<Core*>(user)->ArmTimer(timeout_ms);
    return 0;
  }

  void Open() {
    multi = curl_multi_init();
    UNDERSTUDY_ASSERT(multi != nullptr);
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, &Core::OnSocket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, &Core::OnTimer);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, this);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, kConnectionsKept);
  }

  void Close() {
    closed = true;
    timer.reset();
    for (auto& [easy, transfer] : transfers) {
      curl_multi_remove_handle(multi, easy);
    }
    transfers.clear();
    idle.clear();
    curl_multi_cleanup(multi);  // closes the connections; reports their sockets as removed
    multi = nullptr;
    while (!watches.empty()) {
      Forget(watches.begin()->first);
    }
  }

  void Post(Call call, Done done) {
    if (transfers.size() >= kCallsMax) {
      loop.Post([weak = weak_from_this(), done = std::move(done)] {
        if (!weak.expired()) {
          done(Fail(Errc::kOverloaded, "too many calls under way"));
        }
      });
      return;
    }
    auto transfer = std::make_unique<Transfer>();
    transfer->call = std::move(call);
    transfer->done = std::move(done);
    if (idle.empty()) {
      transfer->easy.reset(curl_easy_init());
    } else {
      transfer->easy = std::move(idle.back());
      idle.pop_back();
    }
    CURL* easy = transfer->easy.get();
    UNDERSTUDY_ASSERT(easy != nullptr);
    Configure(*transfer);
    transfers.emplace(easy, std::move(transfer));
    curl_multi_add_handle(multi, easy);  // arms the timer, so the work begins on a later turn
  }

  void ArmTimer(long timeout_ms) {
    if (closed) {
      return;
    }
    if (timeout_ms < 0) {
      timer->Cancel();
      return;
    }
    timer->After(std::chrono::milliseconds(timeout_ms), [this] { Act(CURL_SOCKET_TIMEOUT, 0); });
  }

  void WatchSocket(curl_socket_t fd, int what) {
    if (what == CURL_POLL_REMOVE) {
      Forget(fd);
      return;
    }
    auto& watch = watches[fd];
    if (watch == nullptr) {
      watch = std::make_shared<Watch>(NativeContext(loop));
      asio::error_code error;
      watch->socket.assign(fd, error);
      UNDERSTUDY_ASSERT(!error);
    }
    watch->wanted = what;
    Arm(fd, watch);
  }

  void Forget(curl_socket_t fd) {
    const auto found = watches.find(fd);
    if (found == watches.end()) {
      return;
    }
    found->second->wanted = 0;
    found->second->socket.release();  // the descriptor is libcurl's to close
    watches.erase(found);
  }

  void Arm(curl_socket_t fd, const std::shared_ptr<Watch>& watch) {
    using Descriptor = asio::posix::stream_descriptor;
    if ((watch->wanted & CURL_POLL_IN) != 0 && !watch->reading) {
      watch->reading = true;
      watch->socket.async_wait(Descriptor::wait_read,
                               [self = shared_from_this(), fd, watch](asio::error_code error) {
                                 watch->reading = false;
                                 self->Ready(fd, watch, CURL_POLL_IN, CURL_CSELECT_IN, error);
                               });
    }
    if ((watch->wanted & CURL_POLL_OUT) != 0 && !watch->writing) {
      watch->writing = true;
      watch->socket.async_wait(Descriptor::wait_write,
                               [self = shared_from_this(), fd, watch](asio::error_code error) {
                                 watch->writing = false;
                                 self->Ready(fd, watch, CURL_POLL_OUT, CURL_CSELECT_OUT, error);
                               });
    }
  }

  void Ready(curl_socket_t fd,
             const std::shared_ptr<Watch>& watch,
             int direction,
             int event,
             asio::error_code error) {
    if (error || (watch->wanted & direction) == 0) {
      return;  // forgotten, or the wish was withdrawn while the wait was pending
    }
    Act(fd, event);
    if (!closed && watch->wanted != 0) {
      Arm(fd, watch);
    }
  }

  void Act(curl_socket_t fd, int event) {
    const auto self = shared_from_this();  // a `done` may destroy the client
    int running = 0;
    curl_multi_socket_action(multi, fd, event, &running);
    std::vector<std::pair<Done, Result<HttpReply>>> finished;
    int queued = 0;
    while (CURLMsg* message = curl_multi_info_read(multi, &queued)) {
      if (message->msg == CURLMSG_DONE) {
        finished.push_back(Finish(message->easy_handle, message->data.result));
      }
    }
    for (auto& [done, result] : finished) {
      if (closed) {
        return;
      }
      done(std::move(result));
    }
  }

  std::pair<Done, Result<HttpReply>> Finish(CURL* easy, CURLcode code) {
    auto node = transfers.extract(easy);
    UNDERSTUDY_ASSERT(!node.empty());
    Transfer& transfer = *node.mapped();
    auto result = Outcome(transfer, code);
    curl_multi_remove_handle(multi, easy);
    if (idle.size() < kIdleHandlesMax) {
      curl_easy_reset(easy);
      idle.push_back(std::move(transfer.easy));
    }
    return {std::move(transfer.done), std::move(result)};
  }

  Loop& loop;
  std::unique_ptr<Timer> timer;
  CURLM* multi = nullptr;
  bool closed = false;
  std::map<CURL*, std::unique_ptr<Transfer>> transfers;
  std::map<curl_socket_t, std::shared_ptr<Watch>> watches;
  std::vector<Easy> idle;
};

HttpClient::HttpClient(Loop& loop) {
  InitLibraryOnce();
  core_ = std::make_shared<Core>(loop);
  core_->Open();
}

HttpClient::~HttpClient() {
  core_->Close();
}

void HttpClient::Post(Call call, Done done) {
  UNDERSTUDY_ASSERT(core_->loop.OnThread());
  core_->Post(std::move(call), std::move(done));
}

}  // namespace understudy::transport::etcd
