//! AVX2 with FMA, AVX-512, and AVX-512 with the bf16 dot product.

use std::arch::x86_64::*;

use kernelyard_rs::{bf16, f16};

use super::{Job, Simd, exp2_fraction};

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

/// Make the token of an instruction set, and what all of them have in common.
macro_rules! token {
    ($(#[$doc:meta])* $name:ident, $($feature:tt),+) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name(());

        impl $name {
            /// The token, if this CPU has the instructions.
            pub fn detect() -> Option<Self> {
                ($(is_x86_feature_detected!($feature))&&+).then_some(Self(()))
            }
        }

        impl $name {
            #[inline(always)]
            fn run_job(self, job: &mut impl Job) {
                $(#[target_feature(enable = $feature)])+
                fn compiled_for(job: &mut impl Job) {
                    job.run();
                }
                // SAFETY: a token exists only where the CPU has these features.
                unsafe { compiled_for(job) }
            }
        }
    };
}

token!(
    /// AVX2 and FMA: 16 registers of 8 lanes.
    Avx2, "avx2", "fma", "f16c"
);
token!(
    /// AVX-512: 32 registers of 16 lanes.
    Avx512, "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma", "f16c"
);
token!(
    /// AVX-512 with the dot product of bf16, which does twice the multiplications of an f32 FMA.
    Avx512Bf16, "avx512bf16", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma", "f16c"
);

/// Call an intrinsic that works on registers only.
macro_rules! intrinsic {
    ($name:ident $(::<$parameter:tt>)? ($($argument:expr),*)) => {
        // SAFETY: it touches no memory, and the CPU has it: `self`, whose type stands for the features, proves that.
        unsafe { $name $(::<$parameter>)? ($($argument),*) }
    };
}

impl Avx512Bf16 {
    pub fn without_bf16(self) -> Avx512 {
        Avx512(())
    }
}

impl Simd for Avx2 {
    type V = __m256;
    type E = f32;
    const LANES: usize = 8;
    const DEPTH: usize = 1;

    fn run(self, job: &mut impl Job) {
        self.run_job(job);
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        intrinsic!(_mm256_set1_ps(x))
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        intrinsic!(_mm256_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        intrinsic!(_mm256_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        intrinsic!(_mm256_mul_ps(a, b))
    }

    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        intrinsic!(_mm256_div_ps(a, b))
    }

    #[inline(always)]
    fn fma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        intrinsic!(_mm256_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn abs(self, a: __m256) -> __m256 {
        let sign = self.splat(-0.0);
        intrinsic!(_mm256_andnot_ps(sign, a))
    }

    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        intrinsic!(_mm256_max_ps(a, b))
    }

    #[inline(always)]
    fn select_lt(self, a: __m256, b: __m256, x: __m256, y: __m256) -> __m256 {
        let less = intrinsic!(_mm256_cmp_ps::<_CMP_LT_OQ>(a, b));
        intrinsic!(_mm256_blendv_ps(y, x, less))
    }

    #[inline(always)]
    fn exp2(self, x: __m256) -> __m256 {
        let least = self.splat(-126.0);
        let clamped = self.max(least, x);
        let n = intrinsic!(_mm256_round_ps::<NEAREST>(clamped));
        let fraction = exp2_fraction(self, self.sub(clamped, n));
        // Multiplied by 2^n: n is added to the exponent.
        let n = intrinsic!(_mm256_cvtps_epi32(n));
        let exponent = intrinsic!(_mm256_slli_epi32::<23>(n));
        let power = intrinsic!(_mm256_add_epi32(bytemuck::cast(fraction), exponent));
        self.select_lt(x, least, self.splat(0.0), bytemuck::cast(power))
    }

    #[inline(always)]
    fn dot(self, acc: __m256, a: f32, b: __m256) -> __m256 {
        self.fma(self.splat(a), b, acc)
    }

    #[inline(always)]
    fn join(self, low: __m256, _high: __m256) -> __m256 {
        low
    }

    #[inline(always)]
    fn widen_f16(self, from: &[f16], to: &mut [f32]) {
        // A headdim is a multiple of 8.
        for (from, to) in from.as_chunks::<8>().0.iter().zip(to.as_chunks_mut::<8>().0) {
            *to = bytemuck::cast(intrinsic!(_mm256_cvtph_ps(bytemuck::cast(*from))));
        }
    }
}

/// The f32 part of AVX-512, which both of its tokens have.
macro_rules! avx512_f32 {
    () => {
        const LANES: usize = 16;

        fn run(self, job: &mut impl Job) {
            self.run_job(job);
        }

        #[inline(always)]
        fn splat(self, x: f32) -> __m512 {
            intrinsic!(_mm512_set1_ps(x))
        }

        #[inline(always)]
        fn add(self, a: __m512, b: __m512) -> __m512 {
            intrinsic!(_mm512_add_ps(a, b))
        }

        #[inline(always)]
        fn sub(self, a: __m512, b: __m512) -> __m512 {
            intrinsic!(_mm512_sub_ps(a, b))
        }

        #[inline(always)]
        fn mul(self, a: __m512, b: __m512) -> __m512 {
            intrinsic!(_mm512_mul_ps(a, b))
        }

        #[inline(always)]
        fn div(self, a: __m512, b: __m512) -> __m512 {
            intrinsic!(_mm512_div_ps(a, b))
        }

        #[inline(always)]
        fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
            intrinsic!(_mm512_fmadd_ps(a, b, c))
        }

        #[inline(always)]
        fn abs(self, a: __m512) -> __m512 {
            intrinsic!(_mm512_abs_ps(a))
        }

        #[inline(always)]
        fn max(self, a: __m512, b: __m512) -> __m512 {
            intrinsic!(_mm512_max_ps(a, b))
        }

        #[inline(always)]
        fn select_lt(self, a: __m512, b: __m512, x: __m512, y: __m512) -> __m512 {
            let less = intrinsic!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b));
            intrinsic!(_mm512_mask_blend_ps(less, y, x))
        }

        #[inline(always)]
        fn exp2(self, x: __m512) -> __m512 {
            // Where x is less, 2^x is 0; and -infinity less its rounded value would be NaN.
            let clamped = self.max(self.splat(-200.0), x);
            let n = intrinsic!(_mm512_roundscale_ps::<NEAREST>(clamped));
            let fraction = exp2_fraction(self, self.sub(clamped, n));
            intrinsic!(_mm512_scalef_ps(fraction, n))
        }
    };
}

