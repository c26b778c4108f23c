#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace trireme::core {

/// Exit codes of every command (README, "Exit codes"). 0 never follows a failure.
enum class ExitCode {
  ok = 0,
  usage = 64,          ///< usage, configuration, impossible layout, checkpoint of another model
  bad_data = 65,       ///< corpus, tokenizer, Hugging Face directory, repeated non-finite numbers
  no_checkpoint = 66,  ///< no valid checkpoint where one is required
  internal = 70,       ///< an exception or failed check that fits no other code
  machine = 71,        ///< memory, device, a limit too low, a library missing
  run_directory = 73,  ///< not writable, or owned by another job
  storage = 74,        ///< saves failed
  stopped = 75,        ///< stopped as asked, nothing lost
  lost_peer = 76,      ///< hang, deadline, communication error
  hardware = 77,       ///< suspected bad hardware
  interrupted = 130,   ///< left at once on a signal
};

/// The one error type. Travels to main, which prints `trireme: error: MESSAGE` and exits with `code()`.
/// A message names file, key or operand, the value found, and what is accepted.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

template <class... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}

/// Throws Error(code) unless `condition`. For input from outside: say what is accepted.
template <class... Args>
void require(bool condition, ExitCode code, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}

/// Internal contract (shapes, states); a failure is a bug: exit 70.
template <class... Args>
void check(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) throw Error(ExitCode::internal, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace trireme::core
