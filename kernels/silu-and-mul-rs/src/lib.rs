//! `silu(x[:, :d]) * x[:, d:]` on a GPU: the host side of a tile kernel.

use kernelyard_cuda::{Device, Launch};
use kernelyard_rs::tvm_ffi::VALUE_ERROR;
use kernelyard_rs::{dispatch_float, export, Arg, Result, TensorView};

kernelyard_cuda::image!(static IMAGE);

/// As wide as an access can be, in bytes.
const WIDEST: usize = 16;

/// Write `silu(x[:, :d]) * x[:, d:]` to `out`, a matrix with `d` columns, which may be one half of `x`.
fn silu_and_mul(out: TensorView, x: TensorView) -> Result<()> {
    let (out, x) = (Arg::new("out", out), Arg::new("x", x));
    let [rows, width] = x.dims()?;
    if width % 2 != 0 {
        let what = format!("has shape {:?}; must have an even number of columns", x.shape());
        return Err(x.error(VALUE_ERROR, &what));
    }
    let size = width / 2;
    out.has_shape(&[rows, size])?.same_dtype(&x)?;
    let float = x.float()?;
    let device = Device::of(&[&out, &x])?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (out_stride, x_stride) = (row_stride(&out)?, row_stride(&x)?);
    if rows > 1 && out_stride < size as i64 {
        return Err(out.error(VALUE_ERROR, "has rows that overlap each other; must not be expanded"));
    }
    dispatch_float!(float, T => {
        let (to, from) = (out.pointer::<T>()?, x.pointer::<T>()?);
        let halves = [from, from.wrapping_add(size)];
        if !(halves.contains(&to) && (rows == 1 || out_stride == x_stride)) {
            out.disjoint(&x)?;
        }
        let aligned = out.is_aligned(WIDEST) && x.is_aligned(WIDEST);
        let pack = pack::<T>(aligned, [size as i64, out_stride, x_stride]);
        let entry = IMAGE.entry(&device, "silu_and_mul", &[("T", float.into()), ("PACK", pack.into())])?;
        let tiles = size.div_ceil(entry.tuned("N") as usize);
        // A grid with more blocks than an i32 counts is refused, so what this conversion would lose does not matter.
        let arguments = (to, from, size as i64, out_stride, x_stride, tiles as i32);
        // SAFETY: each element of `out` is computed from those of `x` in the same row and column, all of them inside
        // the two matrices, which have no element in common but those that are read where they are written.
        unsafe { entry.launch(Launch::grid(rows.saturating_mul(tiles), 1, 1), arguments) }
    })
}

/// The distance between the rows of a matrix whose rows are contiguous, in elements; 0 where there is only one.
fn row_stride(matrix: &Arg) -> Result<i64> {
    let (shape, strides) = (matrix.shape(), matrix.strides());
    if shape[1] > 1 && strides[1] != 1 {
        let what = format!("has strides {strides:?} for shape {shape:?}; its rows must be contiguous");
        return Err(matrix.error(VALUE_ERROR, &what));
    }
    Ok(if shape[0] > 1 { strides[0] } else { 0 })
}

/// How many elements can be accessed at once, where all addresses are those of multiples of these numbers of elements.
fn pack<T>(aligned: bool, multiples: [i64; 3]) -> usize {
    let pack = WIDEST / size_of::<T>();
    if aligned && multiples.iter().all(|multiple| multiple % pack as i64 == 0) {
        pack
    } else {
        1
    }
}

export!(silu_and_mul(out, x));

#[cfg(test)]
mod tests {
    use super::*;
    use kernelyard_rs::f16;

    #[test]
    fn elements_are_accessed_together_where_all_rows_are_aligned() {
        assert_eq!(pack::<f16>(true, [64, 64, 0]), 8);
        assert_eq!(pack::<f32>(true, [4, 12, 8]), 4);
        assert_eq!(pack::<f16>(true, [4, 16, 8]), 1);
        assert_eq!(pack::<f16>(true, [16, 16, 33]), 1);
        assert_eq!(pack::<f16>(false, [16, 16, 32]), 1);
    }
}
