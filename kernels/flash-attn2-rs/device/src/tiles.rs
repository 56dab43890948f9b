//! The sizes of tiles, for each capability, size of a head, and kind of logits.

use kernelyard_tile::{Capability, Instance, Type};

/// A head's size is rounded up to one of these: a tile's sides are powers of two.
const SIZES: [i32; 4] = [32, 64, 128, 256];

/// Rows, keys, and warps that compute them (or as many as the assembler likes).
type Tiles = (i32, i32, Option<i32>);

/// For each dtype and size of a head, one for plain logits and one for all others.
pub fn instances(capability: Capability) -> Vec<Instance> {
    let mut instances = Vec::new();
    for dtype in [Type::F16, Type::BF16] {
        for (index, size) in SIZES.into_iter().enumerate() {
            for general in [false, true] {
                let (rows, keys, warps) = tiles(capability, general)[index];
                let instance = Instance::new().ty("T", dtype).int("D", size).int("GENERAL", general.into());
                let instance = instance.tuned("BM", rows).tuned("BN", keys);
                instances.push(warps.into_iter().fold(instance, Instance::warps));
            }
        }
    }
    instances
}

/// For each of [`SIZES`]: the largest with which the assembler keeps all in registers that the loops over keys use. (For
/// heads of 256 on 8.0 nothing does; 8 registers are spilled and loaded for 128 multiplications of matrices.)
fn tiles(capability: Capability, general: bool) -> [Tiles; 4] {
    let eight = Some(8);
    match (capability.major, general) {
        // Registers are the bound: 16 rows of out for each warp. Shared memory must be no more than the 99 KiB that 8.6
        // and 8.9 have, where this code runs too.
        (8, false) => [(128, 128, eight), (128, 64, eight), (64, 64, Some(4)), (64, 32, Some(4))],
        (8, true) => [(128, 64, eight), (128, 32, eight), (64, 64, Some(4)), (64, 32, Some(4))],
        // Two groups of 4 warps with 64 rows each: one uses the tensor cores while the other computes exponentials. With
        // fewer keys, these products would wait for shared memory, where their operands are.
        (9, _) => [(128, 128, eight); 4],
        // Scores and results are in tensor memory, and a thread has a whole row. The assembler's own choice of warps
        // leaves room to multiply one tile of keys while it computes the exponentials of another.
        (10, false) => [(128, 128, None), (128, 128, None), (128, 128, None), (128, 64, None)],
        (10, true) => [(128, 64, None); 4],
        // As for 8, with 99 KiB of shared memory, but loads need no registers: another warp makes bulk copies.
        _ => [(128, 128, eight), (128, 128, eight), (128, 64, eight), (32, 64, eight)],
    }
}
