//! No instructions beyond the target's own. LLVM makes vectors of these loops: SSE2 on x86_64, NEON on aarch64.

use std::array::from_fn;

use super::{Job, Simd, exp2_fraction};

#[derive(Clone, Copy)]
pub struct Plain;

type V = [f32; 4];

/// `a * b + c`: fused where the target has an instruction for it, for a call of the C library would be slow.
#[inline(always)]
fn fma(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(any(target_arch = "aarch64", target_feature = "fma")) { a.mul_add(b, c) } else { a * b + c }
}

impl Simd for Plain {
    type V = V;
    type E = f32;
    const LANES: usize = 4;
    const DEPTH: usize = 1;

    fn run(self, job: &mut impl Job) {
        job.run();
    }

    #[inline(always)]
    fn splat(self, x: f32) -> V {
        [x; 4]
    }

    #[inline(always)]
    fn add(self, a: V, b: V) -> V {
        from_fn(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn sub(self, a: V, b: V) -> V {
        from_fn(|i| a[i] - b[i])
    }

    #[inline(always)]
    fn mul(self, a: V, b: V) -> V {
        from_fn(|i| a[i] * b[i])
    }

    #[inline(always)]
    fn div(self, a: V, b: V) -> V {
        from_fn(|i| a[i] / b[i])
    }

    #[inline(always)]
    fn fma(self, a: V, b: V, c: V) -> V {
        from_fn(|i| fma(a[i], b[i], c[i]))
    }

    #[inline(always)]
    fn abs(self, a: V) -> V {
        a.map(f32::abs)
    }

    #[inline(always)]
    fn max(self, a: V, b: V) -> V {
        self.select_lt(b, a, a, b)
    }

    #[inline(always)]
    fn select_lt(self, a: V, b: V, x: V, y: V) -> V {
        from_fn(|i| if a[i] < b[i] { x[i] } else { y[i] })
    }

    #[inline(always)]
    fn exp2(self, x: V) -> V {
        // Adding this rounds x to an integer n, which then stands in the lowest bits.
        const ROUND: f32 = 1.5 * (1 << 23) as f32;
        let least = self.splat(-126.0);
        let clamped = self.max(least, x);
        let rounded = clamped.map(|x| x + ROUND);
        let fraction = exp2_fraction(self, from_fn(|i| clamped[i] - (rounded[i] - ROUND)));
        // Multiplied by 2^n: n is added to the exponent.
        let power = from_fn(|i| f32::from_bits(fraction[i].to_bits().wrapping_add(rounded[i].to_bits() << 23)));
        self.select_lt(x, least, self.splat(0.0), power)
    }

    #[inline(always)]
    fn dot(self, acc: V, a: f32, b: V) -> V {
        self.fma([a; 4], b, acc)
    }

    #[inline(always)]
    fn join(self, low: V, _high: V) -> V {
        low
    }
}
