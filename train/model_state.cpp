#include "train/model_state.h"

#include "model/ops/adamw.h"

namespace trireme::train {

namespace {

struct Flat {
  core::Tensor master, copy, gradient, m, v;
};

Flat allocate(const model::ParameterTable& table, core::DType compute, bool training, core::Arena& arena) {
  const core::Shape all{table.flat_elements()};
  const core::DType sums = core::accumulate_dtype(compute);
  Flat flat;
  flat.master = arena.allocate(sums, all);
  if (compute == core::DType::bf16) flat.copy = arena.allocate(compute, all);
  if (!training) return flat;
  flat.gradient = arena.allocate(sums, all);
  flat.m = arena.allocate(sums, all);
  flat.v = arena.allocate(sums, all);
  return flat;
}

}  // namespace

std::size_t ModelState::bytes(const model::ModelConfig& config, core::DType compute, bool training) {
  core::Arena arena;
  allocate(model::ParameterTable(config), compute, training, arena);
  return arena.peak();
}

ModelState::ModelState(const model::ModelConfig& config, core::DType compute, bool training)
    : table_(config),
      compute_(compute),
      memory_(bytes(config, compute, training), training ? "weights, gradients and moments" : "weights") {
  const Flat flat = allocate(table_, compute, training, memory_);
  master_ = flat.master;
  copy_ = flat.copy;
  gradient_ = flat.gradient;
  m_ = flat.m;
  v_ = flat.v;
}

void ModelState::round_weights() {
  if (copy_) model::convert(master_, copy_);
}

std::vector<StateChunk> ModelState::chunks(bool moments) const {
  std::vector<StateChunk> out;
  const auto add = [&](const model::Parameter& parameter, const char* state, const core::Tensor& flat) {
    std::vector<std::int64_t> extent;
    for (int axis = 0; axis < parameter.shape.rank(); ++axis) extent.push_back(parameter.shape[axis]);
    out.push_back({.tensor = parameter.name,
                   .state = state,
                   .dtype = flat.dtype,
                   .shape = parameter.shape,
                   .offset = std::vector<std::int64_t>(extent.size(), 0),
                   .extent = extent,
                   .data = table_.in(flat, parameter.name).data});
  };
  for (const model::Parameter& parameter : table_.parameters()) {
    if (!parameter.tied_to.empty()) continue;
    add(parameter, "master", master_);
    if (!moments) continue;
    add(parameter, "adam_m", m_);
    add(parameter, "adam_v", v_);
  }
  return out;
}

std::vector<TiedAlias> ModelState::ties() const {
  std::vector<TiedAlias> out;
  for (const model::Parameter& parameter : table_.parameters())
    if (!parameter.tied_to.empty()) out.push_back({parameter.name, parameter.tied_to});
  return out;
}

}  // namespace trireme::train
