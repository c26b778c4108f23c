#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "core/parallel_for.h"
#include "tests/bench/bench_tensor.h"

// Operators that are bound by memory, held against a plain copy of the same size. Bytes are those read plus those
// written, each once. The best iteration counts, and iterations are short, since others disturb a shared machine;
// tensors are larger than the second cache.
namespace trireme::bench {

inline constexpr std::int64_t kTokens = 2048, kHidden = 768;

template <class Body>
double best_seconds(int times, const Body& body) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

/// Bytes per second, read and written, of memcpy by all threads.
inline double copy_rate() {
  static const double rate = [] {
    const BenchTensor from(core::DType::f32, {kTokens, kHidden}), to(core::DType::f32, {kTokens, kHidden});
    const auto copy = [&] {
      core::parallel_for(static_cast<std::int64_t>((*from).bytes()), 4096, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(static_cast<char*>((*to).data) + begin, static_cast<char*>((*from).data) + begin,
                    static_cast<std::size_t>(end - begin));
      });
    };
    return 2 * static_cast<double>((*from).bytes()) / best_seconds(300, copy);
  }();
  return rate;
}

template <class Body>
void measure_traffic(benchmark::State& state, double bytes, const Body& body) {
  body();
  double best = std::numeric_limits<double>::infinity();
  for (auto step : state) best = std::min(best, best_seconds(1, body));
  state.counters["GB/s"] = bytes / best / 1e9;
  state.counters["copy"] = bytes / best / copy_rate();
}

inline double bytes_of(std::initializer_list<const BenchTensor*> tensors) {
  double bytes = 0;
  for (const BenchTensor* tensor : tensors) bytes += static_cast<double>((**tensor).bytes());
  return bytes;
}

inline void both_types(benchmark::internal::Benchmark* bench) {
  bench->ArgName("bf16")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond)->UseRealTime()->MinTime(0.1);
}

}  // namespace trireme::bench
