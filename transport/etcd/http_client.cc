#include "transport/etcd/http_client.h"

#include "transport/etcd/http_connection.h"
#include "transport/etcd/http_request.h"
#include "transport/loop/native.h"
#include "understudy/base/assert.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <set>
#include <utility>

namespace understudy::transport::etcd {
namespace {

using ConnectionPtr = std::shared_ptr<HttpConnection>;

/// One POST under way.
struct Transfer {
  HttpUrl url;
  std::shared_ptr<const HttpConnection::Request> request;
  TimePoint deadline;
  HttpClient::Done done;
  ConnectionPtr connection;
  bool repeated = false;
};
using TransferPtr = std::shared_ptr<Transfer>;

struct Kept {
  std::string authority;
  ConnectionPtr connection;
  TimePoint since;
};

TimePoint Now() {
  return std::chrono::steady_clock::now();
}

Result<TransferPtr> MakeTransfer(HttpClient::Call call) {
  auto transfer = std::make_shared<Transfer>();
  UNDERSTUDY_TRY(transfer->url, ParseHttpUrl(call.url));
  UNDERSTUDY_TRY(auto head, PostHead(transfer->url, call.authorization, call.body.size()));
  transfer->request = std::make_shared<const HttpConnection::Request>(
      HttpConnection::Request{std::move(head), std::move(call.body)});
  transfer->deadline = Now() + call.timeout;
  return transfer;
}

}  // namespace

struct HttpClient::Core : std::enable_shared_from_this<HttpClient::Core> {
  explicit Core(Loop& owner) : loop(owner) {}

  void Close() {
    closed = true;
    for (const TransferPtr& transfer : transfers) {
      if (transfer->connection != nullptr) {
        transfer->connection->Close();
      }
    }
    transfers.clear();
    for (const Kept& each : kept) {
      each.connection->Close();
    }
    kept.clear();
  }

  void Post(Call call, Done done) {
    if (transfers.size() >= kCallsMax) {
      Refuse({Errc::kOverloaded, "too many calls under way"}, std::move(done));
      return;
    }
    auto made = MakeTransfer(std::move(call));
    if (!made) {
      Refuse(std::move(made).error(), std::move(done));
      return;
    }
    const TransferPtr transfer = std::move(*made);
    transfer->done = std::move(done);
    transfers.insert(transfer);
    Begin(transfer, TakeKept(transfer->url.authority));
  }

  void Refuse(Error error, Done done) {
    loop.Post(
        [weak = weak_from_this(), error = std::move(error), done = std::move(done)]() mutable {
          if (const auto self = weak.lock(); self != nullptr && !self->closed) {
            done(tl::make_unexpected(std::move(error)));
          }
        });
  }

  /// The connection used last, which is the one most likely still open; null = none.
  ConnectionPtr TakeKept(const std::string& authority) {
    const auto oldest = Now() - kConnectionIdleMax;
    for (std::size_t i = kept.size(); i-- > 0;) {
      if (kept[i].connection->idle() && kept[i].since >= oldest) {
        continue;
      }
      kept[i].connection->Close();
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
    }
    const auto found = std::find_if(
        kept.rbegin(), kept.rend(), [&](const Kept& each) { return each.authority == authority; });
    if (found == kept.rend()) {
      return nullptr;
    }
    auto connection = std::move(found->connection);
    kept.erase(std::next(found).base());
    return connection;
  }

  void Keep(const Transfer& transfer) {
    if (kept.size() >= kConnectionsKept) {
      kept.front().connection->Close();
      kept.pop_front();
    }
    kept.push_back({transfer.url.authority, transfer.connection, Now()});
  }

  void Begin(const TransferPtr& transfer, ConnectionPtr connection) {
    if (connection == nullptr) {
      connection = std::make_shared<HttpConnection>(NativeContext(loop));
    }
    transfer->connection = std::move(connection);
    transfer->connection->Exchange(transfer->url,
                                   transfer->request,
                                   transfer->deadline,
                                   [weak = weak_from_this(), transfer](auto result, bool stale) {
                                     if (const auto self = weak.lock()) {
                                       self->Finish(transfer, std::move(result), stale);
                                     }
                                   });
  }

  void Finish(const TransferPtr& transfer, Result<HttpReply> result, bool stale) {
    if (stale && !transfer->repeated) {
      transfer->repeated = true;
      Begin(transfer, nullptr);
      return;
    }
    transfers.erase(transfer);
    if (transfer->connection->idle()) {
      Keep(*transfer);
    }
    transfer->connection.reset();
    const auto done = std::move(transfer->done);
    done(std::move(result));  // may destroy the client
  }

  Loop& loop;
  bool closed = false;
  std::set<TransferPtr> transfers;  ///< at most kCallsMax
  std::deque<Kept> kept;            ///< at most kConnectionsKept, the oldest first
};

HttpClient::HttpClient(Loop& loop) : core_(std::make_shared<Core>(loop)) {}

HttpClient::~HttpClient() {
  core_->Close();
}

void HttpClient::Post(Call call, Done done) {
  UNDERSTUDY_ASSERT(core_->loop.OnThread());
  core_->Post(std::move(call), std::move(done));
}

}  // namespace understudy::transport::etcd
