#include <benchmark/benchmark.h>

#include "model/ops/product.h"
#include "tests/bench/bench_tensor.h"

namespace trireme::bench {
namespace {

/// Arguments: dtype, tokens, inputs, outputs; the head's logits have rows of 50304.
struct Layer {
  std::int64_t tokens, inputs, outputs;
  core::DType dtype;
  BenchTensor x, w, bias, y, dw, db;
  model::Context context;

  explicit Layer(const benchmark::State& state)
      : tokens(state.range(1)),
        inputs(state.range(2)),
        outputs(state.range(3)),
        dtype(dtype_at(state.range(0))),
        x(dtype, {tokens, inputs}),
        w(dtype, {outputs, inputs}),
        bias(dtype, {outputs}),
        y(dtype, {tokens, (outputs + 63) / 64 * 64}),
        dw(core::DType::f32, {outputs, inputs}),
        db(core::DType::f32, {outputs}) {}

  bool head() const { return outputs > 50000; }
  void report(benchmark::State& state) const {
    const double operations =
        2.0 * static_cast<double>(tokens) * static_cast<double>(inputs) * static_cast<double>(outputs);
    state.counters["FLOP/s"] = benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate);
    state.SetLabel(std::string(name_of(dtype)));
  }
};

void forward(benchmark::State& state) {
  const auto layer = std::make_unique<Layer>(state);
  for (auto step : state)
    linear_forward(layer->context, *layer->x, *layer->w, layer->head() ? core::Tensor{} : *layer->bias, *layer->y);
  layer->report(state);
}

void backward_input(benchmark::State& state) {
  const auto layer = std::make_unique<Layer>(state);
  for (auto step : state) linear_backward_input(layer->context, *layer->y, *layer->w, *layer->x);
  layer->report(state);
}

void backward_weight(benchmark::State& state) {
  const auto layer = std::make_unique<Layer>(state);
  for (auto step : state)
    linear_backward_weight(layer->context, *layer->y, *layer->x, *layer->dw,
                           layer->head() ? core::Tensor{} : *layer->db);
  layer->report(state);
}

/// The largest rate of a product: what MFU is stated against.
void ceiling(benchmark::State& state) {
  model::Context context;
  double best = 0;
  for (auto step : state) best = std::max(best, measure_product_rate(context, dtype_at(state.range(0))));
  state.counters["FLOP/s"] = best;
  state.SetLabel(std::string(name_of(dtype_at(state.range(0)))));
}

void gpt2_shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"bf16", "T", "i", "o"})->Unit(benchmark::kMillisecond)->UseRealTime();
  for (const std::int64_t dtype : {0, 1})
    for (const std::int64_t tokens : {1024, 4096})
      for (const auto& [inputs, outputs] :
           {std::pair{768, 2304}, std::pair{768, 768}, std::pair{768, 3072}, std::pair{3072, 768}})
        bench->Args({dtype, tokens, inputs, outputs});
  for (const std::int64_t dtype : {0, 1}) bench->Args({dtype, 1024, 768, 50257});
}

BENCHMARK(forward)->Apply(gpt2_shapes);
BENCHMARK(backward_input)->Apply(gpt2_shapes);
BENCHMARK(backward_weight)->Apply(gpt2_shapes);
BENCHMARK(ceiling)->ArgName("bf16")->Arg(0)->Arg(1)->Iterations(2)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace trireme::bench
