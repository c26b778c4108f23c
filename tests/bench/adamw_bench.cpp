#include <vector>

#include "model/ops/adamw.h"
#include "model/ops/cross_entropy.h"
#include "tests/bench/bandwidth.h"

namespace trireme::bench {
namespace {

constexpr core::DType kF32 = core::DType::f32;

void adamw(benchmark::State& state) {
  const core::Shape n{kTokens * kHidden};
  const bool apart = state.range(0) != 0;
  const BenchTensor gradient(kF32, n), m(kF32, n), v(kF32, n), master(kF32, n), weight(core::DType::bf16, n);
  model::set_zero(*m), model::set_zero(*v);
  const double bytes = 2 * bytes_of({&gradient, &m, &v, &master}) + (apart ? bytes_of({&weight}) : 0);
  measure_traffic(state, bytes, [&] {
    model::adamw({.lr = 1e-3, .weight_decay = 0.1}, {*gradient, *m, *v, *master, apart ? *weight : core::Tensor{}});
  });
}

void sum_of_squares(benchmark::State& state) {
  const BenchTensor x(dtype_at(state.range(0)), {2 * kTokens * kHidden});
  measure_traffic(state, bytes_of({&x}), [&] { benchmark::DoNotOptimize(model::sum_of_squares(*x)); });
}

/// To bf16, or back from it.
void convert(benchmark::State& state) {
  const core::Shape n{kTokens * kHidden};
  const BenchTensor from(dtype_at(state.range(0)), n), to(dtype_at(1 - state.range(0)), n);
  measure_traffic(state, bytes_of({&from, &to}), [&] { model::convert(*from, *to); });
}

void set_zero(benchmark::State& state) {
  const BenchTensor x(dtype_at(state.range(0)), {2 * kTokens * kHidden});
  measure_traffic(state, bytes_of({&x}), [&] { model::set_zero(*x); });
}

void cross_entropy(benchmark::State& state, bool gradient) {
  constexpr std::int64_t kRows = 64, kColumns = 50304, kClasses = 50257;
  const BenchTensor logits(dtype_at(state.range(0)), {kRows, kColumns}), losses(kF32, {kRows});
  const std::vector<std::int32_t> targets(kRows, 11);
  measure_traffic(state, (gradient ? 2 : 1) * bytes_of({&logits}),
                  [&] { model::cross_entropy(*logits, kClasses, targets.data(), gradient, *losses); });
}

BENCHMARK(adamw)->Apply(both_types);
BENCHMARK(sum_of_squares)->Apply(both_types);
BENCHMARK(convert)->Apply(both_types);
BENCHMARK(set_zero)->Apply(both_types);
BENCHMARK_CAPTURE(cross_entropy, losses, false)->Apply(both_types);
BENCHMARK_CAPTURE(cross_entropy, gradient, true)->Apply(both_types);

}  // namespace
}  // namespace trireme::bench
