#pragma once

#include <string>

#include "model/parameter.h"

namespace trireme::model {

/// One parameter as the layers see it: value in the compute dtype, gradient in the accumulate dtype. Both absent when
/// the model has no such parameter; the gradient is absent where nothing is trained.
struct Weight {
  core::Tensor value;
  core::Tensor gradient;
};

/// The parameters of a model in flat buffers of ParameterTable's layout.
class Weights {
 public:
  /// `gradients` may be absent. The table must outlive the views.
  Weights(const ParameterTable& table, const core::Tensor& values, const core::Tensor& gradients)
      : table_(table), values_(values), gradients_(gradients) {}
  /// The parameter, an empty Weight if the model has none of this name.
  Weight optional(const std::string& name) const;
  Weight at(const std::string& name) const;
  /// The matrix [sum of rows, columns] (or vector) of fused neighbours, `first` being the first.
  Weight fused(const std::string& first, std::int64_t rows) const;

 private:
  const ParameterTable& table_;
  core::Tensor values_;
  core::Tensor gradients_;
};

}  // namespace trireme::model
