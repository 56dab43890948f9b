//! What the kernel asks of an instruction set, and the choice among them at run time.
//!
//! A value of a type that implements [`Simd`] is a proof that this CPU has the instructions: it is made only after a
//! look at the CPU. So its methods are safe to call.

mod plain;
#[cfg(target_arch = "x86_64")]
mod x86;

use bytemuck::Pod;
use half::f16;
use half::slice::HalfFloatSliceExt;

pub use plain::Plain;
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512, Avx512Bf16};

/// Vectors of f32, one query to a lane.
///
/// The methods are `#[inline(always)]`, and so must be whatever calls them, up to [`Job::run`]: only what is inlined
/// into [`Simd::run`] is compiled for the instruction set.
pub trait Simd: Copy + Send + Sync {
    /// `LANES` lanes of f32.
    type V: Pod + Send + Sync;
    /// What [`Simd::dot`] multiplies by: `DEPTH` numbers that are adjacent along the dimension that is summed over.
    type E: Pod + Send + Sync;
    const LANES: usize;
    const DEPTH: usize;

    /// Run the job, compiled for this instruction set.
    fn run(self, job: &mut impl Job);

    fn splat(self, x: f32) -> Self::V;
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once where the CPU can.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    fn abs(self, a: Self::V) -> Self::V;
    /// The larger of each two; `b` where one is NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `x` where `a < b`, else `y`.
    fn select_lt(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V;
    /// `2^x` for `x` up to 1, with a relative error below 3e-7; 0 where that is less than the smallest normal number.
    fn exp2(self, x: Self::V) -> Self::V;
    /// `acc` plus the product of `a` and `b`, summed over the `DEPTH` numbers in each lane of `b`.
    fn dot(self, acc: Self::V, a: Self::E, b: Self::V) -> Self::V;
    /// Join two vectors of f32 to a vector that [`Simd::dot`] takes; for a `DEPTH` of 1 there is but one.
    fn join(self, low: Self::V, high: Self::V) -> Self::V;

    fn widen_f16(self, from: &[f16], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }

    /// `tanh(x)`, with a relative error below 1e-6.
    #[inline(always)]
    fn tanh(self, x: Self::V) -> Self::V {
        let one = self.splat(1.0);
        let size = self.abs(x);
        // 1 - e cancels for small x: there, a polynomial in x² that was fitted to tanh(x) / x up to 0.6.
        let square = self.mul(x, x);
        let mut small = self.splat(TANH[3]);
        for &c in TANH[..3].iter().rev() {
            small = self.fma(small, square, self.splat(c));
        }
        let small = self.fma(self.mul(small, square), x, x);
        let e = self.exp2(self.mul(size, self.splat(-2.0 * std::f32::consts::LOG2_E)));
        let large = self.div(self.sub(one, e), self.add(one, e));
        let large = self.select_lt(x, self.splat(0.0), self.sub(self.splat(0.0), large), large);
        self.select_lt(size, self.splat(0.6), small, large)
    }
}

/// Work to be compiled for an instruction set.
pub trait Job {
    /// Mark implementations `#[inline(always)]`.
    fn run(&mut self);
}

/// 2^x - 1 = x * (C0 + C1 * x + ...) for x from -0.5 to 0.5, to a relative error of 1.1e-7 in 2^x.
const EXP2: [f32; 5] = [std::f32::consts::LN_2, 0.240_222_82, 0.055_505_6, 0.009_669_709, 0.001_330_026_5];
/// tanh(x) = x + x³ * (C0 + C1 * x² + ...) for x from 0 to 0.6, to a relative error of 8e-8.
const TANH: [f32; 4] = [-0.333_325_97, 0.133_131_13, -0.052_211_657, 0.015_612_452];

/// 2^x for x from -0.5 to 0.5.
#[inline(always)]
fn exp2_fraction<S: Simd>(s: S, x: S::V) -> S::V {
    let mut sum = s.splat(EXP2[4]);
    for &c in EXP2[..4].iter().rev() {
        sum = s.fma(sum, x, s.splat(c));
    }
    s.fma(sum, x, s.splat(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::{cast, cast_slice, cast_slice_mut, zeroed_vec};
    use kernelyard_rs::bf16;

    /// Call a generic function for each instruction set that this CPU has.
    macro_rules! for_all {
        ($check:ident) => {
            $check(Plain);
            #[cfg(target_arch = "x86_64")]
            {
                Avx2::detect().map($check);
                Avx512::detect().map($check);
                Avx512Bf16::detect().map($check);
            }
        };
    }

    fn map<S: Simd>(s: S, numbers: &[f32], function: fn(S, S::V) -> S::V) -> Vec<f32> {
        let mut vectors: Vec<S::V> = zeroed_vec(numbers.len().div_ceil(S::LANES));
        cast_slice_mut(&mut vectors)[..numbers.len()].copy_from_slice(numbers);
        vectors.iter_mut().for_each(|x| *x = function(s, *x));
        cast_slice(&vectors)[..numbers.len()].to_vec()
    }

    fn grid(from: f32, to: f32) -> Vec<f32> {
        const COUNT: usize = 100_003;
        (0..COUNT).map(|i| from + (to - from) * (i as f32 / (COUNT - 1) as f32)).collect()
    }

    fn check_exp2<S: Simd>(s: S) {
        let numbers = grid(-126.0, 1.0);
        for (x, y) in numbers.iter().zip(map(s, &numbers, S::exp2)) {
            let exact = f64::from(*x).exp2();
            assert!((f64::from(y) / exact - 1.0).abs() < 3e-7, "2^{x} = {y}");
        }
        let limits = [f32::NEG_INFINITY, -1e30, -151.0, 0.0, -0.0, 1.0, f32::NAN];
        let results = map(s, &limits, S::exp2);
        assert_eq!(results[..6], [0.0, 0.0, 0.0, 1.0, 1.0, 2.0]);
        assert!(results[6].is_nan());
    }

    #[test]
    fn exp2_is_accurate() {
        for_all!(check_exp2);
    }

    fn check_tanh<S: Simd>(s: S) {
        let numbers = [grid(-12.0, 12.0), grid(-1.0, 1.0)].concat();
        for (x, y) in numbers.iter().zip(map(s, &numbers, S::tanh)) {
            let exact = f64::from(*x).tanh();
            assert!((f64::from(y) - exact).abs() <= 1e-6 * exact.abs(), "tanh({x}) = {y}");
        }
        let results = map(s, &[f32::NEG_INFINITY, -1e30, 0.0, 1e-30, f32::INFINITY, f32::NAN], S::tanh);
        assert_eq!(results[..5], [-1.0, -1.0, 0.0, 1e-30, 1.0]);
        assert!(results[5].is_nan());
    }

    #[test]
    fn tanh_is_accurate() {
        for_all!(check_tanh);
    }

    fn check_nan<S: Simd>(s: S) {
        let (nan, one) = (s.splat(f32::NAN), s.splat(1.0));
        let first = |x: S::V| cast_slice::<S::V, f32>(&[x])[0];
        assert_eq!(first(s.max(nan, one)), 1.0);
        assert!(first(s.max(one, nan)).is_nan());
        assert_eq!(first(s.select_lt(nan, one, one, s.splat(2.0))), 2.0);
    }

    #[test]
    fn operands_of_comparisons_are_in_order() {
        for_all!(check_nan);
    }

    fn check_f16<S: Simd>(s: S) {
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let mut widened = vec![0.0; all.len()];
        s.widen_f16(&all, &mut widened);
        for (from, to) in all.iter().zip(widened) {
            assert!(to.to_bits() == from.to_f32().to_bits() || (to.is_nan() && from.is_nan()));
        }
    }

    #[test]
    fn every_f16_widens_exactly() {
        for_all!(check_f16);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn pairs_of_bf16_are_in_order() {
        let Some(s) = Avx512Bf16::detect() else { return };
        let low: [f32; 16] = std::array::from_fn(|i| i as f32);
        let high = low.map(|x| x + 100.0);
        let joined = s.join(cast(low), cast(high));
        let times =
            |x: f32, y: f32| -> [f32; 16] { cast(s.dot(s.splat(0.5), [bf16::from_f32(x), bf16::from_f32(y)], joined)) };
        assert_eq!(times(1.0, 0.0), low.map(|x| x + 0.5));
        assert_eq!(times(0.0, 1.0), high.map(|x| x + 0.5));
        assert_eq!(times(2.0, -1.0), low.map(|x| x - 99.5));
    }
}
