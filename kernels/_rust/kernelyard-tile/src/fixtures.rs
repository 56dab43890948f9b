//! Device code for the tests.

use crate::{program, Capability, Instance, Program};

#[cutile::module]
pub mod sample {
    use cutile::core::*;

    #[cutile::entry()]
    unsafe fn fill<T: ElementType, const D: i32, const N: i32>(out: *mut T, size: i32, _scale: f32, _stride: i64) {
        let zero: Tile<f32, { [N] }> = constant(0.0f32, shape![N]);
        let values: Tile<T, { [N] }> = convert_tile(zero);
        let shape: Shape<{ [-1] }> = Shape::<{ [-1] }> { dims: &[size] };
        let strides: Array<{ [1] }> = Array::<{ [1] }> { dims: &[] };
        let start: PointerTile<*mut T, { [] }> = pointer_to_tile(out);
        let mut view: Tensor<T, { [-1] }> = unsafe { make_tensor_view(start, shape, strides, new_token_unordered()) };
        let mut tiles = view.partition_mut(shape![N]);
        let block: (i32, i32, i32) = get_tile_block_id();
        tiles.store(values, [block.0]);
    }

    #[cutile::entry()]
    fn of_tensors<const N: i32>(out: &mut Tensor<f32, { [N] }>) {
        let value: Tile<f32, { [N] }> = constant(0.0f32, shape![N]);
        out.store(value);
    }

    #[cutile::entry()]
    unsafe fn of_array<const S: [i32; 2]>(_out: *mut f32) {}

    // The compiler takes the view, which has a parameter's name, for that parameter.
    #[cutile::entry()]
    unsafe fn shadowed<const N: i32>(out: *mut f32, size: i32) {
        let shape: Shape<{ [-1] }> = Shape::<{ [-1] }> { dims: &[size] };
        let strides: Array<{ [1] }> = Array::<{ [1] }> { dims: &[] };
        let start: PointerTile<*mut f32, { [] }> = pointer_to_tile(out);
        let mut out: Tensor<f32, { [-1] }> = unsafe { make_tensor_view(start, shape, strides, new_token_unordered()) };
        let mut tiles = out.partition_mut(shape![N]);
        let value: Tile<f32, { [N] }> = constant(0.0f32, shape![N]);
        tiles.store(value, [0i32]);
    }

    #[cutile::entry()]
    unsafe fn widened<const N: i32>(size: i32) {
        let _wide: i64 = convert_scalar(size);
    }

    fn no_entry(x: i32) -> i32 {
        x
    }
}

/// The line of this file on which a text first is.
pub(crate) fn line_of(text: &str) -> usize {
    1 + include_str!("fixtures.rs").lines().position(|line| line.contains(text)).expect("the text is there")
}

/// A program over a function of the sample, or over one that it lacks.
pub(crate) fn of(function: &'static str, instances: fn(Capability) -> Vec<Instance>) -> Program {
    Program { function, ..program!(sample::fill, instances) }
}
