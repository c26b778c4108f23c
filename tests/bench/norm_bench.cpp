#include <vector>

#include "model/ops/adamw.h"
#include "model/ops/norm.h"
#include "tests/bench/bandwidth.h"

namespace trireme::bench {
namespace {

struct Layer {
  core::DType dtype;
  BenchTensor x, branch, sum, y, weight, bias, mean, rstd, dweight, dbias;

  explicit Layer(const benchmark::State& state)
      : dtype(dtype_at(state.range(0))),
        x(dtype, {kTokens, kHidden}),
        branch(dtype, {kTokens, kHidden}),
        sum(dtype, {kTokens, kHidden}),
        y(dtype, {kTokens, kHidden}),
        weight(dtype, {kHidden}),
        bias(dtype, {kHidden}),
        mean(core::DType::f32, {kTokens}),
        rstd(core::DType::f32, {kTokens}),
        dweight(core::DType::f32, {kHidden}),
        dbias(core::DType::f32, {kHidden}) {}
  model::NormWeights weights(bool layer) const { return {*weight, layer ? *bias : core::Tensor{}}; }
  model::NormStatistics statistics(bool layer) const { return {layer ? *mean : core::Tensor{}, *rstd}; }
  model::NormGradients gradients(bool layer) const { return {*dweight, layer ? *dbias : core::Tensor{}}; }
};

template <bool kLayerNorm>
void norm_forward(benchmark::State& state) {
  const Layer l(state);
  measure_traffic(state, bytes_of({&l.x, &l.y}),
                  [&] { model::norm_forward(l.weights(kLayerNorm), *l.x, *l.y, l.statistics(kLayerNorm)); });
}

template <bool kLayerNorm>
void add_norm_forward(benchmark::State& state) {
  const Layer l(state);
  measure_traffic(state, bytes_of({&l.x, &l.branch, &l.sum, &l.y}), [&] {
    model::add_norm_forward(l.weights(kLayerNorm), *l.x, *l.branch, *l.sum, *l.y, l.statistics(kLayerNorm));
  });
}

template <bool kLayerNorm>
void norm_backward(benchmark::State& state) {
  const Layer l(state);
  model::norm_forward(l.weights(kLayerNorm), *l.x, *l.y, l.statistics(kLayerNorm));
  measure_traffic(state, bytes_of({&l.x, &l.branch, &l.sum, &l.sum}), [&] {
    model::norm_backward(l.weights(kLayerNorm), l.statistics(kLayerNorm), *l.x, *l.branch, *l.sum, *l.sum,
                         l.gradients(kLayerNorm));
  });
}

/// QK-norm of 12 query and 4 key heads of size 64; weights of 1, so that values in place do not become subnormal.
struct Heads {
  core::DType dtype;
  BenchTensor qkv, raw, rstd, weight, dweight;
  explicit Heads(const benchmark::State& state)
      : dtype(dtype_at(state.range(0))),
        qkv(dtype, {kTokens, 20 * 64}),
        raw(dtype, {kTokens, 16 * 64}),
        rstd(core::DType::f32, {kTokens, 16}),
        weight(dtype, {64}),
        dweight(core::DType::f32, {64}) {
    const std::vector<float> ones(64, 1.0f);
    model::convert(core::view(ones.data(), {64}), *weight);
  }
  model::HeadNorm norm() const { return {12, 4, 64, *weight, *weight}; }
};

void head_norm_forward(benchmark::State& state) {
  const Heads h(state);
  measure_traffic(state, 3 * bytes_of({&h.raw}), [&] { model::head_norm_forward(h.norm(), *h.qkv, *h.raw, *h.rstd); });
}

void head_norm_backward(benchmark::State& state) {
  const Heads h(state);
  model::head_norm_forward(h.norm(), *h.qkv, *h.raw, *h.rstd);
  measure_traffic(state, 3 * bytes_of({&h.raw}),
                  [&] { model::head_norm_backward(h.norm(), *h.raw, *h.rstd, *h.qkv, *h.dweight, *h.dweight); });
}

BENCHMARK(norm_forward<true>)->Apply(both_types);
BENCHMARK(norm_forward<false>)->Apply(both_types);
BENCHMARK(add_norm_forward<true>)->Apply(both_types);
BENCHMARK(add_norm_forward<false>)->Apply(both_types);
BENCHMARK(norm_backward<true>)->Apply(both_types);
BENCHMARK(norm_backward<false>)->Apply(both_types);
BENCHMARK(head_norm_forward)->Apply(both_types);
BENCHMARK(head_norm_backward)->Apply(both_types);

}  // namespace
}  // namespace trireme::bench
