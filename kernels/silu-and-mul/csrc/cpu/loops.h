// The computation, for any vector type. Each instruction set's file first defines, in an anonymous namespace
//   Float, kLanes                         the vector of floats, and how many there are in it
//   broadcast, add, mul, fma, div, round  arithmetic (fma(a, b, c) = a * b + c; round to an integer, ties to even)
//   max(a, b)                             b where a is NaN
//   negative_abs(v)                       -|v|
//   scale(v, n)                           v * 2^n, where n is an integer in [-150, 0]; may underflow gradually
//   select_negative(v, a, b)              a where v < 0, b where v > 0, and either one where v is 0 or NaN
//   load(p), store(p, v)                  kLanes elements of float, Float16 or BFloat16, unaligned
// and then includes this file once. Why all of it is in an anonymous namespace: see isa.h.

namespace {

// e^y for y <= 0, within 1.1 ulp and with gradual underflow to 0. Not for NaN.
inline Float exp_of_non_positive(Float y) {
  // e^-104 is less than half of the smallest float. This keeps n, below, in the range of scale.
  y = max(y, broadcast(-104.0f));
  // e^y = 2^n * e^r with |r| <= ln(2) / 2. The first part of ln(2) has so few bits that its product with n is exact.
  const Float n = round(mul(y, broadcast(1.44269504f)));
  Float r = fma(n, broadcast(-0.693359375f), y);
  r = fma(n, broadcast(2.12194440e-4f), r);
  // e^r = 1 + r + r^2 q(r): the minimax polynomial, relative error 3.1e-9, a twentieth of an ulp.
  Float q = broadcast(1.3814599553e-3f);
  q = fma(q, r, broadcast(8.3687168753e-3f));
  q = fma(q, r, broadcast(4.1668388031e-2f));
  q = fma(q, r, broadcast(1.6666520632e-1f));
  q = fma(q, r, broadcast(4.9999993448e-1f));
  return scale(add(fma(mul(r, r), q, r), broadcast(1.0f)), n);
}

// silu(x) * up, where silu(x) = x / (1 + e^-x). With t = e^-|x|, which cannot overflow, this is x / (1 + t) for x >= 0
// and x t / (1 + t) for x < 0: accurate also where e^-x is too large for a float. NaN passes through the numerator;
// -inf gives NaN, as in PyTorch.
inline Float silu_and_mul(Float x, Float up) {
  const Float one = broadcast(1.0f);
  const Float t = exp_of_non_positive(negative_abs(x));
  const Float numerator = mul(x, select_negative(x, t, one));
  return mul(div(numerator, add(one, t)), up);
}

template <class Element>
void loop(const void* gate_data, const void* up_data, void* out_data, int64_t size) {
  const Element* gate = static_cast<const Element*>(gate_data);
  const Element* up = static_cast<const Element*>(up_data);
  Element* out = static_cast<Element*>(out_data);

  const int64_t rest = size % kLanes;
  const int64_t whole = size - rest;
  // For the plain loop, where kLanes is 1: it may be vectorised, as `out` is an input element by element or not at all.
#pragma omp simd
  for (int64_t i = 0; i < whole; i += kLanes) {
    store(out + i, silu_and_mul(load(gate + i), load(up + i)));
  }
  if (rest > 0) {
    // Through buffers, so that nothing outside of the row is touched.
    Element gate_rest[kLanes] = {};
    Element up_rest[kLanes] = {};
    Element out_rest[kLanes];
    for (int64_t i = 0; i < rest; ++i) {
      gate_rest[i] = gate[whole + i];
      up_rest[i] = up[whole + i];
    }
    store(out_rest, silu_and_mul(load(gate_rest), load(up_rest)));
    for (int64_t i = 0; i < rest; ++i) {
      out[whole + i] = out_rest[i];
    }
  }
}

}  // namespace
