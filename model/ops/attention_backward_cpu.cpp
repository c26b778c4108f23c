#include <atomic>

#include "core/parallel_for.h"
#include "model/ops/attention.h"
#include "model/ops/attention_checks.h"
#include "model/ops/attention_tile.h"

namespace trireme::model {

namespace {

/// Tensors of one call.
template <class T>
struct Gradients {
  using S = core::accumulate_t<T>;
  const T *qkv, *out, *dout;
  const S* lse;
  T* dqkv;
};

/// Which gradients to form: of queries in blocks query_part + i query_parts, of keys and values likewise.
struct Selection {
  bool queries = true, keys = true;
  std::int64_t query_part = 0, query_parts = 1;
  std::int64_t key_part = 0, key_parts = 1;
};

/// One thread's backward. Sums over keys and over queries go upwards block by block, whatever the selection.
template <class T>
class Backward {
 public:
  using S = core::accumulate_t<T>;

  static std::int64_t memory_elements(const AttentionLayout<T>& layout) {
    const std::int64_t d = layout.shape.d, width = layout.width();
    return layout.blocks() * kBlock * (2 * d + 3 * width) + kBlock * (2 * d + 3 * width + 3 * kBlock + 1);
  }

  Backward(const AttentionLayout<T>& layout, const Gradients<T>& tensors, S* memory)
      : layout_(layout), tensors_(tensors), d_(layout.shape.d), width_(layout.width()), scale_(1 / std::sqrt(S(d_))) {
    const auto take = [&](std::int64_t elements) { return std::exchange(memory, memory + elements); };
    const std::int64_t length = layout.blocks() * kBlock;
    keys_ = take(length * d_);
    values_ = take(length * d_);
    key_panels_ = take(length * width_);
    dkeys_ = take(length * width_);
    dvalues_ = take(length * width_);
    queries_ = take(kBlock * d_);
    douts_ = take(kBlock * d_);
    query_panels_ = take(kBlock * width_);
    dout_panels_ = take(kBlock * width_);
    dqueries_ = take(kBlock * width_);
    weights_ = take(kBlock * kBlock);
    dweights_ = take(kBlock * kBlock);
    factors_ = take(kBlock * kBlock);
    deltas_ = take(kBlock);
  }

  /// All heads of a sample and key/value head.
  void run(std::int64_t sample, std::int64_t group, const Selection& selection) {
    sample_ = sample;
    pack_keys(group, selection);
    for (std::int64_t head = group * layout_.share(); head < (group + 1) * layout_.share(); ++head)
      for (std::int64_t block = selection.query_part; block < layout_.blocks(); block += selection.query_parts)
        run_queries(head, block, selection);
    if (!selection.keys) return;
    const std::int64_t key_head = layout_.shape.a + group, value_head = key_head + layout_.shape.g;
    for (std::int64_t block = selection.key_part; block < layout_.blocks(); block += selection.key_parts) {
      write(dkeys_ + block * kBlock * width_, block, key_head, 1);
      write(dvalues_ + block * kBlock * width_, block, value_head, 1);
    }
  }

 private:
  void pack_keys(std::int64_t group, const Selection& selection) {
    const std::int64_t key_head = layout_.shape.a + group, value_head = key_head + layout_.shape.g;
    for (std::int64_t block = selection.key_part; block < layout_.blocks(); block += selection.key_parts) {
      const std::int64_t position = block * kBlock, pitch = layout_.qkv_pitch();
      const T* keys = tensors_.qkv + layout_.qkv_at(position, sample_, key_head);
      const T* values = tensors_.qkv + layout_.qkv_at(position, sample_, value_head);
      pack_transposed_panels(keys, pitch, layout_.rows(block), d_, keys_ + position * d_);
      pack_transposed_panels(values, pitch, layout_.rows(block), d_, values_ + position * d_);
      if (selection.queries) pack_panels(keys, pitch, layout_.rows(block), d_, key_panels_ + position * width_);
      if (selection.keys) {
        std::fill_n(dkeys_ + position * width_, kBlock * width_, S(0));
        std::fill_n(dvalues_ + position * width_, kBlock * width_, S(0));
      }
    }
  }

