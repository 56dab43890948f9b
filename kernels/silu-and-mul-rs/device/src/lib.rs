//! `silu(gate) * up` on tiles of a row: the example to copy for tile kernels.

use kernelyard_tile::{program, Capability, Instance, Program, Type};

#[cutile::module]
pub mod activation {
    use cutile::core::*;

    /// One block computes `N` columns of a row of `out`. A row of `x` is `size` columns of gate, then `size` of up.
    ///
    /// Offsets are i64, as a tensor may have more than 2^31 elements. `PACK` divides `size` and the strides, `BYTES` the
    /// addresses: where they make 16 bytes, so wide is each access.
    #[cutile::entry()]
    unsafe fn silu_and_mul<T: ElementType, const PACK: i32, const BYTES: i32, const N: i32>(
        out: *mut T,
        x: *mut T,
        size: i64,
        out_stride: i64,
        x_stride: i64,
        tiles: i32,
    ) {
        let to = unsafe { assume_div_by::<_, BYTES>(out) };
        let from = unsafe { assume_div_by::<_, BYTES>(x) };
        let size = unsafe { assume_div_by::<_, PACK>(size) };
        let out_stride = unsafe { assume_div_by::<_, PACK>(out_stride) };
        let x_stride = unsafe { assume_div_by::<_, PACK>(x_stride) };

        let block: (i32, i32, i32) = get_tile_block_id();
        let row = wide(block.0 / tiles);
        let column = wide(block.0 % tiles) * wide(N);
        let left = min(size - column, wide(N));

        let gate: Tile<f32, { [N] }> = unsafe { load(from, row * x_stride + column, left, shape![N]) };
        let up: Tile<f32, { [N] }> = unsafe { load(from, row * x_stride + size + column, left, shape![N]) };
        let result: Tile<T, { [N] }> = convert_tile(silu(gate, shape![N]) * up);
        let mut view: Tensor<T, { [-1] }> = unsafe { columns(to, row * out_stride + column, left) };
        let mut view = view.partition_mut(shape![N]);
        view.store(result, [0i32]);
    }

    /// `x / (1 + e^-x)`. With `t = e^-|x|`, which cannot overflow, that is `x / (1 + t)`, times `t` where `x < 0`.
    fn silu<const S: [i32; 1]>(x: Tile<f32, S>, shape: Shape<S>) -> Tile<f32, S> {
        let one: Tile<f32, S> = constant(1.0f32, shape);
        let zero: Tile<f32, S> = constant(0.0f32, shape);
        let t: Tile<f32, S> = exp(negf(absf(x)));
        x * select(lt_tile(x, zero), t, one) * true_div(one, one + t)
    }

    /// The first columns from `first` on, of which there are `left`; zeros after them.
    unsafe fn load<T: ElementType, const S: [i32; 1]>(
        x: *mut T,
        first: i64,
        left: i64,
        shape: Shape<S>,
    ) -> Tile<f32, S> {
        let view: Tensor<T, { [-1] }> = unsafe { columns(x, first, left) };
        let tile: Tile<T, S> = view.partition(shape).load([0i32]);
        convert_tile(tile)
    }

    unsafe fn columns<T: ElementType>(base: *mut T, first: i64, left: i64) -> Tensor<T, { [-1] }> {
        let left: Tile<i64, { [] }> = scalar_to_tile(left);
        let left: Tile<i32, { [] }> = trunci(left, overflow::NoSignedWrap);
        let left: i32 = tile_to_scalar(left);
        let shape: Shape<{ [-1] }> = Shape::<{ [-1] }> { dims: &[left] };
        let strides: Array<{ [1] }> = Array::<{ [1] }> { dims: &[] };
        let base: PointerTile<*mut T, { [] }> = pointer_to_tile(base);
        let first: Tile<i64, { [] }> = scalar_to_tile(first);
        let start: PointerTile<*mut T, { [] }> = base.offset_tile(first);
        unsafe { make_tensor_view(start, shape, strides, new_token_unordered()) }
    }

    fn wide(x: i32) -> i64 {
        let narrow: Tile<i32, { [] }> = scalar_to_tile(x);
        let wide: Tile<i64, { [] }> = exti(narrow);
        let wide: i64 = tile_to_scalar(wide);
        wide
    }
}

/// All that is compiled.
pub fn programs() -> Vec<Program> {
    vec![program!(activation::silu_and_mul, instances)]
}

/// For each dtype, one where all is aligned to 16 bytes, and one for the rest.
fn instances(_: Capability) -> Vec<Instance> {
    let mut instances = Vec::new();
    for (dtype, bytes) in [(Type::F32, 4), (Type::F16, 2), (Type::BF16, 2)] {
        for pack in [16 / bytes, 1] {
            let instance = Instance::new().ty("T", dtype).int("PACK", pack);
            instances.push(instance.tuned("BYTES", pack * bytes).tuned("N", 4096 / bytes));
        }
    }
    instances
}
