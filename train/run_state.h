#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "train/checkpoint/checkpoint.h"
#include "train/config.h"

namespace trireme::train {

/// Where a run stands; all of it is in a checkpoint's manifest.
struct Counters {
  std::string run_id;
  std::int64_t attempt = 1;
  std::int64_t step = 0;     ///< steps done
  std::int64_t updates = 0;  ///< steps whose update was applied
  std::int64_t samples = 0;  ///< consumed, skipped steps included
  std::int64_t tokens = 0;
};

/// The manifest's part that is not tensors.
CheckpointMeta checkpoint_meta(const Config& config, const Counters& counters, const data::Dataset& dataset);

/// Compares a manifest with the configuration about to go on from it. Shape and arithmetic must match (Error usage),
/// seed and data too unless data.allow_change (Error bad_data). Returns a line for each change that is allowed.
std::vector<std::string> check_resume(const Config& config, core::DType compute, const data::Dataset& dataset,
                                      const Manifest& manifest);

Counters counters_of(const CheckpointMeta& meta);

}  // namespace trireme::train
