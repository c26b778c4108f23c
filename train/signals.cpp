#include "train/signals.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>

#include "core/clock.h"
#include "core/error.h"

namespace trireme::train {

namespace {

constexpr std::array kStopping{SIGUSR1, SIGTERM, SIGINT, SIGHUP};
constexpr double kSameRequestSeconds = 1;

sigset_t stopping_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kStopping) {
    struct sigaction action {};
    core::check(sigaction(number, nullptr, &action) == 0, "sigaction");
    if (action.sa_handler != SIG_IGN) sigaddset(&set, number);
  }
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  for (const int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_IGN);
  const sigset_t set = stopping_set();
  core::check(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0, "pthread_sigmask");
  thread_ = std::thread([this] { wait(); });
}

StopSignals::~StopSignals() {
  ended_ = true;
  pthread_kill(thread_.native_handle(), SIGUSR1);
  thread_.join();
}

void StopSignals::wait() {
  sigset_t set = stopping_set();
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  double first = 0;
  while (true) {
    int number = 0;
    if (sigwait(&set, &number) != 0) continue;
    if (ended_) return;
    const int before = signal_.load();
    if (before == 0) {
      first = core::now();
      signal_ = number;
    } else if (core::now() - first > kSameRequestSeconds && !(before == SIGUSR1 && number == SIGTERM)) {
      _exit(static_cast<int>(core::ExitCode::interrupted));
    }
  }
}

std::string StopSignals::name() const {
  const int number = signal_.load();
  return number == 0 ? "" : fmt::format("SIG{}", sigabbrev_np(number));
}

}  // namespace trireme::train
