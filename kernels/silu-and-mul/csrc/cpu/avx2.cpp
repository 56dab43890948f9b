#include "isa.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace {

using Float = __m256;
constexpr int kLanes = 8;

struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

inline Float broadcast(float v) { return _mm256_set1_ps(v); }
inline Float add(Float a, Float b) { return _mm256_add_ps(a, b); }
inline Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
inline Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
inline Float div(Float a, Float b) { return _mm256_div_ps(a, b); }
inline Float max(Float a, Float b) { return _mm256_max_ps(a, b); }
inline Float round(Float v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Float negative_abs(Float v) { return _mm256_or_ps(v, _mm256_set1_ps(-0.0f)); }
inline Float select_negative(Float v, Float a, Float b) { return _mm256_blendv_ps(b, a, v); }

inline Float power_of_two(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

inline Float scale(Float v, Float n) {
  // In two steps, as 2^-150 is no float. The first one is exact, so there is one rounding.
  const __m256i all = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(all, 1);
  return mul(mul(v, power_of_two(half)), power_of_two(_mm256_sub_epi32(all, half)));
}

inline Float load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, Float v) { _mm256_storeu_ps(p, v); }

inline __m128i load_bits(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline void store_bits(void* p, __m128i bits) { _mm_storeu_si128(static_cast<__m128i*>(p), bits); }

inline Float load(const Float16* p) { return _mm256_cvtph_ps(load_bits(p)); }
inline void store(Float16* p, Float v) { store_bits(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT)); }

inline Float load(const BFloat16* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_bits(p)), 16));
}

inline void store(BFloat16* p, Float v) {
  // Round to nearest, ties to even.
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i lsb = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(lsb, _mm256_set1_epi32(0x7fff)));
  // Rounding could turn a NaN into infinity; instead, cut it off and keep it quiet.
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i result = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
  store_bits(p, _mm_packus_epi32(_mm256_castsi256_si128(result), _mm256_extracti128_si256(result, 1)));
}

}  // namespace

#include "loops.h"

constinit const silu_and_mul::Isa silu_and_mul::kAvx2{"avx2", loop<float>, loop<Float16>, loop<BFloat16>};

#endif
