#include "transport/nats/link.h"

#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include <asio/dispatch.hpp>
#include <asio/post.hpp>

namespace understudy::transport {

NatsLink::~NatsLink() {
  silent_ = true;
  natsConnection_Destroy(connection_);
  if (duplicate_ >= 0) {
    ::close(duplicate_);
  }
}

natsStatus NatsLink::Connect(natsOptions* options) {
  natsOptions_SetAllowReconnect(options, false);
  natsOptions_SetSendAsap(options, true);
  natsOptions_SetEventLoop(
      options,
      this,
      [](void** user, void* self, natsConnection*, natsSock socket) noexcept {
        Self(*user = self).duplicate_ = ::fcntl(socket, F_DUPFD_CLOEXEC, 3);
        return Self(self).duplicate_ < 0 ? NATS_IO_ERROR : NATS_OK;
      },
      [](void* user, bool add) noexcept { return add ? NATS_OK : Self(user).Lost(); },
      [](void* user, bool add) noexcept {
        auto& self = Self(user);
        if (!self.lost_ && !self.silent_) {
          asio::dispatch(self.loop_, [link = self.weak_from_this(), add] {
            if (auto alive = link.lock()) {
              alive->SetWrite(add);
            }
          });
        }
        return NATS_OK;
      },
      [](void* user) noexcept {
        auto& self = Self(user);
        self.Lost();
        if (self.silent_) {
          return NATS_OK;
        }
        asio::post(self.loop_, [weak = self.weak_from_this()] {
          if (auto link = weak.lock()) {
            link->closed_ = true;
            link->SayClosed();
          }
        });
        return NATS_OK;
      });
  const auto status = natsConnection_Connect(&connection_, options);
  if (status != NATS_OK && duplicate_ >= 0) {
    ::close(std::exchange(duplicate_, -1));
  }
  return status;
}

void NatsLink::Start() {
  started_ = true;
  asio::error_code ignored;
  poll_.assign(std::exchange(duplicate_, -1), ignored);
  ArmRead();
  SetWrite(true);
  asio::post(loop_, [weak = weak_from_this()] {  // closed between Connect and now
    if (auto link = weak.lock()) {
      link->SayClosed();
    }
  });
}

void NatsLink::SayClosed() {
  if (!started_ || !closed_) {
    return;
  }
  if (auto say = std::exchange(on_closed, nullptr)) {
    say();
  }
}

void NatsLink::Detach() {
  silent_ = true;
  on_readable = nullptr;
  on_closed = nullptr;
  lost_ = true;
  asio::error_code ignored;
  poll_.close(ignored);
}

natsStatus NatsLink::Lost() noexcept {
  lost_ = true;
  if (silent_) {
    return NATS_OK;
  }
  asio::post(loop_, [weak = weak_from_this()] {
    if (auto link = weak.lock()) {
      asio::error_code ignored;
      link->poll_.close(ignored);  // cancels both waits
    }
  });
  return NATS_OK;
}

void NatsLink::ArmRead() {
  if (!poll_.is_open()) {
    return;
  }
  poll_.async_wait(poll_.wait_read, [self = shared_from_this()](asio::error_code error) {
    if (!error && !self->lost_) {
      natsConnection_ProcessReadEvent(self->connection_);  // one read of at most the I/O buffer
      if (!self->on_readable || self->on_readable()) {
        self->ArmRead();
      }
    }
  });
}

void NatsLink::SetWrite(bool wanted) {
  want_write_ = wanted && !lost_;
  if (!want_write_ || !poll_.is_open() || std::exchange(write_armed_, true)) {
    return;
  }
  // The socket nearly always has room: the first try is made without asking, once for all that is
  // said in a turn.
  asio::post(loop_, [self = shared_from_this()] { self->Write(); });
}

void NatsLink::Write() {
  const auto owes = [this] {
    return !lost_ && want_write_ && natsConnection_Buffered(connection_) > 0;
  };
  if (owes()) {
    natsConnection_ProcessWriteEvent(connection_);  // calls SetWrite(false) when all is out
  }
  if (!owes() || !poll_.is_open()) {
    write_armed_ = false;
    return;
  }
  poll_.async_wait(poll_.wait_write, [self = shared_from_this()](asio::error_code error) {
    if (error) {
      self->write_armed_ = false;
    } else {
      self->Write();
    }
  });
}

}  // namespace understudy::transport
