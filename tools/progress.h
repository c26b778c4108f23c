#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::tools {

/// Progress of long work on stderr: a bar with rate and time left on a terminal, else a line every ten seconds.
class Progress {
 public:
  /// `unit` names what is counted; `unit` "B" is written as kB, MB, GB.
  explicit Progress(std::string unit);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// A new `stage` starts the clock anew.
  void show(std::string_view stage, std::uint64_t done, std::uint64_t total);

 private:
  void clear_line();
  std::string unit_;
  std::string stage_;
  bool terminal_;
  bool line_open_ = false;
  double stage_start_ = 0;
  double last_ = 0;
};

}  // namespace trireme::tools
