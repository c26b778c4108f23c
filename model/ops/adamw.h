#pragma once

#include "core/tensor.h"

namespace trireme::model {

/// AdamW (Loshchilov and Hutter 2019): p <- p (1 - lr wd) - lr m^ / (sqrt v^ + eps).
struct AdamwStep {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;
  std::int64_t update = 1;    ///< number of this update, from 1: bias correction
  double gradient_scale = 1;  ///< multiplies the gradient: clip factor / counted targets
};

/// Equal ranges of the flat buffers, [n]: gradient is read and set to zero, m, v and master are updated (accumulate
/// dtype), weight (compute dtype, absent when master is the weight) gets the rounded master. One pass.
struct AdamwRange {
  core::Tensor gradient, m, v, master, weight;
};
void adamw(const AdamwStep& step, const AdamwRange& range);

/// Sum of squares in double; its order of additions does not depend on the number of threads.
double sum_of_squares(const core::Tensor& values);

/// to [n] = from [n] rounded to nearest even.
void convert(const core::Tensor& from, const core::Tensor& to);

/// Sets all bytes to zero, in parallel.
void set_zero(const core::Tensor& values);

}  // namespace trireme::model
