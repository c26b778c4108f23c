#include <benchmark/benchmark.h>

#include "model/ops/attention.h"
#include "tests/bench/bench_tensor.h"

namespace trireme::bench {
namespace {

/// Arguments: dtype, s, dropout in percent; micro-batch 4, 12 heads of 64.
struct Heads {
  model::AttentionShape shape;
  core::DType dtype;
  BenchTensor qkv, dqkv, out, dout, lse;
  model::Dropout dropout;
  core::Arena arena;
  model::Context context;

  explicit Heads(const benchmark::State& state)
      : shape{.s = state.range(1), .b = 4, .a = 12, .g = 12, .d = 64},
        dtype(dtype_at(state.range(0))),
        qkv(dtype, {shape.s, shape.b, shape.row()}),
        dqkv(dtype, {shape.s, shape.b, shape.row()}),
        out(dtype, {shape.s, shape.b, shape.a * shape.d}),
        dout(dtype, {shape.s, shape.b, shape.a * shape.d}),
        lse(core::DType::f32, {shape.b, shape.a, shape.s}),
        dropout{.rate = static_cast<double>(state.range(2)) / 100, .seed = 1},
        arena(attention_scratch_bytes(shape, dtype), "benchmark") {}

  void forward() { attention_forward(context, shape, *qkv, nullptr, dropout, *out, *lse, arena); }
  void backward() { attention_backward(context, shape, {*qkv, *out, *lse}, *dout, nullptr, dropout, *dqkv, arena); }
  /// Counts the products below the diagonal only.
  void report(benchmark::State& state, int products) const {
    const auto length = static_cast<double>(shape.s);
    const double operations = products * length * length * static_cast<double>(shape.b * shape.a * shape.d);
    state.counters["FLOP/s"] = benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate);
    state.SetLabel(std::string(name_of(dtype)));
  }
};

void attention_forward(benchmark::State& state) {
  const auto heads = std::make_unique<Heads>(state);
  for (auto step : state) heads->forward();
  heads->report(state, 2);
}

void attention_backward(benchmark::State& state) {
  const auto heads = std::make_unique<Heads>(state);
  heads->forward();
  for (auto step : state) heads->backward();
  heads->report(state, 5);
}

void gpt2_shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"bf16", "s", "dropout"})->Unit(benchmark::kMillisecond)->UseRealTime();
  for (const std::int64_t dtype : {0, 1})
    for (const std::int64_t s : {256, 1024})
      for (const std::int64_t percent : {0, 10}) bench->Args({dtype, s, percent});
}

BENCHMARK(attention_forward)->Apply(gpt2_shapes);
BENCHMARK(attention_backward)->Apply(gpt2_shapes);

}  // namespace
}  // namespace trireme::bench
