#include "train/step.h"

#include <cmath>

#include "model/ops/adamw.h"

namespace trireme::train {

StepOutcome accumulate_gradients(const StepPlan& plan, data::BatchSource& loader, model::Gpt& gpt,
                                 const std::function<void()>& between) {
  StepOutcome outcome;
  double sum = 0;
  std::vector<double> sample_losses;
  for (std::int64_t i = 0; i < plan.micro_batches; ++i) {
    const data::Batch& batch = loader.next();
    gpt.context().profile.lap("waiting for data");
    model::MicroBatch micro{.ids = {batch.samples, batch.sequence, batch.tokens, batch.document_start},
                            .targets = batch.targets,
                            .dropout = plan.dropout};
    micro.dropout.first_position = batch.first_position;
    sample_losses.resize(static_cast<std::size_t>(batch.samples));
    gpt.train(micro, sample_losses);
    for (const double loss : sample_losses) sum += loss;
    outcome.targets += batch.targets_counted;
    between();
  }
  core::require(outcome.targets > 0, core::ExitCode::bad_data, "no target of this step's samples is counted");
  outcome.loss = sum / static_cast<double>(outcome.targets);
  return outcome;
}

void update_weights(const StepPlan& plan, ModelState& state, StepOutcome& outcome) {
  const double targets = static_cast<double>(outcome.targets);
  outcome.grad_norm = std::sqrt(model::sum_of_squares(state.gradient())) / targets;
  outcome.applied = std::isfinite(outcome.loss) && std::isfinite(outcome.grad_norm);
  if (!outcome.applied) return model::set_zero(state.gradient());
  const bool clipped = plan.clip > 0 && outcome.grad_norm > plan.clip;
  model::AdamwStep step{.lr = plan.lr,
                        .beta1 = plan.beta1,
                        .beta2 = plan.beta2,
                        .eps = plan.eps,
                        .update = plan.update,
                        .gradient_scale = (clipped ? plan.clip / outcome.grad_norm : 1.0) / targets};
  for (const model::Parameter& parameter : state.table().parameters()) {
    if (!parameter.tied_to.empty()) continue;
    const auto part = [&](const core::Tensor& flat) {
      return flat ? flat.rows(parameter.offset, parameter.shape.elements()) : core::Tensor{};
    };
    step.weight_decay = parameter.decay() ? plan.weight_decay : 0;
    model::adamw(step, {part(state.gradient()), part(state.moment1()), part(state.moment2()), part(state.master()),
                        part(state.copy())});
  }
}

}  // namespace trireme::train
