//! Twice each element.

use kernelyard_tile::{program, Capability, Instance, Program, Type};

/// The tile program.
#[cutile::module]
pub mod double {
    use cutile::core::*;

    #[cutile::entry()]
    unsafe fn double<T: ElementType, const SIZE: i32>(out: *mut T, x: *mut T, count: i32) {
        let block: (i32, i32, i32) = get_tile_block_id();
        let from: Tensor<T, { [-1] }> = unsafe { vector(x, count) };
        let from = from.partition(shape![SIZE]);
        let value: Tile<T, { [SIZE] }> = from.load([block.0]);
        let mut to: Tensor<T, { [-1] }> = unsafe { vector(out, count) };
        let mut to = to.partition_mut(shape![SIZE]);
        to.store(value + value, [block.0]);
    }

    unsafe fn vector<T: ElementType>(base: *mut T, count: i32) -> Tensor<T, { [-1] }> {
        let shape: Shape<{ [-1] }> = Shape::<{ [-1] }> { dims: &[count] };
        let strides: Array<{ [1] }> = Array::<{ [1] }> { dims: &[] };
        let base: PointerTile<*mut T, { [] }> = pointer_to_tile(base);
        unsafe { make_tensor_view(base, shape, strides, new_token_unordered()) }
    }
}

/// All that is compiled.
pub fn programs() -> Vec<Program> {
    vec![program!(double::double, instances)]
}

fn instances(capability: Capability) -> Vec<Instance> {
    let size = if capability.major == 8 { 512 } else { 1024 };
    [Type::F32, Type::F16].into_iter().map(|dtype| Instance::new().ty("T", dtype).tuned("SIZE", size)).collect()
}
