#pragma once

#include <atomic>
#include <string>
#include <thread>

namespace trireme::train {

/// Requests to stop. Made before any other thread: blocks SIGUSR1, SIGTERM, SIGINT and SIGHUP (those that are not
/// ignored) in this and all later threads, and waits for them in a thread of its own; no handler does any work. SIGPIPE
/// and SIGXFSZ are ignored. What comes within one second of the first signal, and SIGTERM after SIGUSR1, is the same
/// request; any other second signal leaves at once with code 130.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool requested() const { return signal_.load(std::memory_order_relaxed) != 0; }
  /// "SIGTERM", empty before a request.
  std::string name() const;

 private:
  void wait();
  std::atomic<int> signal_{0};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace trireme::train
