#include <vector>

#include "model/ops/embedding.h"
#include "model/ops/rotary.h"
#include "tests/bench/bandwidth.h"

namespace trireme::bench {
namespace {

constexpr std::int64_t kLength = 1024, kSamples = kTokens / kLength, kVocabulary = 50304;

struct Embedding {
  core::DType dtype;
  BenchTensor tokens, positions, hidden, dtokens, dpositions;
  std::vector<std::int32_t> ids;
  explicit Embedding(const benchmark::State& state)
      : dtype(dtype_at(state.range(0))),
        tokens(dtype, {kVocabulary, kHidden}),
        positions(dtype, {kLength, kHidden}),
        hidden(dtype, {kLength, kSamples, kHidden}),
        dtokens(core::DType::f32, {kVocabulary, kHidden}),
        dpositions(core::DType::f32, {kLength, kHidden}) {
    for (std::int64_t i = 0; i < kTokens; ++i) ids.push_back(static_cast<std::int32_t>(i * 7919 % kVocabulary));
  }
  model::TokenIds token_ids() const { return {kSamples, kLength, ids.data()}; }
};

void embedding_forward(benchmark::State& state) {
  const Embedding e(state);
  measure_traffic(state, bytes_of({&e.hidden, &e.hidden, &e.positions}),
                  [&] { model::embedding_forward(e.token_ids(), *e.tokens, *e.positions, {}, *e.hidden); });
}

void embedding_backward(benchmark::State& state) {
  const Embedding e(state);
  const double rows = 2.0 * kTokens * kHidden * sizeof(float);
  measure_traffic(state, rows + bytes_of({&e.hidden, &e.dpositions, &e.dpositions}),
                  [&] { model::embedding_backward(e.token_ids(), *e.hidden, {}, *e.dtokens, *e.dpositions); });
}

void add_residual(benchmark::State& state, double rate) {
  const core::Shape shape{kLength, kSamples, kHidden};
  const core::DType dtype = dtype_at(state.range(0));
  const BenchTensor x(dtype, shape), y(dtype, shape), out(dtype, shape);
  const model::Dropout dropout{.rate = rate, .seed = 1};
  measure_traffic(state, bytes_of({&x, &y, &out}), [&] { model::add_residual(dropout, *x, *y, *out); });
}

void apply_dropout(benchmark::State& state) {
  const core::Shape shape{kLength, kSamples, kHidden};
  const core::DType dtype = dtype_at(state.range(0));
  const BenchTensor x(dtype, shape), out(dtype, shape);
  const model::Dropout dropout{.rate = 0.1, .seed = 1};
  measure_traffic(state, bytes_of({&x, &out}), [&] { model::apply_dropout(dropout, *x, *out); });
}

void rotary_forward(benchmark::State& state) {
  const model::AttentionShape shape{.s = kLength, .b = kSamples, .a = 12, .g = 4, .d = 64};
  const BenchTensor qkv(dtype_at(state.range(0)), {kLength, kSamples, shape.row()});
  const BenchTensor table(core::DType::f32, {kLength, shape.d});
  measure_traffic(state, 2 * bytes_of({&qkv}) * 16 / 20, [&] { model::rotary_forward(shape, *table, nullptr, *qkv); });
}

BENCHMARK(embedding_forward)->Apply(both_types);
BENCHMARK(embedding_backward)->Apply(both_types);
BENCHMARK_CAPTURE(add_residual, plain, 0.0)->Apply(both_types);
BENCHMARK_CAPTURE(add_residual, dropout, 0.1)->Apply(both_types);
BENCHMARK(apply_dropout)->Apply(both_types);
BENCHMARK(rotary_forward)->Apply(both_types);

}  // namespace
}  // namespace trireme::bench
