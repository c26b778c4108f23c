#include "train/evaluation.h"

#include <cmath>

namespace trireme::train {

double EvaluationResult::perplexity() const { return std::exp(loss); }

void LossSum::add(const model::MicroBatch& batch, model::Gpt& gpt, std::int64_t targets) {
  sample_losses_.resize(static_cast<std::size_t>(batch.ids.b));
  gpt.evaluate(batch, sample_losses_);
  for (const double loss : sample_losses_) sum_ += loss;
  targets_ += targets;
}

void LossSum::merge(const LossSum& other) {
  sum_ += other.sum_;
  targets_ += other.targets_;
}

EvaluationResult LossSum::result() const {
  core::require(targets_ > 0, core::ExitCode::bad_data, "evaluation: no target is counted");
  return {sum_ / static_cast<double>(targets_), targets_};
}

LossSum evaluate(data::ValidLoader& loader, model::Gpt& gpt, const std::function<bool()>& stopped) {
  LossSum sum;
  while (const data::Batch* batch = loader.next()) {
    sum.add({.ids = {batch->samples, batch->sequence, batch->tokens, batch->document_start}, .targets = batch->targets},
            gpt, batch->targets_counted);
    if (stopped()) break;
  }
  return sum;
}

}  // namespace trireme::train
