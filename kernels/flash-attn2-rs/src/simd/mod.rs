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
