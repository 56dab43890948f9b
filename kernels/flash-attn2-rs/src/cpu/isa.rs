//! The choice of an instruction set, and the shape of the loops for each.

use kernelyard_rs::{bf16, f16};

use crate::cpu::attention::Problem;
use crate::cpu::element::Operand;
use crate::cpu::simd::Plain;
#[cfg(target_arch = "x86_64")]
use crate::cpu::simd::{Avx2, Avx512, Avx512Bf16};
use crate::cpu::tensor::Typed;

/// An instruction set that this CPU has.
#[derive(Clone, Copy)]
pub enum Isa {
    Plain(Plain),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16(Avx512Bf16),
}

impl Isa {
    /// All that this CPU has, the fastest last.
    pub fn detect() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        let more = [
            Avx2::detect().map(Self::Avx2),
            Avx512::detect().map(Self::Avx512),
            Avx512Bf16::detect().map(Self::Avx512Bf16),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let more = [];
        std::iter::once(Some(Self::Plain(Plain))).chain(more).flatten().collect()
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Plain(_) => "plain",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16(_) => "avx512bf16",
        }
    }
}

/// An element type that can be computed with.
pub trait Solve: Operand<f32> {
    fn solve(problem: &Problem, tensors: &Typed<Self>, isa: Isa, threads: usize) {
        solve_in_f32(problem, tensors, isa, threads)
    }
}

impl Solve for f32 {}

impl Solve for f16 {}

impl Solve for bf16 {
    #[cfg(target_arch = "x86_64")]
    fn solve(problem: &Problem, tensors: &Typed<bf16>, isa: Isa, threads: usize) {
        let Isa::Avx512Bf16(s) = isa else {
            return solve_in_f32(problem, tensors, isa, threads);
        };
        match problem.rows() {
            0..=16 => problem.solve::<_, 8, 8, 1>(s, &tensors.with(s), threads),
            17..=32 => problem.solve::<_, 8, 8, 2>(s, &tensors.with(s), threads),
            rows if fits_64(rows) => problem.solve::<_, 6, 4, 4>(s, &tensors.with(s), threads),
            _ => problem.solve::<_, 8, 8, 3>(s, &tensors.with(s), threads),
        }
    }
}

/// `problem.solve::<_, MK, MV, NR>`: as many registers as there are, but for `NR + 1` to multiply by. Where there are few
/// rows, vectors that no row would be in are left away, and for more keys at a time the registers are still used.
fn solve_in_f32<T: Operand<f32>>(problem: &Problem, tensors: &Typed<T>, isa: Isa, threads: usize) {
    match isa {
        // The 32 vector registers of aarch64, and the 16 of x86_64.
        #[cfg(target_arch = "aarch64")]
        Isa::Plain(s) => problem.solve::<_, 8, 8, 3>(s, &tensors.with(s), threads),
        #[cfg(not(target_arch = "aarch64"))]
        Isa::Plain(s) => problem.solve::<_, 4, 4, 2>(s, &tensors.with(s), threads),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2(s) if problem.rows() <= 8 => problem.solve::<_, 8, 8, 1>(s, &tensors.with(s), threads),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2(s) => problem.solve::<_, 6, 6, 2>(s, &tensors.with(s), threads),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512(s) => match problem.rows() {
            0..=16 => problem.solve::<_, 8, 8, 1>(s, &tensors.with(s), threads),
            17..=32 => problem.solve::<_, 8, 8, 2>(s, &tensors.with(s), threads),
            rows if fits_64(rows) => problem.solve::<_, 6, 4, 4>(s, &tensors.with(s), threads),
            _ => problem.solve::<_, 8, 8, 3>(s, &tensors.with(s), threads),
        },
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Bf16(s) => solve_in_f32(problem, tensors, Isa::Avx512(s.without_bf16()), threads),
    }
}

/// Whether panels of 64 rows leave fewer lanes unused than panels of 48, which are a little faster.
#[cfg(target_arch = "x86_64")]
fn fits_64(rows: usize) -> bool {
    // Worth it from 1 in 32 on.
    rows.next_multiple_of(48) * 32 > rows.next_multiple_of(64) * 33
}
