#pragma once

#include <string>
#include <vector>

#include "model/parameter.h"
#include "train/huggingface/config_json.h"

namespace trireme::train {

/// One tensor of a Hugging Face directory: parameters one above the other (rows of [out, in]), or their transpose.
struct HfTensor {
  std::string name;
  std::vector<const model::Parameter*> parts;
  bool transposed = false;  ///< stored [in, out] (GPT-2's Conv1D)

  std::int64_t rows() const;     ///< of all parts, before transposition
  std::int64_t columns() const;  ///< 1 for vectors
  std::vector<std::uint64_t> stored_shape() const;
};

/// Every tensor a directory of this model has, in the table's order; parts point into `table`. A tied head has none.
std::vector<HfTensor> hf_tensors(HfKind kind, const model::ParameterTable& table);

/// Buffers of old files that hold no weights: masks and inverse frequencies.
bool ignored_on_reading(std::string_view name);

inline constexpr std::string_view kGpt2Prefix = "transformer.";
inline constexpr std::string_view kHeadName = "lm_head.weight";

}  // namespace trireme::train
