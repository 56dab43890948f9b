//! A table, and a function that is not inlined: what an image must hold although it is of another crate.

#![no_std]

static TABLE: [f32; 4] = [1.0, 2.0, 4.0, 8.0];

/// A number of the table.
#[inline(never)]
pub fn at(index: usize) -> f32 {
    TABLE[index]
}
