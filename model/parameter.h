#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "model/config.h"

namespace trireme::model {

enum class Init {
  normal,           ///< std = init_std
  residual_normal,  ///< init_std / sqrt(2 l): the products that write into the residual stream
  ones,
  zeros,
};

/// How tensor parallelism cuts the tensor.
enum class Split { none, rows, columns };

/// One parameter, declared once. Initialisation, counting, gradient norm, optimizer, checkpoint, import and export all
/// read this table.
struct Parameter {
  std::string name;   ///< "blocks.0.attention.query.weight"
  core::Shape shape;  ///< global, [out, in] for matrices
  Init init = Init::zeros;
  Split split = Split::none;
  int unit = 0;             ///< 0 embedding, 1 + i block i, l + 1 head
  std::int64_t offset = 0;  ///< first element in the flat buffers
  bool fused = false;       ///< lies directly behind the one before: both are parts of one matrix product
  std::string tied_to;      ///< an alias of another parameter; has no storage of its own

  /// Weight decay acts on tensors of two or more dimensions.
  bool decay() const { return shape.rank() >= 2; }
};

/// All parameters of a model in declared order, and their places in flat buffers: units one after the other, each
/// parameter (or fused group) at a multiple of 64 elements.
class ParameterTable {
 public:
  explicit ParameterTable(const ModelConfig& config);
  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// By name, aliases included. Throws Error(internal) for an unknown name.
  const Parameter& find(std::string_view name) const;
  std::int64_t flat_elements() const { return flat_elements_; }  ///< with alignment
  std::int64_t count() const;                                    ///< true number of parameters
  /// The parameter's part of a flat buffer of `dtype` starting at `flat`; an alias gives the tensor it stands for.
  core::Tensor in(const core::Tensor& flat, std::string_view name) const;

 private:
  void declare(Parameter parameter);
  void declare_norm(const ModelConfig& config, const std::string& name, int unit, std::int64_t width);
  void declare_block(const ModelConfig& config, int layer);
  std::vector<Parameter> parameters_;
  std::int64_t flat_elements_ = 0;
};

/// Element `j` of parameter `name` in its global row-major shape, a normal number times `std`:
/// Philox4x32-10 keyed by the seed, counter (j div 4, FNV-1a 64 of the name), Box-Muller in double, rounded to fp32.
float initial_normal(std::uint64_t seed, std::string_view name, std::uint64_t j, double std);

/// Fills `flat` (fp32 or fp64) with the initial weights. Alignment gaps stay as they are (zero).
void initialise(const ParameterTable& table, const ModelConfig& config, std::uint64_t seed, const core::Tensor& flat);

}  // namespace trireme::model
