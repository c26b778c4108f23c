#include <algorithm>

#include "core/clock.h"
#include "core/parallel_for.h"
#include "model/ops/product.h"
#include "model/ops/product_state.h"
#include "model/ops/product_tile.h"

namespace trireme::model {

namespace {

/// Extents of one linear layer: T tokens, i inputs, o outputs.
struct Extents {
  std::int64_t T = 0, i = 0, o = 0;
};

Extents check_extents(const core::Tensor& x, const core::Tensor& y, const core::Tensor& w) {
  const Extents e{x.shape.rows(), w.shape.last(), w.shape.rows()};
  core::check(x.shape.last() == e.i && y.shape.rows() == e.T && y.shape.last() >= e.o,
              "linear layer: inputs {}, outputs {}, weight {}", x.shape.text(), y.shape.text(), w.shape.text());
  return e;
}

void check_dtypes(const core::Tensor& first, const core::Tensor& second, const core::Tensor& third) {
  core::check(first.dtype == second.dtype && first.dtype == third.dtype && first.dtype != core::DType::i32,
              "linear layer: {}, {} and {}", name_of(first.dtype), name_of(second.dtype), name_of(third.dtype));
}

Operand rows_of(const core::Tensor& t) { return {t.data, t.dtype, t.shape.last(), 1}; }
Operand transposed(const core::Tensor& t) { return {t.data, t.dtype, 1, t.shape.last()}; }

constexpr std::int64_t kFewTokens = 6;  // up to here, packing the weights costs more than the product

template <class T>
core::accumulate_t<T> inner_product(const T* x, const T* y, std::int64_t n) {
  using S = core::accumulate_t<T>;
  constexpr int kWidth = kLanes<S>, kSums = 4;
  Vector<S> sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums * kWidth <= n; i += kSums * kWidth)
#pragma GCC unroll 4
    for (int part = 0; part < kSums; ++part) {
      S left[kWidth], right[kWidth];
      widen(x + i + part * kWidth, kWidth, left);
      widen(y + i + part * kWidth, kWidth, right);
      sums[part] += load(left) * load(right);
    }
  const Vector<S> all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  S sum = 0;
  for (int lane = 0; lane < kWidth; ++lane) sum += all[lane];
  for (; i < n; ++i) sum += S(x[i]) * S(y[i]);
  return sum;
}

/// Generation's products, of a token or a few: each row of w is read once, where it lies.
template <class T>
void forward_few(const Extents& e, const core::Tensor& x, const core::Tensor& w, const core::Tensor& bias,
                 const core::Tensor& y) {
  using S = core::accumulate_t<T>;
  core::parallel_for(e.o, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o)
      for (std::int64_t t = 0; t < e.T; ++t) {
        const S sum = inner_product(x.as<T>() + t * e.i, w.as<T>() + o * e.i, e.i);
        y.as<T>()[t * y.shape.last() + o] = T(bias ? sum + S(bias.as<T>()[o]) : sum);
      }
  });
}

}  // namespace

void linear_forward(Context& context, const core::Tensor& x, const core::Tensor& w, const core::Tensor& bias,
                    const core::Tensor& y) {
  const Extents e = check_extents(x, y, w);
  check_dtypes(x, w, y);
  core::check(!bias || (bias.elements() == e.o && bias.dtype == x.dtype), "linear layer: bias {} {} for {} outputs",
              name_of(bias.dtype), bias.shape.text(), e.o);
  if (e.T <= kFewTokens) {
    if (x.dtype == core::DType::f64) return forward_few<double>(e, x, w, bias, y);
    if (x.dtype == core::DType::bf16) return forward_few<core::bf16>(e, x, w, bias, y);
    return forward_few<float>(e, x, w, bias, y);
  }
  const PackedProduct product{.m = e.T,
                              .n = e.o,
                              .k = e.i,
                              .a = rows_of(x),
                              .b = transposed(w),
                              .c = y.data,
                              .c_dtype = y.dtype,
                              .c_pitch = y.shape.last(),
                              .bias = bias.data};
  context.products.state().multiply(product);
}

void linear_backward_input(Context& context, const core::Tensor& dy, const core::Tensor& w, const core::Tensor& dx) {
  const Extents e = check_extents(dx, dy, w);
  check_dtypes(dy, w, dx);
  const PackedProduct product{.m = e.T,
                              .n = e.i,
                              .k = e.o,
                              .a = rows_of(dy),
                              .b = rows_of(w),
                              .c = dx.data,
                              .c_dtype = dx.dtype,
                              .c_pitch = dx.shape.last()};
  context.products.state().multiply(product);
}

void linear_backward_weight(Context& context, const core::Tensor& dy, const core::Tensor& x, const core::Tensor& dw,
                            const core::Tensor& db) {
  const Extents e = check_extents(x, dy, dw);
  const core::DType sums = accumulate_dtype(x.dtype);
  check_dtypes(dy, x, x);
  core::check(dw.dtype == sums && (!db || (db.dtype == sums && db.elements() == e.o)),
              "linear layer: weight gradient {}, bias gradient {} {} for {} outputs", name_of(dw.dtype),
              name_of(db.dtype), db.shape.text(), e.o);
  const PackedProduct product{.m = e.o,
                              .n = e.i,
                              .k = e.T,
                              .a = transposed(dy),
                              .b = rows_of(x),
                              .c = dw.data,
                              .c_dtype = sums,
                              .c_pitch = dw.shape.last(),
                              .add = true,
                              .row_sums = db.data};
  context.products.state().multiply(product);
}

double measure_product_rate(Context& context, core::DType dtype) {
  constexpr std::int64_t kSide = 2048;
  constexpr double kSeconds = 0.4;
  const std::size_t bytes = static_cast<std::size_t>(kSide * kSide) * size_of(dtype);
  const core::Buffer x(bytes, "measuring products"), w(bytes, "measuring products"), y(bytes, "measuring products");
  const auto square = [&](const core::Buffer& buffer) { return core::Tensor{buffer.data(), dtype, {kSide, kSide}}; };
  const double flops = 2.0 * kSide * kSide * kSide;
  const double begin = core::now();
  double best = 0;
  do {
    const double start = core::now();
    linear_forward(context, square(x), square(w), {}, square(y));
    best = std::max(best, flops / (core::now() - start));
  } while (core::now() - begin < kSeconds);
  return best;
}

}  // namespace trireme::model
