// Functions that are compiled for several widths of vectors; the processor chooses. Their bodies must use vectors as
// wide as the registers: compilers keep wider ones in memory, which makes loops ten times as slow.
#pragma once

#include <cstddef>

namespace lance {

#if defined(__x86_64__) && defined(__GNUC__)
#define LANCE_AVX512 __attribute__((target("avx512f")))
#define LANCE_AVX2 __attribute__((target("avx2,fma")))

// Bytes of the widest vectors of the processor: 64, 32 or 16.
inline size_t vector_bytes() {
  static const size_t bytes = __builtin_cpu_supports("avx512f")                                 ? 64
                              : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 32
                                                                                                : 16;
  return bytes;
}
#else
#define LANCE_AVX512
#define LANCE_AVX2
inline size_t vector_bytes() { return 16; }
#endif

// Defines a function without a result. In its body, `kBytes` is the width of the vectors.
#define LANCE_BY_WIDTH(NAME, PARAMETERS, ARGUMENTS, ...) \
  LANCE_AVX512 void NAME##_64 PARAMETERS {               \
    constexpr size_t kBytes = 64;                        \
    __VA_ARGS__;                                         \
  }                                                      \
  LANCE_AVX2 void NAME##_32 PARAMETERS {                 \
    constexpr size_t kBytes = 32;                        \
    __VA_ARGS__;                                         \
  }                                                      \
  void NAME##_16 PARAMETERS {                            \
    constexpr size_t kBytes = 16;                        \
    __VA_ARGS__;                                         \
  }                                                      \
  void NAME PARAMETERS {                                 \
    switch (vector_bytes()) {                            \
      case 64:                                           \
        return NAME##_64 ARGUMENTS;                      \
      case 32:                                           \
        return NAME##_32 ARGUMENTS;                      \
      default:                                           \
        return NAME##_16 ARGUMENTS;                      \
    }                                                    \
  }

}  // namespace lance
