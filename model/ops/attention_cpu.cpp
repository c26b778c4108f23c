#include <atomic>

#include "core/parallel_for.h"
#include "model/ops/attention.h"
#include "model/ops/attention_checks.h"
#include "model/ops/attention_tile.h"

namespace trireme::model {

namespace {

/// One thread's forward: flash attention (Dao et al. 2022) with running maximum and sum.
template <class T>
class Forward {
 public:
  using S = core::accumulate_t<T>;
  static constexpr int kWidth = kLanes<S>;

  static std::int64_t memory_elements(const AttentionLayout<T>& layout) {
    const std::int64_t d = layout.shape.d, width = layout.width();
    return layout.blocks() * kBlock * (d + width) + kBlock * (d + width + 2 * kBlock + 1 + kWidth);
  }

  Forward(const AttentionLayout<T>& layout, S* memory) : layout_(layout), d_(layout.shape.d), width_(layout.width()) {
    const auto take = [&](std::int64_t elements) { return std::exchange(memory, memory + elements); };
    keys_ = take(layout.blocks() * kBlock * d_);
    values_ = take(layout.blocks() * kBlock * width_);
    queries_ = take(kBlock * d_);
    sums_ = take(kBlock * width_);
    scores_ = take(kBlock * kBlock);
    factors_ = take(kBlock * kBlock);
    totals_ = take(kBlock * kWidth);
    largest_ = take(kBlock);
  }

  void pack(const T* qkv, std::int64_t sample, std::int64_t group) {
    const std::int64_t key_part = layout_.shape.a + group, value_part = key_part + layout_.shape.g;
    for (std::int64_t block = 0; block < layout_.blocks(); ++block) {
      const std::int64_t position = block * kBlock;
      pack_transposed_panels(qkv + layout_.qkv_at(position, sample, key_part), layout_.qkv_pitch(), layout_.rows(block),
                             d_, keys_ + position * d_);
      pack_panels(qkv + layout_.qkv_at(position, sample, value_part), layout_.qkv_pitch(), layout_.rows(block), d_,
                  values_ + position * width_);
    }
  }

  /// One block of queries of a head, all keys.
  void run(const T* qkv, std::int64_t sample, std::int64_t head, std::int64_t block, T* out, S* lse) {
    BlockPair pair{.query = block * kBlock, .rows = layout_.rows(block)};
    pack_columns(qkv + layout_.qkv_at(pair.query, sample, head), layout_.qkv_pitch(), pair.rows, d_, queries_);
    multiply_all(queries_, kBlock * d_, S(1) / std::sqrt(S(d_)));
    std::fill_n(largest_, kBlock, -INFINITY);
    std::fill_n(totals_, kBlock * kWidth, S(0));
    std::fill_n(sums_, kBlock * width_, S(0));
    for (pair.key = first_key(layout_.starts(sample), pair.query, pair.rows); pair.key <= pair.query;
         pair.key += kBlock) {
      pair.keys = layout_.rows(pair.key / kBlock);
      multiply_heads(pair, queries_, keys_ + pair.key * d_, d_, scores_);
      if (layout_.dropout.active()) dropout_factors(layout_.dropout, pair, head, sample, factors_);
      for (int row = 0; row < pair.rows; ++row) weigh(row, visible(pair, row, layout_.starts(sample)));
      multiply_keys(pair, scores_, values_ + pair.key * width_, width_, sums_, true);
    }
    finish(pair, out + layout_.out_at(pair.query, sample, head), lse + pair.query);
  }

 private:
  /// Scores of one row to weights relative to the largest score so far; what was summed before is scaled to it.
  void weigh(int row, KeyRange keys) {
    S* scores = scores_ + row * kBlock;
    std::fill(scores, scores + keys.first, -INFINITY);
    std::fill(scores + keys.last, scores + kBlock, -INFINITY);
    Vector<S> most = load(scores);
    for (int i = kWidth; i < kBlock; i += kWidth) {
      const Vector<S> some = load(scores + i);
      most = some > most ? some : most;
    }
    const S before = largest_[row];
    const S largest = std::max(before, largest_lane<S>(most));
    if (largest == -INFINITY) {
      std::fill_n(scores, kBlock, S(0));
      return;
    }
    Vector<S> total = {};
    for (int i = 0; i < kBlock; i += kWidth) {
      const Vector<S> weights = exponential(load(scores + i) - largest);
      total += weights;
      store<S>(scores + i, weights);
    }
    if (layout_.dropout.active())
      for (int i = 0; i < keys.last; ++i) scores[i] *= factors_[row * kBlock + i];
    S* totals = totals_ + row * kWidth;
    if (largest != before) {
      const S shrink = exponential_of<S>(before - largest);
      store<S>(totals, load(totals) * shrink);
      multiply_all(sums_ + row * width_, width_, shrink);
      largest_[row] = largest;
    }
    store<S>(totals, load(totals) + total);
  }

