#include "isa.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace {

using Float = __m512;
constexpr int kLanes = 16;

struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

inline Float broadcast(float v) { return _mm512_set1_ps(v); }
inline Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
inline Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
inline Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
inline Float div(Float a, Float b) { return _mm512_div_ps(a, b); }
inline Float max(Float a, Float b) { return _mm512_max_ps(a, b); }
inline Float round(Float v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Float scale(Float v, Float n) { return _mm512_scalef_ps(v, n); }

inline Float negative_abs(Float v) {
  const __m512i sign = _mm512_set1_epi32(INT32_MIN);
  return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(v), sign));
}

inline Float select_negative(Float v, Float a, Float b) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ), b, a);
}

inline Float load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, Float v) { _mm512_storeu_ps(p, v); }

inline __m256i load_bits(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline void store_bits(void* p, __m256i bits) { _mm256_storeu_si256(static_cast<__m256i*>(p), bits); }

inline Float load(const Float16* p) { return _mm512_cvtph_ps(load_bits(p)); }
inline void store(Float16* p, Float v) { store_bits(p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT)); }

inline Float load(const BFloat16* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_bits(p)), 16));
}

inline void store(BFloat16* p, Float v) {
  // Round to nearest, ties to even. (The instruction that does this takes subnormal numbers for zero.)
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i lsb = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(lsb, _mm512_set1_epi32(0x7fff)));
  // Rounding could turn a NaN into infinity; instead, cut it off and keep it quiet.
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  store_bits(p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_blend_epi32(nan, rounded, quiet), 16)));
}

}  // namespace

#include "loops.h"

constinit const silu_and_mul::Isa silu_and_mul::kAvx512{"avx512", loop<float>, loop<Float16>, loop<BFloat16>};

#endif
