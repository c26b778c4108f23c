#include <cmath>

#include "core/parallel_for.h"
#include "model/ops/attention.h"

namespace trireme::model {

namespace {

void check_shapes(const AttentionShape& shape, const core::Tensor& qkv, const core::Tensor& out,
                  const core::Tensor& lse) {
  core::check(shape.s > 0 && shape.b > 0 && shape.g > 0 && shape.d > 0 && shape.a % shape.g == 0,
              "attention: s {} b {} a {} g {} d {}", shape.s, shape.b, shape.a, shape.g, shape.d);
  const core::Shape packed{shape.s, shape.b, shape.row()}, heads{shape.s, shape.b, shape.a * shape.d};
  core::check(qkv.shape == packed && out.shape == heads && out.dtype == qkv.dtype, "attention: qkv {}, out {}",
              qkv.shape.text(), out.shape.text());
  core::check(lse.elements() == shape.b * shape.a * shape.s && lse.dtype == accumulate_dtype(qkv.dtype),
              "attention: log-sum-exp {} {}", name_of(lse.dtype), lse.shape.text());
}

/// One query row: its probabilities and what is needed to make them again.
template <class T>
struct Row {
  using Sum = core::accumulate_t<T>;
  const AttentionShape& shape;
  const T* qkv;
  const std::int32_t* document_start;
  const Dropout& dropout;
  std::int64_t sample, head;

