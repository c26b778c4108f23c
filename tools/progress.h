#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "train/signals.h"

namespace trireme::tools {

/// Progress of long work on stderr: a bar with rate and time left on a terminal, else a line every ten seconds. Made
/// before other threads: Ctrl-C and other signals to stop are honoured at the next `show`, for work that leaves nothing
/// behind until it is whole.
class Progress {
 public:
  /// `unit` names what is counted; `unit` "B" is written as kB, MB, GB.
  explicit Progress(std::string unit);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// A new `stage` starts the clock anew. Throws Error(stopped) once a signal asked to stop.
  void show(std::string_view stage, std::uint64_t done, std::uint64_t total);

 private:
  train::StopSignals signals_;
  void clear_line();
  std::string unit_;
  std::string stage_;
  bool terminal_;
  bool line_open_ = false;
  double stage_start_ = 0;
  double last_ = 0;
};

}  // namespace trireme::tools