impl Simd for Avx512 {
    type V = __m512;
    type E = f32;
    const DEPTH: usize = 1;

    avx512_f32!();

    #[inline(always)]
    fn dot(self, acc: __m512, a: f32, b: __m512) -> __m512 {
        self.fma(self.splat(a), b, acc)
    }

    #[inline(always)]
    fn join(self, low: __m512, _high: __m512) -> __m512 {
        low
    }

    #[inline(always)]
    fn widen_f16(self, from: &[f16], to: &mut [f32]) {
        // A headdim is a multiple of 8.
        for (from, to) in from.as_chunks::<8>().0.iter().zip(to.as_chunks_mut::<8>().0) {
            *to = bytemuck::cast(intrinsic!(_mm256_cvtph_ps(bytemuck::cast(*from))));
        }
    }
}

impl Simd for Avx512Bf16 {
    type V = __m512;
    type E = [bf16; 2];
    const DEPTH: usize = 2;

    avx512_f32!();

    #[inline(always)]
    fn dot(self, acc: __m512, a: [bf16; 2], b: __m512) -> __m512 {
        let a = intrinsic!(_mm512_set1_epi32(bytemuck::cast(a)));
        intrinsic!(_mm512_dpbf16_ps(acc, as_bf16(bytemuck::cast(a)), as_bf16(b)))
    }

    #[inline(always)]
    fn join(self, low: __m512, high: __m512) -> __m512 {
        // All of low's numbers, then all of high's; then one of each by turns.
        let rounded = as_f32(intrinsic!(_mm512_cvtne2ps_pbh(high, low)));
        let by_turns = bytemuck::cast(BY_TURNS);
        bytemuck::cast(intrinsic!(_mm512_permutexvar_epi16(by_turns, bytemuck::cast(rounded))))
    }
}

/// 0, 16, 1, 17, ... 15, 31.
const BY_TURNS: [i16; 32] = {
    let mut index = [0; 32];
    let mut i = 0;
    while i < 32 {
        index[i] = (i / 2 + i % 2 * 16) as i16;
        i += 1;
    }
    index
};

#[inline(always)]
fn as_bf16(x: __m512) -> __m512bh {
    // SAFETY: both are 64 bytes, of which any are valid.
    unsafe { std::mem::transmute::<__m512, __m512bh>(x) }
}

#[inline(always)]
fn as_f32(x: __m512bh) -> __m512 {
    // SAFETY: both are 64 bytes, of which any are valid.
    unsafe { std::mem::transmute::<__m512bh, __m512>(x) }
}
