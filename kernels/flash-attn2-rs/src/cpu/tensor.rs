//! The tensors of a call, as the algorithm reads and writes them: a row of headdim elements at a time.

use kernelyard_rs::{View, ViewMut};

use crate::call::MAX_DIM;
use crate::cpu::element::Operand;
use crate::cpu::simd::{Job, Simd};

/// Where a row is: batch, position, head.
pub type At = [usize; 3];

/// The tensors, whatever their type. `E` is the operand that an instruction set multiplies by.
///
/// So the algorithm is compiled once for an instruction set, and only these functions for each type as well.
pub trait Tensors<E>: Sync {
    /// The query at a place.
    fn query(&self, at: At, to: &mut [E]);
    /// Keys from a place on, of which each takes `width`.
    fn keys(&self, at: At, count: usize, width: usize, to: &mut [E]);
    /// Values from a place on. Each `width` takes those of as many keys as an operand holds numbers; where there are none
    /// left, zeros.
    fn values(&self, at: At, count: usize, width: usize, to: &mut [E]);
    /// Write a row of out, and its lse.
    ///
    /// # Safety
    /// No other thread may write to the same row.
    unsafe fn write(&self, at: At, out: &[f32], lse: f32);
}

/// Tensors of one type: q, k, v and out `[batch, seqlen, heads, headdim]`, and lse.
pub struct Typed<'a, T> {
    pub q: View<'a, T, 4>,
    pub k: View<'a, T, 4>,
    pub v: View<'a, T, 4>,
    pub out: ViewMut<'a, T, 4>,
    /// `[batch, heads, queries]`
    pub lse: ViewMut<'a, f32, 3>,
}

impl<T> Typed<'_, T> {
    /// Read them with an instruction set.
    pub fn with<S: Simd>(&self, s: S) -> With<'_, S, T> {
        With { s, tensors: self }
    }
}

/// Tensors, and the instruction set to read them with.
pub struct With<'a, S, T> {
    s: S,
    tensors: &'a Typed<'a, T>,
}

impl<S: Simd, T: Operand<S::E>> Tensors<S::E> for With<'_, S, T> {
    fn query(&self, at: At, to: &mut [S::E]) {
        let width = to.len();
        self.s.run(&mut Along { s: self.s, rows: &self.tensors.q, at, count: 1, width, to });
    }

    fn keys(&self, at: At, count: usize, width: usize, to: &mut [S::E]) {
        self.s.run(&mut Along { s: self.s, rows: &self.tensors.k, at, count, width, to });
    }

    fn values(&self, at: At, count: usize, width: usize, to: &mut [S::E]) {
        self.s.run(&mut Across { s: self.s, rows: &self.tensors.v, at, count, width, to });
    }

    unsafe fn write(&self, [batch, position, head]: At, out: &[f32], lse: f32) {
        // SAFETY: rows do not overlap, and no other thread writes to this one.
        unsafe {
            T::narrow(out, self.tensors.out.row_mut([batch, position, head, 0]));
            self.tensors.lse.set([batch, head, position], lse);
        }
    }
}

struct Along<'a, S: Simd, T> {
    s: S,
    rows: &'a View<'a, T, 4>,
    at: At,
    count: usize,
    width: usize,
    to: &'a mut [S::E],
}

impl<S: Simd, T: Operand<S::E>> Job for Along<'_, S, T> {
    #[inline(always)]
    fn run(&mut self) {
        let [batch, position, head] = self.at;
        for (i, to) in self.to.chunks_exact_mut(self.width).enumerate().take(self.count) {
            T::along(self.s, self.rows.row([batch, position + i, head, 0]), to);
        }
    }
}

struct Across<'a, S: Simd, T> {
    s: S,
    rows: &'a View<'a, T, 4>,
    at: At,
    count: usize,
    width: usize,
    to: &'a mut [S::E],
}

impl<S: Simd, T: Operand<S::E>> Job for Across<'_, S, T> {
    #[inline(always)]
    fn run(&mut self) {
        let zeros = [T::zeroed(); MAX_DIM];
        let [batch, position, head] = self.at;
        let row = |i: usize| self.rows.row([batch, position + i, head, 0]);
        for (low, to) in (0..self.count).step_by(S::DEPTH).zip(self.to.chunks_exact_mut(self.width)) {
            let high = low + S::DEPTH - 1;
            let high = if high < self.count { row(high) } else { &zeros };
            let low = row(low);
            T::across(self.s, low, high, &mut to[..low.len()]);
        }
    }
}
