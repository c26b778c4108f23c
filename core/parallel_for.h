#pragma once

#include <algorithm>
#include <cstdint>

#ifdef _OPENMP
#  include <omp.h>
#endif

namespace trireme::core {

/// Threads that a parallel loop uses; set once by the trainer (device.threads).
inline int thread_count() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

inline void set_thread_count([[maybe_unused]] int threads) {
#ifdef _OPENMP
  omp_set_num_threads(threads);
#endif
}

/// Calls body(begin, end) on contiguous parts of [0, n), at most one a thread, each of at least `grain` indices
/// (the last may be smaller). The parts depend on n, grain and the number of threads only. `body` must not throw. One
/// part runs the same compiled code as many: a second copy of `body` could add in another order.
template <class Body>
void parallel_for(std::int64_t n, std::int64_t grain, const Body& body) {
  const std::int64_t parts = std::min<std::int64_t>(thread_count(), (n + grain - 1) / grain);
  if (parts <= 0) return;
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(parts)) if (parts > 1)
  for (std::int64_t part = 0; part < parts; ++part) body(n * part / parts, n * (part + 1) / parts);
}

}  // namespace trireme::core
