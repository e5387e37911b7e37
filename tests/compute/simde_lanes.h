// The AVX-512 lanes of the CPU backend on a CPU without AVX-512: compute/cpu/lanes_avx512.h as it is, with the
// intrinsics of SIMDe (Debian: libsimde-dev), which does each with AVX2 or in plain C. The lanes get the name
// SimdeLanes, so that their functions do not mix with those of the library.
//
// What a green run over them proves: the meaning of the source (which lanes go where, constants, masks, the order and
// rounding of every operation) as SIMDe understands the intrinsics; the float operations are the machine's own AVX2
// instructions on halves. What it does not: that a compiler and a CPU do the same with the real instructions (on a CPU
// that has them, the tests of this folder run them as well), and speed or code generation.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#define SIMDE_NO_INLINE  // inlined, the kernels take minutes to compile
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-function"
#include <simde/x86/avx512.h>
#pragma GCC diagnostic pop

// The one intrinsic that SIMDe 0.7.4 lacks and a hot loop needs: each half by the AVX2 instruction of the same meaning.
static inline __m512 WinnowSimdeCvtepi32Ps(__m512i x) {
  const __m256 low = _mm256_cvtepi32_ps(simde_mm512_castsi512_si256(x));
  const __m256 high = _mm256_cvtepi32_ps(simde_mm512_extracti64x4_epi64(x, 1));
  return simde_mm512_insertf32x8(simde_mm512_castps256_ps512(low), high, 1);
}
#define _mm512_cvtepi32_ps WinnowSimdeCvtepi32Ps

#define Avx512Lanes SimdeLanes
#include "compute/cpu/lanes_avx512.h"
#undef Avx512Lanes
