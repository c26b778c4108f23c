#include "train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace trireme::train {

namespace {

/// 1 at r = 0, 0 at r = 1.
double shape_at(const std::string& shape, double r) {
  if (shape == "cosine") return (1 + std::cos(std::numbers::pi * r)) / 2;
  if (shape == "linear") return 1 - r;
  return 1 - std::sqrt(r);
}

}  // namespace

double learning_rate(const ScheduleConfig& schedule, double lr, std::int64_t steps, std::int64_t k) {
  const std::int64_t warmup = schedule.warmup_steps;
  if (k < warmup) return lr * static_cast<double>(k + 1) / static_cast<double>(warmup);
  if (schedule.kind == "constant") return lr;
  const bool wsd = schedule.kind == "wsd";
  const std::int64_t given = schedule.decay_steps;
  const std::int64_t decay = given > 0 ? given : wsd ? steps / 5 : steps - warmup;
  const std::int64_t start = wsd ? steps - decay : warmup;
  if (k < start) return lr;
  const double r = decay > 0 ? std::min(1.0, static_cast<double>(k - start) / static_cast<double>(decay)) : 1.0;
  return schedule.min_lr + shape_at(wsd ? schedule.decay_shape : schedule.kind, r) * (lr - schedule.min_lr);
}

}  // namespace trireme::train
