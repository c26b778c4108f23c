#include "model/gpt.h"

#include <algorithm>

#include "model/ops/rotary.h"

namespace trireme::model {

Gpt::Gpt(const ModelConfig& config, const Weights& weights, core::DType compute, const RecomputePlan& recompute,
         const PassShape& shape)
    : config_(config),
      compute_(compute),
      recompute_(recompute),
      shape_(shape),
      token_embedding_(weights.at("token_embedding.weight")),
      position_embedding_(weights.optional("position_embedding.weight")),
      head_(config, weights) {
  for (int layer = 0; layer < config.layers; ++layer) blocks_.emplace_back(config, weights, layer);
  const Bytes bytes = measure();
  kept_ = core::Arena(bytes.kept, "activations (lower batch.micro, or set parallel.recompute)");
  scratch_ = core::Arena(bytes.scratch, "working memory of a micro-batch (lower batch.micro)");
  if (!config.rope()) return;
  const core::Shape table{shape.s, config.head_dim};
  const core::DType sums = core::accumulate_dtype(compute);
  tables_ = core::Arena(static_cast<std::size_t>(table.elements()) * core::size_of(sums) + 64, "rotary table");
  rotary_ = tables_.allocate(sums, table);
  rotary_table(config.rope_theta, rotary_);
}

Gpt::Bytes Gpt::measure() const {
  core::Arena kept, scratch;
  const std::int64_t tokens = shape_.s * shape_.b;
  const core::Shape stream{tokens, config_.hidden};
  kept.allocate(core::DType::i32, {tokens});
  kept.allocate(core::accumulate_dtype(compute_), {tokens});
  kept.allocate(compute_, stream);
  kept.allocate(compute_, stream);
  std::size_t work = head_.scratch_bytes(tokens, compute_);
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    const Recompute mode = shape_.training ? recompute_.of(static_cast<std::int64_t>(layer)) : Recompute::full;
    work = std::max(work, blocks_[layer].scratch_bytes(shape_.s, shape_.b, compute_, mode));
    if (!shape_.training) continue;
    kept.allocate(compute_, stream);
    blocks_[layer].allocate(shape_.s, shape_.b, compute_, mode, kept);
  }
  // Evaluation on a training model recomputes nothing but needs every activation of one block at a time.
  if (!blocks_.empty()) work = std::max(work, blocks_[0].scratch_bytes(shape_.s, shape_.b, compute_, Recompute::full));
  return {kept.peak(), work};
}

void Gpt::check_fits(const MicroBatch& batch) const {
  core::check(batch.ids.s >= 1 && batch.ids.s <= shape_.s && batch.ids.b >= 1 && batch.ids.b <= shape_.b,
              "micro-batch of {} x {} tokens, memory is for {} x {}", batch.ids.b, batch.ids.s, shape_.b, shape_.s);
}

core::Tensor Gpt::embed(const MicroBatch& batch, core::Arena& arena) {
  const core::Tensor out = arena.allocate(compute_, {batch.tokens(), config_.hidden});
  embedding_forward(batch.ids, token_embedding_.value, position_embedding_.value, batch.dropout,
                    out.reshaped({batch.ids.s, batch.ids.b, config_.hidden}));
  context_.profile.lap("embedding");
  return out;
}

const std::int32_t* Gpt::order_targets(const MicroBatch& batch) {
  std::int32_t* ordered = kept_.allocate(core::DType::i32, {batch.tokens()}).as<std::int32_t>();
  for (std::int64_t b = 0; b < batch.ids.b; ++b)
    for (std::int64_t s = 0; s < batch.ids.s; ++s) ordered[s * batch.ids.b + b] = batch.targets[b * batch.ids.s + s];
  return ordered;
}

void Gpt::sum_losses(const MicroBatch& batch, const core::Tensor& losses, std::span<double> sample_losses) const {
  core::check(std::ssize(sample_losses) == batch.ids.b, "{} sums for {} samples", sample_losses.size(), batch.ids.b);
  const bool wide = losses.dtype == core::DType::f64;
  for (std::int64_t b = 0; b < batch.ids.b; ++b) {
    double sum = 0;
    for (std::int64_t t = b; t < batch.tokens(); t += batch.ids.b)
      sum += wide ? losses.as<double>()[t] : static_cast<double>(losses.as<float>()[t]);
    sample_losses[static_cast<std::size_t>(b)] = sum;
  }
}

void Gpt::train(const MicroBatch& batch, std::span<double> sample_losses) {
  check_fits(batch);
  const core::ArenaScope scope(kept_);
  const std::int32_t* targets = order_targets(batch);
  const core::Tensor losses = kept_.allocate(core::accumulate_dtype(compute_), {batch.tokens()});
  std::vector<core::Tensor> inputs{embed(batch, kept_)};
  std::vector<BlockSaved> saved;
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    const Recompute mode = recompute_.of(static_cast<std::int64_t>(layer));
    saved.push_back(blocks_[layer].allocate(batch.ids.s, batch.ids.b, compute_, mode, kept_));
    inputs.push_back(kept_.allocate(compute_, inputs[0].shape));
    blocks_[layer].forward(step(batch), inputs[layer], saved[layer], inputs[layer + 1]);
  }
  const core::Tensor d = kept_.allocate(compute_, inputs[0].shape);
  head_.losses({context_, targets, scratch_}, inputs.back(), losses, d);
  for (std::size_t layer = blocks_.size(); layer-- > 0;)
    blocks_[layer].backward(step(batch), inputs[layer], saved[layer], d);
  embedding_backward(batch.ids, d.reshaped({batch.ids.s, batch.ids.b, config_.hidden}), batch.dropout,
                     token_embedding_.gradient, position_embedding_.gradient);
  context_.profile.lap("embedding");
  sum_losses(batch, losses, sample_losses);
}

core::Tensor Gpt::forward_only(const MicroBatch& batch) {
  core::Tensor x = embed(batch, kept_);
  core::Tensor other = kept_.allocate(compute_, x.shape);
  for (const Block& block : blocks_) {
    block.forward(step(batch), x, {}, other);
    std::swap(x, other);
  }
  return x;
}

void Gpt::evaluate(const MicroBatch& batch, std::span<double> sample_losses) {
  check_fits(batch);
  const core::ArenaScope scope(kept_);
  const std::int32_t* targets = order_targets(batch);
  const core::Tensor losses = kept_.allocate(core::accumulate_dtype(compute_), {batch.tokens()});
  const core::Tensor x = forward_only(batch);
  head_.losses({context_, targets, scratch_}, x, losses, {});
  sum_losses(batch, losses, sample_losses);
}

void Gpt::logits(const MicroBatch& batch, const core::Tensor& out) {
  check_fits(batch);
  const core::ArenaScope scope(kept_);
  head_.logits(context_, forward_only(batch), out, scratch_);
}

}  // namespace trireme::model
