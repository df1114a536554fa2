#include "worker/replay/interrupt.h"

namespace understudy::worker {
namespace {

volatile std::sig_atomic_t noted = 0;

extern "C" void NoteSignal(int number) {
  noted = number;
}

void Install(int number, struct sigaction* before) {
  struct sigaction action {};
  action.sa_handler = &NoteSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, before);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  noted = 0;
  Install(SIGINT, &interrupt_before_);
  Install(SIGTERM, &terminate_before_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &interrupt_before_, nullptr);
  sigaction(SIGTERM, &terminate_before_, nullptr);
}

int InterruptGuard::signal() const {
  return noted;
}

}  // namespace understudy::worker
