#pragma once

#include <functional>
#include <vector>

#include "data/loader.h"
#include "model/gpt.h"
#include "train/model_state.h"

namespace trireme::train {

/// What one optimizer step is told.
struct StepPlan {
  std::int64_t micro_batches = 1;
  double lr = 0;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  double clip = 0;          ///< 0: no clipping
  std::int64_t update = 1;  ///< number of this update, from 1 (skipped steps not counted)
  model::Dropout dropout;   ///< rate and seed; the position comes from the batch
};

struct StepOutcome {
  double loss = 0;       ///< mean over counted targets
  double grad_norm = 0;  ///< before clipping
  std::int64_t targets = 0;
  bool applied = false;  ///< false: loss or norm not finite, nothing changed
};

/// Forward and backward of all micro-batches: gradients of the sum of losses are added up in the state. The loss is the
/// sum over samples in sample order, divided once by the number of counted targets. `between` is called after each
/// micro-batch. Throws Error(bad_data) when no target is counted.
StepOutcome accumulate_gradients(const StepPlan& plan, data::BatchSource& loader, model::Gpt& gpt,
                                 const std::function<void()>& between);

/// Norm, clipping and AdamW; leaves the gradients zero. Fills in grad_norm and applied.
void update_weights(const StepPlan& plan, ModelState& state, StepOutcome& outcome);

}  // namespace trireme::train
