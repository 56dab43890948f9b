//! Tensors of any strides.

use std::marker::PhantomData;
use std::ops::Deref;

use crate::element::Element;

/// The elements of a tensor of `N` dimensions; see [`Arg::view`](crate::Arg::view).
#[derive(Debug)]
pub struct View<'a, T, const N: usize> {
    data: *mut T,
    shape: [usize; N],
    strides: [isize; N],
    memory: PhantomData<&'a [T]>,
}

impl<T, const N: usize> Clone for View<'_, T, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const N: usize> Copy for View<'_, T, N> {}

// SAFETY: a view is a shared borrow of memory that nobody writes meanwhile.
unsafe impl<T: Sync, const N: usize> Send for View<'_, T, N> {}
// SAFETY: as above.
unsafe impl<T: Sync, const N: usize> Sync for View<'_, T, N> {}

impl<'a, T: Element, const N: usize> View<'a, T, N> {
    /// A view of memory.
    ///
    /// # Safety
    ///
    /// The element at each index within `shape` must be readable, for as long as the view lives.
    pub unsafe fn new(data: *mut T, shape: [usize; N], strides: [isize; N]) -> Self {
        Self { data, shape, strides, memory: PhantomData }
    }

    /// The extents of the dimensions.
    pub fn shape(&self) -> [usize; N] {
        self.shape
    }

    /// The distances, in elements, between neighbours along each dimension.
    pub fn strides(&self) -> [isize; N] {
        self.strides
    }

    /// The element at an index.
    ///
    /// # Panics
    ///
    /// If the index is not within the shape.
    pub fn at(&self, index: [usize; N]) -> T {
        // SAFETY: the index was checked.
        unsafe { *self.pointer(index) }
    }

    /// Whether the innermost dimension lies in memory without gaps, so that [`row`](View::row) works.
    pub fn has_rows(&self) -> bool {
        N > 0 && (self.strides[N - 1] == 1 || self.shape[N - 1] <= 1)
    }

    /// The elements from an index to the end of the innermost dimension.
    ///
    /// # Panics
    ///
    /// If the index is not within the shape, or the view does not [have rows](View::has_rows).
    pub fn row(&self, index: [usize; N]) -> &'a [T] {
        let length = self.row_length(index);
        // SAFETY: `row_length` checked that these elements exist and lie side by side.
        unsafe { std::slice::from_raw_parts(self.pointer(index), length) }
    }

    /// The address of the element at an index, for code that does its own arithmetic from there.
    ///
    /// # Panics
    ///
    /// If the index is not within the shape.
    pub fn pointer(&self, index: [usize; N]) -> *const T {
        self.address(index)
    }

    fn row_length(&self, index: [usize; N]) -> usize {
        assert!(self.has_rows(), "rows of a view with strides {:?}", self.strides);
        self.shape[N - 1] - index[N - 1]
    }

    fn address(&self, index: [usize; N]) -> *mut T {
        let mut offset = 0;
        for dim in 0..N {
            assert!(index[dim] < self.shape[dim], "index {index:?} in a view of shape {:?}", self.shape);
            offset += index[dim] as isize * self.strides[dim];
        }
        // SAFETY: the element exists, so the way to it does not leave the memory.
        unsafe { self.data.offset(offset) }
    }
}

/// A [`View`] to write to; see [`Arg::view_mut`](crate::Arg::view_mut). It reads as a [`View`] does.
///
/// Threads may share one, and each write to elements of its own: so writing is `unsafe`.
#[derive(Debug)]
pub struct ViewMut<'a, T, const N: usize>(View<'a, T, N>);

// SAFETY: who writes through a shared view promises that no other thread uses the element.
unsafe impl<T: Send + Sync, const N: usize> Send for ViewMut<'_, T, N> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync, const N: usize> Sync for ViewMut<'_, T, N> {}

impl<'a, T, const N: usize> Deref for ViewMut<'a, T, N> {
    type Target = View<'a, T, N>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'a, T: Element, const N: usize> ViewMut<'a, T, N> {
    /// A view of memory that can be written.
    ///
    /// # Safety
    ///
    /// No two indices may be one element, and nothing but the view may use the memory while it lives.
    pub unsafe fn new(view: View<'a, T, N>) -> Self {
        Self(view)
    }

    /// Set the element at an index.
    ///
    /// # Safety
    ///
    /// No other thread may use the element meanwhile.
    ///
    /// # Panics
    ///
    /// If the index is not within the shape.
    pub unsafe fn set(&self, index: [usize; N], value: T) {
        // SAFETY: the index was checked, and the caller promises that the element is not in use.
        unsafe { *self.0.address(index) = value }
    }

    /// The elements from an index to the end of the innermost dimension, to write to.
    ///
    /// # Safety
    ///
    /// While the row lives, nothing else may use these elements.
    ///
    /// # Panics
    ///
    /// If the index is not within the shape, or the view does not [have rows](View::has_rows).
    #[allow(clippy::mut_from_ref)] // What the caller promises is that rows in use do not overlap.
    pub unsafe fn row_mut(&self, index: [usize; N]) -> &'a mut [T] {
        let length = self.0.row_length(index);
        // SAFETY: `row_length` checked that the elements exist side by side; the caller promises that they are free.
        unsafe { std::slice::from_raw_parts_mut(self.0.address(index), length) }
    }

    /// The address of the element at an index, for code that does its own arithmetic from there.
    ///
    /// # Panics
    ///
    /// If the index is not within the shape.
    pub fn pointer_mut(&self, index: [usize; N]) -> *mut T {
        self.0.address(index)
    }
}
