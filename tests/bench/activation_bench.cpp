#include "model/ops/activation.h"
#include "tests/bench/bandwidth.h"

namespace trireme::bench {
namespace {

struct Values {
  BenchTensor x, y, dx;  // x and dx hold gate and up for SwiGLU, y half as much
  explicit Values(const benchmark::State& state, std::int64_t columns)
      : x(dtype_at(state.range(0)), {kTokens / 2, 4 * kHidden}),
        y(dtype_at(state.range(0)), {kTokens / 2, columns}),
        dx(dtype_at(state.range(0)), {kTokens / 2, 4 * kHidden}) {}
};

void gelu_forward(benchmark::State& state) {
  const Values v(state, 4 * kHidden);
  measure_traffic(state, bytes_of({&v.x, &v.y}), [&] { model::gelu_forward(*v.x, *v.y); });
}

void gelu_backward(benchmark::State& state) {
  const Values v(state, 4 * kHidden);
  measure_traffic(state, bytes_of({&v.x, &v.y, &v.dx}), [&] { model::gelu_backward(*v.x, *v.y, *v.dx); });
}

void swiglu_forward(benchmark::State& state) {
  const Values v(state, 2 * kHidden);
  measure_traffic(state, bytes_of({&v.x, &v.y}), [&] { model::swiglu_forward(*v.x, *v.y); });
}

void swiglu_backward(benchmark::State& state) {
  const Values v(state, 2 * kHidden);
  measure_traffic(state, bytes_of({&v.x, &v.y, &v.dx}), [&] { model::swiglu_backward(*v.x, *v.y, *v.dx); });
}

BENCHMARK(gelu_forward)->Apply(both_types);
BENCHMARK(gelu_backward)->Apply(both_types);
BENCHMARK(swiglu_forward)->Apply(both_types);
BENCHMARK(swiglu_backward)->Apply(both_types);

}  // namespace
}  // namespace trireme::bench