  void finish(const BlockPair& pair, T* out, S* lse) const {
    for (int row = 0; row < pair.rows; ++row) {
      const S total = sum_of_lanes<S>(load(totals_ + row * kWidth));
      const S share = S(1) / total;
      for (std::int64_t i = 0; i < d_; ++i) out[row * layout_.out_pitch() + i] = T(sums_[row * width_ + i] * share);
      lse[row] = largest_[row] + std::log(total);
    }
  }

  const AttentionLayout<T>& layout_;
  std::int64_t d_, width_;
  S *keys_, *values_, *queries_, *sums_, *scores_, *factors_, *totals_, *largest_;
};

template <class T>
struct ForwardPlan {
  std::int64_t parts, items, threads;

  /// A sample and key/value head is shared out by query blocks only where there are too few of them.
  explicit ForwardPlan(const AttentionLayout<T>& layout) {
    const std::int64_t available = core::thread_count(), pairs = layout.shape.b * layout.shape.g;
    parts = std::clamp<std::int64_t>((2 * available + pairs - 1) / pairs, 1, layout.blocks());
    if (pairs % available == 0) parts = 1;
    items = pairs * parts;
    threads = std::min(available, items);
  }
};

template <class T>
void run_forward(const AttentionLayout<T>& layout, const core::Tensor& qkv, const core::Tensor& out,
                 const core::Tensor& lse, core::Arena& scratch) {
  using S = core::accumulate_t<T>;
  const ForwardPlan<T> plan(layout);
  const std::int64_t elements = Forward<T>::memory_elements(layout);
  const core::Tensor memory = scratch.allocate(core::dtype_of<S>, {plan.threads, elements});
  const AttentionShape& shape = layout.shape;
  std::atomic<std::int64_t> next = 0;
  core::parallel_for(plan.threads, 1, [&](std::int64_t thread, std::int64_t) {
    Forward<T> forward(layout, memory.as<S>() + thread * elements);
    for (std::int64_t item = next++; item < plan.items; item = next++) {
      const std::int64_t pair = item / plan.parts, sample = pair / shape.g, group = pair % shape.g;
      forward.pack(qkv.as<T>(), sample, group);
      for (std::int64_t head = group * layout.share(); head < (group + 1) * layout.share(); ++head)
        for (std::int64_t block = item % plan.parts; block < layout.blocks(); block += plan.parts)
          forward.run(qkv.as<T>(), sample, head, block, out.as<T>(), lse.as<S>() + (sample * shape.a + head) * shape.s);
    }
  });
}

}  // namespace

void attention_forward(Context&, const AttentionShape& shape, const core::Tensor& qkv,
                       const std::int32_t* document_start, const Dropout& dropout, const core::Tensor& out,
                       const core::Tensor& lse, core::Arena& scratch) {
  check_attention(shape, qkv, out, lse);
  const core::ArenaScope scope(scratch);
  with_compute_type(qkv.dtype, [&]<class T>(T) {
    run_forward(AttentionLayout<T>{shape, document_start, dropout}, qkv, out, lse, scratch);
  });
}

std::size_t attention_forward_bytes(const AttentionShape& shape, core::DType dtype) {
  core::Arena arena;
  with_compute_type(dtype, [&]<class T>(T) {
    const Dropout none;
    const AttentionLayout<T> layout{shape, nullptr, none};
    arena.allocate(core::accumulate_dtype(dtype),
                   {ForwardPlan<T>(layout).threads, Forward<T>::memory_elements(layout)});
  });
  return arena.peak();
}

}  // namespace trireme::model
