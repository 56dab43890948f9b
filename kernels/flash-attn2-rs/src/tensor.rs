//! The tensors of a call, as the algorithm reads and writes them: a row of headdim elements at a time.

use std::marker::PhantomData;

use crate::attention::MAX_DIM;
use crate::element::{Element, Operand};
use crate::simd::{Job, Simd};

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
    /// Write a row of out.
    ///
    /// # Safety
    /// No other thread may write to the same row.
    unsafe fn write(&self, at: At, row: &[f32]);
}

/// Tensors of one type: q, k, v and out.
pub struct Typed<'a, T> {
    pub q: Heads<'a, T>,
    pub k: Heads<'a, T>,
    pub v: Heads<'a, T>,
    /// Contiguous, with the shape of q.
    pub out: Sink<'a, T>,
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

    unsafe fn write(&self, [batch, position, head]: At, row: &[f32]) {
        let mut buffer = [T::zeroed(); MAX_DIM];
        let narrow = &mut buffer[..row.len()];
        T::narrow(row, narrow);
        let [_, queries, heads, dim] = self.tensors.q.shape;
        // SAFETY: rows of out do not overlap, and the caller is alone with this one.
        unsafe { self.tensors.out.write(((batch * queries + position) * heads + head) * dim, narrow) }
    }
}

struct Along<'a, S: Simd, T> {
    s: S,
    rows: &'a Heads<'a, T>,
    at: At,
    count: usize,
    width: usize,
    to: &'a mut [S::E],
}

impl<S: Simd, T: Operand<S::E>> Job for Along<'_, S, T> {
    #[inline(always)]
    fn run(&mut self) {
        for (i, to) in self.to.chunks_exact_mut(self.width).enumerate().take(self.count) {
            T::along(self.s, self.rows.row(self.at, i), to);
        }
    }
}

struct Across<'a, S: Simd, T> {
    s: S,
    rows: &'a Heads<'a, T>,
    at: At,
    count: usize,
    width: usize,
    to: &'a mut [S::E],
}

impl<S: Simd, T: Operand<S::E>> Job for Across<'_, S, T> {
    #[inline(always)]
    fn run(&mut self) {
        let zeros = [T::zeroed(); MAX_DIM];
        let dim = self.rows.shape[3];
        for (low, to) in (0..self.count).step_by(S::DEPTH).zip(self.to.chunks_exact_mut(self.width)) {
            let high = low + S::DEPTH - 1;
            let high = if high < self.count { self.rows.row(self.at, high) } else { &zeros };
            T::across(self.s, self.rows.row(self.at, low), high, &mut to[..dim]);
        }
    }
}

/// A tensor `[batch, seqlen, heads, headdim]` with any strides but the last, which is 1.
#[derive(Clone, Copy)]
pub struct Heads<'a, T> {
    data: &'a [T],
    shape: [usize; 4],
    strides: [usize; 3],
}

impl<'a, T: Element> Heads<'a, T> {
    /// `data` must reach as far as shape and strides do.
    pub fn new(data: &'a [T], shape: [usize; 4], strides: [usize; 3]) -> Self {
        Self { data, shape, strides }
    }

    pub fn shape(&self) -> [usize; 4] {
        self.shape
    }

    /// The row that many positions after a place.
    #[inline(always)]
    fn row(&self, [batch, position, head]: At, after: usize) -> &'a [T] {
        let start = batch * self.strides[0] + (position + after) * self.strides[1] + head * self.strides[2];
        &self.data[start..start + self.shape[3]]
    }
}

/// Memory that threads fill together. It may be uninitialised, and is never read.
pub struct Sink<'a, T> {
    start: *mut T,
    len: usize,
    memory: PhantomData<&'a mut [T]>,
}

// SAFETY: the only access is `write`, whose callers keep to different elements.
unsafe impl<T: Send> Sync for Sink<'_, T> {}

impl<T: Copy> Sink<'_, T> {
    /// # Safety
    /// The `len` elements from `start` must be writable, and used by nobody else, for the lifetime of the sink.
    pub unsafe fn new(start: *mut T, len: usize) -> Self {
        Self { start, len, memory: PhantomData }
    }

    /// Write `values` from the element `at` on.
    ///
    /// # Safety
    /// No other thread may write to the same elements.
    pub unsafe fn write(&self, at: usize, values: &[T]) {
        assert!(at <= self.len && values.len() <= self.len - at);
        // SAFETY: it is within the memory, as just checked, and `values` is not, for nobody else uses that.
        unsafe { self.start.add(at).copy_from_nonoverlapping(values.as_ptr(), values.len()) }
    }
}
