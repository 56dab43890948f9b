//! The types of a tensor's elements, and how they become operands of [`Simd::dot`].

use bytemuck::Pod;
use half::slice::HalfFloatSliceExt;
use kernelyard_rs::{Float, bf16, f16};

use crate::cpu::simd::Simd;

/// An element of q, k, v and out.
pub trait Number: Float + Pod {
    /// Round each to the nearest.
    fn narrow(from: &[f32], to: &mut [Self]);
}

/// How rows of elements become operands of type `E`. To be inlined into a [`Job`](crate::cpu::simd::Job).
pub trait Operand<E>: Number {
    /// Of a row along the dimension that is summed over.
    fn along<S: Simd<E = E>>(s: S, row: &[Self], to: &mut [E]);
    /// Of rows across it, of which `high` is used only where an operand holds two numbers.
    fn across<S: Simd<E = E>>(s: S, low: &[Self], high: &[Self], to: &mut [E]);
}

impl Number for f32 {
    fn narrow(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }
}

impl Number for f16 {
    fn narrow(from: &[f32], to: &mut [f16]) {
        to.convert_from_f32_slice(from);
    }
}

impl Number for bf16 {
    fn narrow(from: &[f32], to: &mut [bf16]) {
        to.convert_from_f32_slice(from);
    }
}

impl Operand<f32> for f32 {
    #[inline(always)]
    fn along<S: Simd<E = f32>>(_s: S, row: &[f32], to: &mut [f32]) {
        to.copy_from_slice(row);
    }

    #[inline(always)]
    fn across<S: Simd<E = f32>>(_s: S, low: &[f32], _high: &[f32], to: &mut [f32]) {
        to.copy_from_slice(low);
    }
}

impl Operand<f32> for f16 {
    #[inline(always)]
    fn along<S: Simd<E = f32>>(s: S, row: &[f16], to: &mut [f32]) {
        s.widen_f16(row, to);
    }

    #[inline(always)]
    fn across<S: Simd<E = f32>>(s: S, low: &[f16], _high: &[f16], to: &mut [f32]) {
        s.widen_f16(low, to);
    }
}

impl Operand<f32> for bf16 {
    #[inline(always)]
    fn along<S: Simd<E = f32>>(_s: S, row: &[bf16], to: &mut [f32]) {
        // A bf16 is the upper half of an f32. Unlike `bf16::to_f32`, this leaves NaN as it is, and becomes vectors.
        for (to, x) in to.iter_mut().zip(row) {
            *to = f32::from_bits(u32::from(x.to_bits()) << 16);
        }
    }

    #[inline(always)]
    fn across<S: Simd<E = f32>>(s: S, low: &[bf16], _high: &[bf16], to: &mut [f32]) {
        <bf16 as Operand<f32>>::along(s, low, to);
    }
}

impl Operand<[bf16; 2]> for bf16 {
    #[inline(always)]
    fn along<S: Simd<E = [bf16; 2]>>(_s: S, row: &[bf16], to: &mut [[bf16; 2]]) {
        to.copy_from_slice(bytemuck::cast_slice(row));
    }

    #[inline(always)]
    fn across<S: Simd<E = [bf16; 2]>>(_s: S, low: &[bf16], high: &[bf16], to: &mut [[bf16; 2]]) {
        for ((to, &low), &high) in to.iter_mut().zip(low).zip(high) {
            *to = [low, high];
        }
    }
}
