// For every CPU, one element at a time; but all of it is arithmetic without branches, so that the compiler vectorises
// the loops with what every CPU of the platform has (SSE2, NEON). With GCC, this needs -fno-trapping-math: otherwise it
// keeps branches, in order not to compare what the source does not compare.

#include "isa.h"

#include <string.h>

namespace {

using Float = float;
constexpr int kLanes = 1;

struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

inline uint32_t to_bits(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

inline float from_bits(uint32_t bits) {
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

inline Float broadcast(float v) { return v; }
inline Float add(Float a, Float b) { return a + b; }
inline Float mul(Float a, Float b) { return a * b; }
inline Float fma(Float a, Float b, Float c) { return a * b + c; }
inline Float div(Float a, Float b) { return a / b; }
inline Float max(Float a, Float b) { return a > b ? a : b; }
inline Float negative_abs(Float v) { return from_bits(to_bits(v) | 0x80000000u); }
inline Float select_negative(Float v, Float a, Float b) { return v < 0 ? a : b; }

inline Float round(Float v) {
  // For |v| < 2^22, this pushes the fraction out of the mantissa and back in.
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23
  return (v + kRounder) - kRounder;
}

inline float power_of_two(int32_t n) { return from_bits(static_cast<uint32_t>(n + 127) << 23); }

inline Float scale(Float v, Float n) {
  // In two steps, as 2^-150 is no float. The first one is exact, so there is one rounding.
  const int32_t all = static_cast<int32_t>(n);
  const int32_t half = all / 2;
  return v * power_of_two(half) * power_of_two(all - half);
}

inline Float load(const float* p) { return *p; }
inline void store(float* p, Float v) { *p = v; }

inline Float load(const BFloat16* p) { return from_bits(static_cast<uint32_t>(p->bits) << 16); }

inline void store(BFloat16* p, Float v) {
  // Round to nearest, ties to even; a NaN is cut off instead, as rounding could turn it into infinity.
  const uint32_t bits = to_bits(v);
  const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  p->bits = static_cast<uint16_t>((v != v ? bits | 0x400000 : rounded) >> 16);
}

inline Float load(const Float16* p) {
  // Moved to the place of a float's bits, the exponent is too small by 127 - 15; multiplying corrects this, also for
  // subnormal numbers. Infinity and NaN need the largest exponent.
  const uint32_t magnitude = p->bits & 0x7fffu;
  const uint32_t scaled = to_bits(from_bits(magnitude << 13) * 0x1p112f);
  const uint32_t special = magnitude >= 0x7c00 ? 0x7f800000u : 0u;
  return from_bits(scaled | special | (p->bits & 0x8000u) << 16);
}

inline void store(Float16* p, Float v) {
  const uint32_t bits = to_bits(v);
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Normal: round to nearest, ties to even, by adding in the bits; then correct the exponent by 127 - 15.
  const uint32_t normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - ((127u - 15u) << 23)) >> 13;
  // Below 2^-14: adding 0.5 makes the float adder round at 2^-24, the last place of a subnormal half.
  const uint32_t subnormal = to_bits(from_bits(magnitude) + 0.5f) - to_bits(0.5f);
  // From 65520 on, the middle between the largest half and the next power of two: infinity. And NaN.
  const uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const uint32_t half = magnitude >= 0x477ff000u ? special : magnitude < 0x38800000u ? subnormal : normal;
  p->bits = static_cast<uint16_t>(half | (bits >> 16 & 0x8000u));
}

}  // namespace

#include "loops.h"

constinit const silu_and_mul::Isa silu_and_mul::kPlain{"plain", loop<float>, loop<Float16>, loop<BFloat16>};