  void pack_queries(std::int64_t head, std::int64_t block, const Selection& selection) {
    const int rows = layout_.rows(block);
    const T* queries = tensors_.qkv + layout_.qkv_at(block * kBlock, sample_, head);
    const T* douts = tensors_.dout + layout_.out_at(block * kBlock, sample_, head);
    const T* outs = tensors_.out + layout_.out_at(block * kBlock, sample_, head);
    const std::int64_t pitch = layout_.out_pitch();
    pack_columns(queries, layout_.qkv_pitch(), rows, d_, queries_);
    multiply_all(queries_, kBlock * d_, scale_);
    pack_columns(douts, pitch, rows, d_, douts_);
    if (selection.keys) {
      pack_panels(queries, layout_.qkv_pitch(), rows, d_, query_panels_);
      multiply_all(query_panels_, kBlock * width_, scale_);
      pack_panels(douts, pitch, rows, d_, dout_panels_);
    }
    for (int row = 0; row < rows; ++row) {
      S delta = 0;
      for (std::int64_t i = 0; i < d_; ++i) delta += S(outs[row * pitch + i]) * S(douts[row * pitch + i]);
      deltas_[row] = delta;
    }
  }

  void run_queries(std::int64_t head, std::int64_t block, const Selection& selection) {
    BlockPair pair{.query = block * kBlock, .rows = layout_.rows(block)};
    pack_queries(head, block, selection);
    if (selection.queries) std::fill_n(dqueries_, kBlock * width_, S(0));
    const S* lse = tensors_.lse + (sample_ * layout_.shape.a + head) * layout_.shape.s + pair.query;
    const std::int64_t first = first_key(layout_.starts(sample_), pair.query, pair.rows) / kBlock;
    for (std::int64_t key_block = first; key_block <= block; ++key_block) {
      if (key_block % selection.key_parts != selection.key_part) continue;
      pair.key = key_block * kBlock;
      pair.keys = layout_.rows(key_block);
      multiply_heads(pair, queries_, keys_ + pair.key * d_, d_, weights_);
      multiply_heads(pair, douts_, values_ + pair.key * d_, d_, dweights_);
      if (layout_.dropout.active()) dropout_factors(layout_.dropout, pair, head, sample_, factors_);
      for (int row = 0; row < pair.rows; ++row)
        differentiate(row, visible(pair, row, layout_.starts(sample_)), lse[row]);
      if (selection.keys) {
        multiply_queries(pair, weights_, dout_panels_, width_, dvalues_ + pair.key * width_);
        multiply_queries(pair, dweights_, query_panels_, width_, dkeys_ + pair.key * width_);
      }
      if (selection.queries) multiply_keys(pair, dweights_, key_panels_ + pair.key * width_, width_, dqueries_, true);
    }
    if (selection.queries) write(dqueries_, block, head, scale_);
  }

  /// One row: scores to weights (as the values met them), gradients of weights to gradients of scores.
  void differentiate(int row, KeyRange keys, S lse) {
    S* weights = weights_ + row * kBlock;
    S* dweights = dweights_ + row * kBlock;
    const S delta = deltas_[row];
    std::fill(weights, weights + keys.first, -INFINITY);
    std::fill(weights + keys.last, weights + kBlock, -INFINITY);
    std::fill(dweights + keys.last, dweights + kBlock, S(0));
    const S* factors = factors_ + row * kBlock;
    for (int i = 0; i < kBlock; i += kLanes<S>) {
      const Vector<S> weight = exponential(load(weights + i) - lse);
      if (layout_.dropout.active()) {
        const Vector<S> factor = load(factors + i);
        store<S>(weights + i, weight * factor);
        store<S>(dweights + i, weight * (load(dweights + i) * factor - delta));
      } else {
        store<S>(weights + i, weight);
        store<S>(dweights + i, weight * (load(dweights + i) - delta));
      }
    }
  }

  void write(const S* from, std::int64_t block, std::int64_t part, S factor) const {
    T* to = tensors_.dqkv + layout_.qkv_at(block * kBlock, sample_, part);
    for (int row = 0; row < layout_.rows(block); ++row)
      for (std::int64_t i = 0; i < d_; ++i) to[row * layout_.qkv_pitch() + i] = T(from[row * width_ + i] * factor);
  }

