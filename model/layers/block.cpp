#include "model/layers/block.h"

#include <algorithm>

#include "model/ops/activation.h"
#include "model/ops/product.h"
#include "model/ops/rotary.h"

namespace trireme::model {

namespace {

core::Tensor samples_view(const core::Tensor& x, const MicroBatch& batch) {
  return x.reshaped({batch.ids.s, batch.ids.b, x.shape.last()});
}

/// Allocates each activation that is absent and wanted. `dropped` are those that selective recomputation leaves out.
void allocate_absent(const ModelConfig& c, const AttentionShape& shape, core::DType dtype, bool dropped, bool others,
                     BlockSaved& saved, core::Arena& arena) {
  const std::int64_t tokens = shape.s * shape.b;
  const core::DType sums = core::accumulate_dtype(dtype);
  const auto provide = [&](core::Tensor& tensor, bool wanted, core::DType type, core::Shape extents) {
    if (wanted && !tensor) tensor = arena.allocate(type, extents);
  };
  provide(saved.attention_statistics.mean, others && !c.rms(), sums, {tokens});
  provide(saved.attention_statistics.rstd, others, sums, {tokens});
  provide(saved.attention_normed, dropped, dtype, {tokens, c.hidden});
  provide(saved.qkv, others, dtype, {tokens, shape.row()});
  provide(saved.raw_heads, others && c.qk_norm, dtype, {tokens, (shape.a + shape.g) * shape.d});
  provide(saved.heads_rstd, others && c.qk_norm, sums, {tokens, shape.a + shape.g});
  provide(saved.attention, others, dtype, {tokens, shape.a * shape.d});
  provide(saved.lse, others, sums, {shape.b, shape.a, shape.s});
  provide(saved.middle, others, dtype, {tokens, c.hidden});
  provide(saved.mlp_statistics.mean, others && !c.rms(), sums, {tokens});
  provide(saved.mlp_statistics.rstd, others, sums, {tokens});
  provide(saved.mlp_normed, dropped, dtype, {tokens, c.hidden});
  provide(saved.up, others, dtype, {tokens, (c.swiglu() ? 2 : 1) * c.ffn_hidden});
  provide(saved.active, dropped, dtype, {tokens, c.ffn_hidden});
}

/// Temporaries of backward's two halves; one half's memory serves the other.
struct MlpTemporaries {
  core::Tensor branch, dactive, dup, dnormed;
};
MlpTemporaries mlp_temporaries(const ModelConfig& c, std::int64_t tokens, core::DType dtype, core::Arena& arena) {
  MlpTemporaries t;
  t.dnormed = arena.allocate(dtype, {tokens, c.hidden});
  t.branch = t.dnormed;  // the branch's gradient is done with before the norm's is made
  t.dactive = arena.allocate(dtype, {tokens, c.ffn_hidden});
  t.dup = c.swiglu() ? arena.allocate(dtype, {tokens, 2 * c.ffn_hidden}) : t.dactive;
  return t;
}

struct AttentionTemporaries {
  core::Tensor branch, dattention, dqkv, dnormed;
};
AttentionTemporaries attention_temporaries(const ModelConfig& c, const AttentionShape& shape, core::DType dtype,
                                           core::Arena& arena) {
  AttentionTemporaries t;
  const std::int64_t tokens = shape.s * shape.b;
  t.dnormed = arena.allocate(dtype, {tokens, c.hidden});
  t.branch = t.dnormed;
  t.dattention = arena.allocate(dtype, {tokens, shape.a * shape.d});
  t.dqkv = arena.allocate(dtype, {tokens, shape.row()});
  return t;
}

}  // namespace

NormLayer::NormLayer(const ModelConfig& config, const Weights& all, const std::string& name) {
  const Weight weight = all.at(name + ".weight");
  const Weight bias = all.optional(name + ".bias");
  weights = {weight.value, bias.value, config.norm_eps};
  gradients = {weight.gradient, bias.gradient};
}

Block::Block(const ModelConfig& config, const Weights& weights, int layer) : config_(config), layer_(layer) {
  const std::string name = fmt::format("blocks.{}.", layer);
  const std::int64_t up_rows = (config.swiglu() ? 2 : 1) * config.ffn_hidden;
  const std::string first_up = name + (config.swiglu() ? "mlp.gate" : "mlp.up");
  attention_norm_ = NormLayer(config, weights, name + "attention_norm");
  qkv_ = weights.fused(name + "attention.query.weight", config.qkv_rows());
  qkv_bias_ = weights.fused(name + "attention.query.bias", config.qkv_rows());
  query_norm_ = weights.optional(name + "attention.query_norm.weight");
  key_norm_ = weights.optional(name + "attention.key_norm.weight");
  output_ = weights.at(name + "attention.output.weight");
  output_bias_ = weights.optional(name + "attention.output.bias");
  mlp_norm_ = NormLayer(config, weights, name + "mlp_norm");
  up_ = weights.fused(first_up + ".weight", up_rows);
  up_bias_ = weights.fused(first_up + ".bias", up_rows);
  down_ = weights.at(name + "mlp.down.weight");
  down_bias_ = weights.optional(name + "mlp.down.bias");
}

AttentionShape Block::shape(std::int64_t s, std::int64_t b) const {
  return {.s = s, .b = b, .a = config_.heads, .g = config_.kv_heads, .d = config_.head_dim};
}

Dropout Block::dropout(const MicroBatch& batch, std::uint32_t which) const {
  return batch.dropout.at(1 + 3 * static_cast<std::uint32_t>(layer_) + which);
}

BlockSaved Block::allocate(std::int64_t s, std::int64_t b, core::DType dtype, Recompute recompute,
                           core::Arena& arena) const {
  BlockSaved saved;
  allocate_absent(config_, shape(s, b), dtype, recompute == Recompute::none, recompute != Recompute::full, saved,
                  arena);
  return saved;
}

BlockSaved Block::complete(const BlockSaved& kept, const Step& step, core::DType dtype) const {
  BlockSaved saved = kept;
  allocate_absent(config_, shape(step.batch.ids.s, step.batch.ids.b), dtype, true, true, saved, step.scratch);
  return saved;
}

void Block::forward(const Step& step, const core::Tensor& x, const BlockSaved& kept, const core::Tensor& out) const {
  const core::ArenaScope scope(step.scratch);
  const BlockSaved saved = complete(kept, step, x.dtype);
  attention_input(step, x, saved);
  const TokenIds& ids = step.batch.ids;
  attention_forward(step.context, shape(ids.s, ids.b), saved.qkv.reshaped({ids.s, ids.b, config_.qkv_rows()}),
                    ids.document_start, dropout(step.batch, 0), samples_view(saved.attention, step.batch), saved.lse,
                    step.scratch);
  step.context.profile.lap("attention forward");
  finish(step, x, saved, out);
}

void Block::attention_input(const Step& step, const core::Tensor& x, const BlockSaved& saved) const {
  norm_forward(attention_norm_.weights, x, saved.attention_normed, saved.attention_statistics);
  step.context.profile.lap("norm");
  linear_forward(step.context, saved.attention_normed, qkv_.value, qkv_bias_.value, saved.qkv);
  step.context.profile.lap("products forward");
  if (config_.qk_norm) {
    const HeadNorm norm{config_.heads,     config_.kv_heads, config_.head_dim,
                        query_norm_.value, key_norm_.value,  config_.norm_eps};
    head_norm_forward(norm, saved.qkv, saved.raw_heads, saved.heads_rstd);
  }
  if (config_.rope())
    rotary_forward(shape(step.batch.ids.s, step.batch.ids.b), step.rotary, step.batch.ids.document_start,
                   samples_view(saved.qkv, step.batch));
  step.context.profile.lap("QK-norm and rotation");
}

void Block::finish(const Step& step, const core::Tensor& x, const BlockSaved& saved, const core::Tensor& out) const {
  const core::ArenaScope scope(step.scratch);
  const core::Tensor branch = step.scratch.allocate(x.dtype, x.shape);
  linear_forward(step.context, saved.attention, output_.value, output_bias_.value, branch);
  step.context.profile.lap("products forward");
  const Dropout after_attention = dropout(step.batch, 1);
  if (after_attention.active())
    apply_dropout(after_attention, samples_view(branch, step.batch), samples_view(branch, step.batch));
  add_norm_forward(mlp_norm_.weights, x, branch, saved.middle, saved.mlp_normed, saved.mlp_statistics);
  step.context.profile.lap("norm");
  linear_forward(step.context, saved.mlp_normed, up_.value, up_bias_.value, saved.up);
  step.context.profile.lap("products forward");
  activate(saved);
  step.context.profile.lap("activation");
  if (!out) return;
  linear_forward(step.context, saved.active, down_.value, down_bias_.value, branch);
  step.context.profile.lap("products forward");
  add_residual(dropout(step.batch, 2), samples_view(saved.middle, step.batch), samples_view(branch, step.batch),
               samples_view(out, step.batch));
  step.context.profile.lap("dropout and residual");
}

void Block::activate(const BlockSaved& saved) const {
  if (config_.swiglu())
    swiglu_forward(saved.up, saved.active);
  else
    gelu_forward(saved.up, saved.active);
}

void Block::recompute(const Step& step, const core::Tensor& x, const BlockSaved& kept, const BlockSaved& saved) const {
  if (!kept.qkv) {
    forward(step, x, saved, {});
  } else if (!kept.active) {
    norm_forward(attention_norm_.weights, x, saved.attention_normed, saved.attention_statistics);
    norm_forward(mlp_norm_.weights, saved.middle, saved.mlp_normed, saved.mlp_statistics);
    activate(saved);
    step.context.profile.lap("recomputed norms and activations");
  }
}

void Block::backward(const Step& step, const core::Tensor& x, const BlockSaved& kept, const core::Tensor& d) const {
  const core::ArenaScope scope(step.scratch);
  const BlockSaved saved = complete(kept, step, x.dtype);
  recompute(step, x, kept, saved);
  backward_mlp(step, saved, d);
  backward_attention(step, x, saved, d);
}

void Block::backward_mlp(const Step& step, const BlockSaved& saved, const core::Tensor& d) const {
  const core::ArenaScope scope(step.scratch);
  const MlpTemporaries t = mlp_temporaries(config_, d.shape[0], d.dtype, step.scratch);
  const Dropout after_mlp = dropout(step.batch, 2);
  if (after_mlp.active()) apply_dropout(after_mlp, samples_view(d, step.batch), samples_view(t.branch, step.batch));
  step.context.profile.lap("dropout and residual");
  const core::Tensor& branch = after_mlp.active() ? t.branch : d;
  linear_backward_weight(step.context, branch, saved.active, down_.gradient, down_bias_.gradient);
  step.context.profile.lap("products weight gradient");
  linear_backward_input(step.context, branch, down_.value, t.dactive);
  step.context.profile.lap("products input gradient");
  if (config_.swiglu())
    swiglu_backward(saved.up, t.dactive, t.dup);
  else
    gelu_backward(saved.up, t.dactive, t.dup);
  step.context.profile.lap("activation");
  linear_backward_weight(step.context, t.dup, saved.mlp_normed, up_.gradient, up_bias_.gradient);
  step.context.profile.lap("products weight gradient");
  linear_backward_input(step.context, t.dup, up_.value, t.dnormed);
  step.context.profile.lap("products input gradient");
  norm_backward(mlp_norm_.weights, saved.mlp_statistics, saved.middle, t.dnormed, d, d, mlp_norm_.gradients);
  step.context.profile.lap("norm");
}

void Block::backward_attention(const Step& step, const core::Tensor& x, const BlockSaved& saved,
                               const core::Tensor& d) const {
  const core::ArenaScope scope(step.scratch);
  const TokenIds& ids = step.batch.ids;
  const AttentionShape attention_shape = shape(ids.s, ids.b);
  const AttentionTemporaries t = attention_temporaries(config_, attention_shape, d.dtype, step.scratch);
  const Dropout after_attention = dropout(step.batch, 1);
  if (after_attention.active())
    apply_dropout(after_attention, samples_view(d, step.batch), samples_view(t.branch, step.batch));
  step.context.profile.lap("dropout and residual");
  const core::Tensor& branch = after_attention.active() ? t.branch : d;
  linear_backward_weight(step.context, branch, saved.attention, output_.gradient, output_bias_.gradient);
  step.context.profile.lap("products weight gradient");
  linear_backward_input(step.context, branch, output_.value, t.dattention);
  step.context.profile.lap("products input gradient");
  const AttentionSaved forward{samples_view(saved.qkv, step.batch), samples_view(saved.attention, step.batch),
                               saved.lse};
  attention_backward(step.context, attention_shape, forward, samples_view(t.dattention, step.batch), ids.document_start,
                     dropout(step.batch, 0), samples_view(t.dqkv, step.batch), step.scratch);
  step.context.profile.lap("attention backward");
  if (config_.rope())
    rotary_backward(attention_shape, step.rotary, ids.document_start, samples_view(t.dqkv, step.batch));
  if (config_.qk_norm) {
    const HeadNorm norm{config_.heads,     config_.kv_heads, config_.head_dim,
                        query_norm_.value, key_norm_.value,  config_.norm_eps};
    head_norm_backward(norm, saved.raw_heads, saved.heads_rstd, t.dqkv, query_norm_.gradient, key_norm_.gradient);
  }
  step.context.profile.lap("QK-norm and rotation");
  linear_backward_weight(step.context, t.dqkv, saved.attention_normed, qkv_.gradient, qkv_bias_.gradient);
  step.context.profile.lap("products weight gradient");
  linear_backward_input(step.context, t.dqkv, qkv_.value, t.dnormed);
  step.context.profile.lap("products input gradient");
  norm_backward(attention_norm_.weights, saved.attention_statistics, x, t.dnormed, d, d, attention_norm_.gradients);
  step.context.profile.lap("norm");
}

std::size_t Block::scratch_bytes(std::int64_t s, std::int64_t b, core::DType dtype, Recompute recompute) const {
  const AttentionShape extents = shape(s, b);
  const std::size_t attention = attention_scratch_bytes(extents, dtype);
  core::Arena completion, mlp, heads, branch;
  BlockSaved saved;
  allocate_absent(config_, extents, dtype, recompute != Recompute::none, recompute == Recompute::full, saved,
                  completion);
  mlp_temporaries(config_, s * b, dtype, mlp);
  attention_temporaries(config_, extents, dtype, heads);
  branch.allocate(dtype, {s * b, config_.hidden});
  return completion.peak() + std::max({mlp.peak(), heads.peak() + attention, branch.peak(), attention});
}

}  // namespace trireme::model
