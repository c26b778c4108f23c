#pragma once

#include <memory>

#include "core/error.h"
#include "train/config.h"
#include "train/signals.h"

namespace trireme::train {

/// One training run on one process: from the resolved configuration to its last checkpoint.
class Trainer {
 public:
  /// Opens the data, makes or loads the state, allocates all memory. Throws Error.
  Trainer(const Config& config, const StopSignals& signals);
  ~Trainer();
  /// ok, or stopped when asked to; every failure is an Error.
  core::ExitCode run();

 private:
  struct Run;
  std::unique_ptr<Run> run_;
};

}  // namespace trireme::train
