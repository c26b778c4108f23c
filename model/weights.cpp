#include "model/weights.h"

#include <algorithm>

namespace trireme::model {

Weight Weights::optional(const std::string& name) const {
  const auto& all = table_.parameters();
  const bool known = std::any_of(all.begin(), all.end(), [&](const Parameter& p) { return p.name == name; });
  return known ? at(name) : Weight{};
}

Weight Weights::at(const std::string& name) const {
  return {table_.in(values_, name), gradients_ ? table_.in(gradients_, name) : core::Tensor{}};
}

Weight Weights::fused(const std::string& first, std::int64_t rows) const {
  const Weight one = optional(first);
  if (!one.value) return {};
  const Parameter& parameter = table_.find(first);
  const core::Shape shape = parameter.shape.rank() == 2 ? core::Shape{rows, parameter.shape[1]} : core::Shape{rows};
  const auto part = [&](const core::Tensor& flat) {
    return flat ? flat.rows(parameter.offset, shape.elements()).reshaped(shape) : core::Tensor{};
  };
  return {part(values_), part(gradients_)};
}

}  // namespace trireme::model
