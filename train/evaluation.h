#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "model/gpt.h"

namespace trireme::train {

struct EvaluationResult {
  double loss = 0;  ///< mean over all counted targets
  std::int64_t targets = 0;
  double perplexity() const;
};

/// Adds up a loss over samples in their order, whatever the micro-batches.
class LossSum {
 public:
  void add(const model::MicroBatch& batch, model::Gpt& gpt, std::int64_t targets);
  EvaluationResult result() const;
  void merge(const LossSum& other);

 private:
  double sum_ = 0;
  std::int64_t targets_ = 0;
  std::vector<double> sample_losses_;
};

/// Loss over everything that `loader` gives; `stopped` is asked between micro-batches and ends it early (then the sum
/// is not to be used).
LossSum evaluate(data::ValidLoader& loader, model::Gpt& gpt, const std::function<bool()>& stopped);

}  // namespace trireme::train
