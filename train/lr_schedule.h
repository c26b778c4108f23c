#pragma once

#include <cstdint>

#include "train/config.h"

namespace trireme::train {

/// Learning rate of the step that has `k` steps before it, for a run of `steps`; in double.
double learning_rate(const ScheduleConfig& schedule, double lr, std::int64_t steps, std::int64_t k);

}  // namespace trireme::train
