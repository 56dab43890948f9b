//! `max(x, 0)` on a GPU: the smallest kernel for rustc's own target for GPUs.
//!
//! All but the entries compiles for the CPU too, where the tests run it as the threads of a grid would.

#![cfg_attr(not(test), no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, stdarch_nvptx))]

/// What a thread loads and stores at once, in bytes.
const WIDTH: usize = 16;

/// A number of which `max(x, 0)` can be taken; NaN stays NaN.
pub trait Element: Copy {
    /// `max(x, 0)`.
    fn relu(self) -> Self;
}

impl Element for f32 {
    fn relu(self) -> Self {
        if self < 0.0 {
            0.0
        } else {
            self
        }
    }
}

/// A float of 16 bits, whose infinity has the bits `INFINITY`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Half<const INFINITY: u16>(pub u16);

/// float16.
pub type F16 = Half<0x7c00>;
/// bfloat16.
pub type Bf16 = Half<0x7f80>;

impl<const INFINITY: u16> Element for Half<INFINITY> {
    fn relu(self) -> Self {
        const SIGN: u16 = 1 << 15;
        // The negative numbers; beyond infinity are NaNs.
        Self(if self.0 > SIGN && self.0 <= SIGN | INFINITY { 0 } else { self.0 })
    }
}

/// As many elements as one access takes.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Vector<T, const N: usize>([T; N]);

/// The part of one thread: of all that `threads` of them take in turns, what falls to `thread`.
///
/// # Safety
///
/// `x` points to `n` elements that can be read, `out` to as many that only this call and those for the other threads
/// use, and write.
pub unsafe fn relu<T: Element, const N: usize>(out: *mut T, x: *const T, n: usize, thread: usize, threads: usize) {
    const { assert!(size_of::<Vector<T, N>>() == WIDTH) };
    // A tensor may start between two vectors. Then it is all remainder.
    let vectors = if (out as usize | x as usize).is_multiple_of(WIDTH) { n / N } else { 0 };
    let (to, from) = (out.cast::<Vector<T, N>>(), x.cast::<Vector<T, N>>());
    let mut at = thread;
    while at < vectors {
        // SAFETY: the vectors lie within the elements, start where a vector may, and are of this thread alone.
        unsafe { to.add(at).write(Vector((*from.add(at)).0.map(T::relu))) };
        at += threads;
    }
    at = vectors * N + thread;
    while at < n {
        // SAFETY: one of the elements, and of this thread alone.
        unsafe { out.add(at).write((*x.add(at)).relu()) };
        at += threads;
    }
}

/// What the host launches, with any number of threads.
#[cfg(target_arch = "nvptx64")]
mod entries {
    use core::arch::nvptx::{_block_dim_x, _block_idx_x, _grid_dim_x, _thread_idx_x};

    use crate::{relu, Bf16, F16};

    macro_rules! entries {
        ($($name:ident: $type:ty, $n:literal;)*) => {$(
            #[no_mangle]
            pub unsafe extern "ptx-kernel" fn $name(out: *mut $type, x: *const $type, n: u64) {
                let block = _block_dim_x() as usize;
                let thread = _block_idx_x() as usize * block + _thread_idx_x() as usize;
                // SAFETY: the host passes tensors of `n` elements that share no memory.
                unsafe { relu::<$type, $n>(out, x, n as usize, thread, _grid_dim_x() as usize * block) }
            }
        )*};
    }

    entries! {
        relu_f32: f32, 4;
        relu_f16: F16, 8;
        relu_bf16: Bf16, 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the threads of a grid make of the elements from `start` on; what they must leave alone is 7.
    fn grid<T: Element + PartialEq + core::fmt::Debug, const N: usize>(x: &[T], start: usize, seven: T) -> Vec<T> {
        // Vectors, as memory of a GPU starts where one may.
        let whole = |value: T| vec![Vector([value; N]); (start + x.len()).div_ceil(N) + 1];
        let (mut from, mut to) = (whole(seven), whole(seven));
        let (from, to) = (from.as_mut_ptr().cast::<T>(), to.as_mut_ptr().cast::<T>());
        // SAFETY: both have room for `start` elements, `x`, and at least one more.
        unsafe {
            x.as_ptr().copy_to_nonoverlapping(from.add(start), x.len());
            let threads = 12;
            for thread in 0..threads {
                relu::<T, N>(to.add(start), from.add(start), x.len(), thread, threads);
            }
            assert_eq!(*to.add(start + x.len()), seven);
            (0..x.len()).map(|at| *to.add(start + at)).collect()
        }
    }

    impl<const INFINITY: u16> PartialEq for Half<INFINITY> {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }

    impl<const INFINITY: u16> core::fmt::Debug for Half<INFINITY> {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            write!(f, "{:#06x}", self.0)
        }
    }

    #[test]
    fn any_length_from_any_start() {
        for length in [0, 1, 3, 4, 5, 7, 8, 9, 47, 48, 49, 100] {
            for start in 0..4 {
                let x: Vec<f32> = (0..length).map(|at| at as f32 - 40.5).collect();
                let expected: Vec<f32> = x.iter().map(|x| x.max(0.0)).collect();
                assert_eq!(grid::<f32, 4>(&x, start, 7.0), expected);
                let halves: Vec<F16> = x.iter().map(|&x| Half(half::f16::from_f32(x).to_bits())).collect();
                let expected: Vec<F16> = expected.iter().map(|&x| Half(half::f16::from_f32(x).to_bits())).collect();
                assert_eq!(grid::<F16, 8>(&halves, start, Half(7)), expected);
            }
        }
    }

    #[test]
    fn every_half() {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        let f16: Vec<F16> = all.iter().map(|&bits| Half(bits)).collect();
        let bf16: Vec<Bf16> = all.iter().map(|&bits| Half(bits)).collect();
        let (of_f16, of_bf16) = (grid::<F16, 8>(&f16, 0, Half(7)), grid::<Bf16, 8>(&bf16, 0, Half(7)));
        for (at, &bits) in all.iter().enumerate() {
            let negative = |x: f32| x < 0.0;
            assert_eq!(of_f16[at].0, if negative(half::f16::from_bits(bits).to_f32()) { 0 } else { bits });
            assert_eq!(of_bf16[at].0, if negative(half::bf16::from_bits(bits).to_f32()) { 0 } else { bits });
        }
    }

    #[test]
    fn special_values() {
        let x = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE / 2.0, -f32::MIN_POSITIVE / 2.0];
        let to = grid::<f32, 4>(&x, 0, 7.0);
        assert_eq!(to, [0.0, 0.0, f32::INFINITY, 0.0, f32::MIN_POSITIVE / 2.0, 0.0]);
        assert_eq!(to[1].to_bits(), (-0.0f32).to_bits());
        assert!(grid::<f32, 4>(&[f32::NAN], 0, 7.0)[0].is_nan());
    }
}
