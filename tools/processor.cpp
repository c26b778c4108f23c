#include "tools/processor.h"

// TRIREME_USES_NAME is set for each instruction set of the compute code's -march; see tools/CMakeLists.txt.
extern "C" const char* trireme_missing_instructions() {
#if defined(__x86_64__)
  __builtin_cpu_init();
#  ifdef TRIREME_USES_AVX2
  if (!__builtin_cpu_supports("avx2")) return "AVX2";
#  endif
#  ifdef TRIREME_USES_FMA
  if (!__builtin_cpu_supports("fma")) return "FMA";
#  endif
#  ifdef TRIREME_USES_AVX512F
  if (!__builtin_cpu_supports("avx512f")) return "AVX-512F";
#  endif
#  ifdef TRIREME_USES_AVX512VL
  if (!__builtin_cpu_supports("avx512vl")) return "AVX-512VL";
#  endif
#  ifdef TRIREME_USES_AVX512BF16
  if (!__builtin_cpu_supports("avx512bf16")) return "AVX-512 BF16";
#  endif
#endif
  return nullptr;
}