  std::int64_t group() const { return head / (shape.a / shape.g); }
  const T* at(std::int64_t position, std::int64_t part) const {
    return qkv + (position * shape.b + sample) * shape.row() + part * shape.d;
  }
  const T* key(std::int64_t position) const { return at(position, shape.a + group()); }
  const T* value(std::int64_t position) const { return at(position, shape.a + shape.g + group()); }
  std::int64_t first(std::int64_t query) const { return document_start ? document_start[sample * shape.s + query] : 0; }
  Sum scores(std::int64_t query, Sum* to) const {
    const Sum scale = Sum(1) / std::sqrt(static_cast<Sum>(shape.d));
    Sum largest = -INFINITY;
    for (std::int64_t k = first(query); k <= query; ++k) {
      Sum sum = 0;
      for (std::int64_t i = 0; i < shape.d; ++i) sum += Sum(at(query, head)[i]) * Sum(key(k)[i]);
      to[k] = sum * scale;
      largest = std::max(largest, to[k]);
    }
    return largest;
  }
  Sum kept(std::int64_t query, std::int64_t k) const {
    if (!dropout.active()) return 1;
    const auto words =
        dropout.words(static_cast<std::uint32_t>((head << 20) + k / 4), static_cast<std::uint32_t>(query), sample);
    return words[static_cast<std::size_t>(k % 4)] < dropout.threshold() ? Sum(0) : Sum(1 / (1 - dropout.rate));
  }
};

template <class T>
void forward_head(const Row<T>& row, T* out, core::accumulate_t<T>* lse, core::accumulate_t<T>* memory) {
  using Sum = core::accumulate_t<T>;
  const AttentionShape& shape = row.shape;
  for (std::int64_t q = 0; q < shape.s; ++q) {
    const Sum largest = row.scores(q, memory);
    Sum total = 0;
    Sum* sums = memory + shape.s;
    std::fill_n(sums, shape.d, Sum(0));
    for (std::int64_t k = row.first(q); k <= q; ++k) {
      const Sum p = std::exp(memory[k] - largest);
      total += p;
      for (std::int64_t i = 0; i < shape.d; ++i) sums[i] += p * row.kept(q, k) * Sum(row.value(k)[i]);
    }
    for (std::int64_t i = 0; i < shape.d; ++i) out[q * shape.b * shape.a * shape.d + i] = T(sums[i] / total);
    lse[q] = largest + std::log(total);
  }
}

/// The gradients of one sample and key/value head, summed in `sums` [3, s, d] (query, key, value), the first one anew
/// for each query head.
template <class T>
void backward_head(const Row<T>& row, const T* out, const T* dout, const core::accumulate_t<T>* lse,
                   core::accumulate_t<T>* memory) {
  using Sum = core::accumulate_t<T>;
  const AttentionShape& shape = row.shape;
  const Sum scale = Sum(1) / std::sqrt(static_cast<Sum>(shape.d));
  Sum* dq = memory + shape.s;
  Sum* dk = dq + shape.s * shape.d;
  Sum* dv = dk + shape.s * shape.d;
  for (std::int64_t q = 0; q < shape.s; ++q) {
    const std::int64_t at = q * shape.b * shape.a * shape.d;
    row.scores(q, memory);
    Sum delta = 0;
    for (std::int64_t i = 0; i < shape.d; ++i) delta += Sum(out[at + i]) * Sum(dout[at + i]);
    for (std::int64_t k = row.first(q); k <= q; ++k) {
      const Sum p = std::exp(memory[k] - lse[q]), kept = row.kept(q, k);
      Sum dp = 0;
      for (std::int64_t i = 0; i < shape.d; ++i) dp += Sum(dout[at + i]) * Sum(row.value(k)[i]);
      const Sum ds = p * (dp * kept - delta) * scale;
      for (std::int64_t i = 0; i < shape.d; ++i) {
        dv[k * shape.d + i] += p * kept * Sum(dout[at + i]);
        dk[k * shape.d + i] += ds * Sum(row.at(q, row.head)[i]);
        dq[q * shape.d + i] += ds * Sum(row.key(k)[i]);
      }
    }
  }
}

std::int64_t memory_elements(const AttentionShape& shape) { return shape.s + (3 * shape.s + 1) * shape.d; }

template <class T>
void run_forward(const AttentionShape& shape, const core::Tensor& qkv, const std::int32_t* document_start,
                 const Dropout& dropout, const core::Tensor& out, const core::Tensor& lse, core::Arena& scratch) {
  using Sum = core::accumulate_t<T>;
  const std::int64_t threads = core::thread_count(), items = shape.b * shape.a;
  const core::Tensor memory = scratch.allocate(core::dtype_of<Sum>, {threads, memory_elements(shape)});
  core::parallel_for(threads, 1, [&](std::int64_t thread, std::int64_t) {
    for (std::int64_t item = thread; item < items; item += threads) {
      const Row<T> row{shape, qkv.as<T>(), document_start, dropout, item / shape.a, item % shape.a};
      forward_head(row, out.as<T>() + item * shape.d, lse.as<Sum>() + item * shape.s,
                   memory.as<Sum>() + thread * memory_elements(shape));
    }
  });
}

template <class T>
void run_backward(const AttentionShape& shape, const AttentionSaved& saved, const core::Tensor& dout,
                  const std::int32_t* document_start, const Dropout& dropout, const core::Tensor& dqkv,
                  core::Arena& scratch) {
  using Sum = core::accumulate_t<T>;
  const std::int64_t threads = core::thread_count(), items = shape.b * shape.g, sd = shape.s * shape.d;
  const core::Tensor memory = scratch.allocate(core::dtype_of<Sum>, {threads, memory_elements(shape)});
  core::parallel_for(threads, 1, [&](std::int64_t thread, std::int64_t) {
    Sum* own = memory.as<Sum>() + thread * memory_elements(shape);
    for (std::int64_t item = thread; item < items; item += threads) {
      const std::int64_t sample = item / shape.g, group = item % shape.g, share = shape.a / shape.g;
      const auto write = [&](const Sum* from, std::int64_t part) {
        for (std::int64_t q = 0; q < shape.s; ++q)
          for (std::int64_t i = 0; i < shape.d; ++i)
            dqkv.as<T>()[(q * shape.b + sample) * shape.row() + part * shape.d + i] = T(from[q * shape.d + i]);
      };
      std::fill_n(own + shape.s, 3 * sd, Sum(0));
      for (std::int64_t head = group * share; head < (group + 1) * share; ++head) {
        const std::int64_t index = sample * shape.a + head;
        std::fill_n(own + shape.s, sd, Sum(0));
        const Row<T> row{shape, saved.qkv.as<T>(), document_start, dropout, sample, head};
        backward_head(row, saved.out.as<T>() + index * shape.d, dout.as<T>() + index * shape.d,
                      saved.lse.as<Sum>() + index * shape.s, own);
        write(own + shape.s, head);
      }
      write(own + shape.s + sd, shape.a + group);
      write(own + shape.s + 2 * sd, shape.a + shape.g + group);
    }
  });
}

}  // namespace

void attention_forward(Context&, const AttentionShape& shape, const core::Tensor& qkv,
                       const std::int32_t* document_start, const Dropout& dropout, const core::Tensor& out,
                       const core::Tensor& lse, core::Arena& scratch) {
  check_shapes(shape, qkv, out, lse);
  const core::ArenaScope scope(scratch);
  switch (qkv.dtype) {
    case core::DType::bf16:
      return run_forward<core::bf16>(shape, qkv, document_start, dropout, out, lse, scratch);
    case core::DType::f64:
      return run_forward<double>(shape, qkv, document_start, dropout, out, lse, scratch);
    default:
      return run_forward<float>(shape, qkv, document_start, dropout, out, lse, scratch);
  }
}

void attention_backward(Context&, const AttentionShape& shape, const AttentionSaved& saved, const core::Tensor& dout,
                        const std::int32_t* document_start, const Dropout& dropout, const core::Tensor& dqkv,
                        core::Arena& scratch) {
  check_shapes(shape, saved.qkv, saved.out, saved.lse);
  check_shapes(shape, dqkv, dout, saved.lse);
  const core::ArenaScope scope(scratch);
  switch (dqkv.dtype) {
    case core::DType::bf16:
      return run_backward<core::bf16>(shape, saved, dout, document_start, dropout, dqkv, scratch);
    case core::DType::f64:
      return run_backward<double>(shape, saved, dout, document_start, dropout, dqkv, scratch);
    default:
      return run_backward<float>(shape, saved, dout, document_start, dropout, dqkv, scratch);
  }
}

std::size_t attention_scratch_bytes(const AttentionShape& shape, core::DType dtype) {
  core::Arena arena;
  arena.allocate(core::accumulate_dtype(dtype), {core::thread_count(), memory_elements(shape)});
  return arena.peak();
}

}  // namespace trireme::model
