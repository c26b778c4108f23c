#pragma once

#include <string_view>

#include "core/tensor.h"
#include "train/huggingface/model_files.h"
#include "train/huggingface/tensor_names.h"

namespace trireme::train {

/// Fills the parameters of `tensor` in `flat` (fp32 or fp64, ParameterTable's layout) from the file. A stored table of
/// more rows than the parameter is read from its start. Throws Error(bad_data) where an F64 value does not fit fp32.
void load_tensor(const ModelFiles::Place& place, const HfTensor& tensor, const core::Tensor& flat);

/// Appends the parameters of `tensor` in stored order as `dtype` ("F32" or "BF16"), rounded to nearest even.
void store_tensor(const HfTensor& tensor, const core::Tensor& flat, std::string_view dtype, core::WriteFile& file);

/// Whether two stored tensors are equal bit for bit.
bool equal_bits(const ModelFiles::Place& a, const ModelFiles::Place& b);

}  // namespace trireme::train