  const AttentionLayout<T>& layout_;
  const Gradients<T>& tensors_;
  std::int64_t d_, width_, sample_ = 0;
  S scale_;
  S *keys_, *values_, *key_panels_, *dkeys_, *dvalues_;                       // of all keys
  S *queries_, *douts_, *query_panels_, *dout_panels_, *dqueries_, *deltas_;  // of a block of queries
  S *weights_, *dweights_, *factors_;                                         // of a pair of blocks
};

/// One pass (5 products a pair of blocks) gives each sample and key/value head to one thread. With few of them, the
/// gradients of queries (3 products) and of keys (4) are formed apart, shared out by blocks. Either way gives the same
/// bits.
template <class T>
struct BackwardPlan {
  std::int64_t parts = 1, items, threads;
  bool one_pass;

  explicit BackwardPlan(const AttentionLayout<T>& layout) {
    const std::int64_t available = core::thread_count(), pairs = layout.shape.b * layout.shape.g;
    one_pass = (pairs + available - 1) / available * 5 * available <= 7 * pairs || layout.blocks() == 1;
    if (!one_pass) parts = std::clamp<std::int64_t>((2 * available + pairs - 1) / pairs, 1, layout.blocks());
    items = one_pass ? pairs : 2 * pairs * parts;
    threads = std::min(available, items);
  }

  Selection selection(std::int64_t item) const {
    if (one_pass) return {};
    const std::int64_t part = item / 2 % parts;
    if (item % 2) return {.queries = true, .keys = false, .query_part = part, .query_parts = parts};
    return {.queries = false, .keys = true, .key_part = part, .key_parts = parts};
  }
  std::int64_t pair(std::int64_t item) const { return one_pass ? item : item / (2 * parts); }
};

template <class T>
void run_backward(const AttentionLayout<T>& layout, const AttentionSaved& saved, const core::Tensor& dout,
                  const core::Tensor& dqkv, core::Arena& scratch) {
  using S = core::accumulate_t<T>;
  const BackwardPlan<T> plan(layout);
  const std::int64_t elements = Backward<T>::memory_elements(layout), g = layout.shape.g;
  const core::Tensor memory = scratch.allocate(core::dtype_of<S>, {plan.threads, elements});
  const Gradients<T> tensors{saved.qkv.as<T>(), saved.out.as<T>(), dout.as<T>(), saved.lse.as<S>(), dqkv.as<T>()};
  std::atomic<std::int64_t> next = 0;
  core::parallel_for(plan.threads, 1, [&](std::int64_t thread, std::int64_t) {
    Backward<T> backward(layout, tensors, memory.as<S>() + thread * elements);
    for (std::int64_t item = next++; item < plan.items; item = next++)
      backward.run(plan.pair(item) / g, plan.pair(item) % g, plan.selection(item));
  });
}

}  // namespace

void attention_backward(Context&, const AttentionShape& shape, const AttentionSaved& saved, const core::Tensor& dout,
                        const std::int32_t* document_start, const Dropout& dropout, const core::Tensor& dqkv,
                        core::Arena& scratch) {
  check_attention(shape, saved.qkv, saved.out, saved.lse);
  check_attention(shape, dqkv, dout, saved.lse);
  core::check(dqkv.data != saved.qkv.data, "attention: the gradient of qkv must not be where qkv is");
  const core::ArenaScope scope(scratch);
  with_compute_type(dqkv.dtype, [&]<class T>(T) {
    run_backward(AttentionLayout<T>{shape, document_start, dropout}, saved, dout, dqkv, scratch);
  });
}

std::size_t attention_backward_bytes(const AttentionShape& shape, core::DType dtype) {
  core::Arena arena;
  with_compute_type(dtype, [&]<class T>(T) {
    const Dropout none;
    const AttentionLayout<T> layout{shape, nullptr, none};
    arena.allocate(core::accumulate_dtype(dtype),
                   {BackwardPlan<T>(layout).threads, Backward<T>::memory_elements(layout)});
  });
  return arena.peak();
}

std::size_t attention_scratch_bytes(const AttentionShape& shape, core::DType dtype) {
  return std::max(attention_forward_bytes(shape, dtype), attention_backward_bytes(shape, dtype));
}

}  // namespace trireme::model
