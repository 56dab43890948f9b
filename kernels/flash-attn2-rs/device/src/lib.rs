//! FlashAttention-2 forward as a tile program: a block computes `BM` rows of one head's out, and goes through the keys
//! in tiles of `BN`, with the softmax's maximum and sum kept up to date on the way.
//!
//! # What bounds the speed
//!
//! For each score, the two products take `4 · D` operations on the tensor cores, and the softmax one exponential, of which
//! a multiprocessor makes 16 in a cycle. Both take equally long at `D = 32` on 8.0, at 64 on 9.0 and at 128 on 10.0; for
//! smaller heads the exponentials are the bound, for larger ones, and everywhere on 12.0, the tensor cores. A block's
//! warps, or another block's, use one while these use the other. Another 8 plain instructions for a score, and they are
//! the bound, so:
//! - no score is masked or capped where it need not be. A tile that all rows see whole, and these are nearly all tiles
//!   of a long sequence, costs a maximum, a multiply-add, an exponential, an addition and half a rounding for each score;
//! - keys and values are read once for `BM` rows, so `BM` is as large as the registers allow: a row of out and one of
//!   scores are `D + BN` numbers. [`tiles`] says what fits.

mod tiles;

use kernelyard_tile::{Program, program};

/// All that is compiled.
pub fn programs() -> Vec<Program> {
    vec![program!(attention::forward, tiles::instances)]
}

#[cutile::module]
pub mod attention {
    use cutile::core::*;

    /// out and lse of queries `[batch, queries, heads, dim]`; see the host for what each argument is.
    ///
    /// `D` is `dim`, rounded up to a power of two: what is beyond `dim` is read as zeros and not written. Without
    /// `GENERAL`, logits are scores times `scale`, which is positive. With it, `scale` may be any number; scores are
    /// capped if `softcap` is positive, and get alibi's bias if `alibi` is 1.
    ///
    /// Logits are in units of log 2, so that exponentials are powers of 2. The query of row `r` stands at key
    /// `r + keys - queries`, and sees `left` keys before that and `right` after it. Offsets are i64, as a tensor may
    /// have more than 2^31 elements.
    #[cutile::entry()]
    unsafe fn forward<T: ElementType, const D: i32, const GENERAL: i32, const BM: i32, const BN: i32>(
        out: *mut T,
        lse: *mut f32,
        q: *mut T,
        k: *mut T,
        v: *mut T,
        slopes: *mut f32,
        heads: i32,
        group: i32,
        queries: i32,
        keys: i32,
        dim: i32,
        q_batch: i64,
        q_head: i64,
        q_row: i32,
        k_batch: i64,
        k_head: i64,
        k_row: i32,
        v_batch: i64,
        v_head: i64,
        v_row: i32,
        alibi: i32,
        slopes_batch: i64,
        slopes_head: i64,
        left: i32,
        right: i32,
        scale: f32,
        softcap: f32,
    ) {
        // The last rows of a head come first: with a causal mask they take the longest.
        let block: (i32, i32, i32) = get_tile_block_id();
        let tiles = ceil_div(queries, BM);
        let tile = tiles - 1i32 - block.0 % tiles;
        let head_of_all = block.0 / tiles;
        let batch = wide(head_of_all / heads);
        let head = wide(head_of_all % heads);
        let key_head = wide(head_of_all % heads / group);

        let q_rows: Tensor<T, { [-1, -1] }> =
            unsafe { matrix(q, batch * q_batch + head * q_head, queries, dim, q_row) };
        let k_rows: Tensor<T, { [-1, -1] }> =
            unsafe { matrix(k, batch * k_batch + key_head * k_head, keys, dim, k_row) };
        let v_rows: Tensor<T, { [-1, -1] }> =
            unsafe { matrix(v, batch * v_batch + key_head * v_head, keys, dim, v_row) };
        let q_tiles = q_rows.partition(shape![BM, D]);
        let k_tiles = k_rows.partition(shape![BN, D]);
        let v_tiles = v_rows.partition(shape![BN, D]);

        let mut slope: f32 = 0.0f32;
        if GENERAL == 1i32 {
            if alibi == 1i32 {
                let given: f32 = unsafe { number(slopes, batch * slopes_batch + head * slopes_head) };
                slope = given * 1.4426950408889634f32;
            }
        }

        // Where the tile's first and last row stand, and the tiles of keys from `start` to `end` that some row sees. All
        // rows see all of those from `whole` to `whole_end`; the others need a mask.
        let first = tile * BM + keys - queries;
        let last = min(tile * BM + BM, queries) - 1i32 + keys - queries;
        let start = min(max(first - left, 0i32), keys) / BN;
        let end = max(ceil_div(min(max(last + right + 1i32, 0i32), keys), BN), start);
        let whole = min(ceil_div(max(last - left, 0i32), BN), end);
        let whole_end = max(min(max(first + right + 1i32, 0i32), keys) / BN, whole);

        let query: Tile<T, { [BM, D] }> = q_tiles.load([tile, 0i32]);
        let mut maximum: Tile<f32, { [BM, 1] }> = constant(f32::NEG_INFINITY, shape![BM, 1]);
        let mut sum: Tile<f32, { [BM, 1] }> = constant(0.0f32, shape![BM, 1]);
        let mut acc: Tile<f32, { [BM, D] }> = constant(0.0f32, shape![BM, D]);
        // Two loops, for one with a branch in it would mask all tiles: both sides of a small branch are computed.
        for j in whole..whole_end {
            let (new_maximum, new_sum, new_acc): (
                Tile<f32, { [BM, 1] }>,
                Tile<f32, { [BM, 1] }>,
                Tile<f32, { [BM, D] }>,
            ) = step::<T, D, GENERAL, 0, BM, BN>(
                query, &k_tiles, &v_tiles, j, first, keys, left, right, scale, softcap, slope, maximum, sum, acc,
            );
            maximum = new_maximum;
            sum = new_sum;
            acc = new_acc;
        }
        let before = whole - start;
        let masked = before + end - whole_end;
        for i in 0i32..masked {
            let mut j = start + i;
            if i >= before {
                j = whole_end + i - before;
            }
            let (new_maximum, new_sum, new_acc): (
                Tile<f32, { [BM, 1] }>,
                Tile<f32, { [BM, 1] }>,
                Tile<f32, { [BM, D] }>,
            ) = step::<T, D, GENERAL, 1, BM, BN>(
                query, &k_tiles, &v_tiles, j, first, keys, left, right, scale, softcap, slope, maximum, sum, acc,
            );
            maximum = new_maximum;
            sum = new_sum;
            acc = new_acc;
        }

        // As in the reference kernel, a query that sees no key gives 0, and an lse of infinity.
        let zero: Tile<f32, { [BM, 1] }> = constant(0.0f32, shape![BM, 1]);
        let one: Tile<f32, { [BM, 1] }> = constant(1.0f32, shape![BM, 1]);
        let blind: Tile<bool, { [BM, 1] }> = eq_tile(sum, zero);
        let sum: Tile<f32, { [BM, 1] }> = select(blind, one, sum);
        let inverse: Tile<f32, { [BM, 1] }> = one / sum;
        let rounded: Tile<T, { [BM, D] }> = convert_tile(acc * inverse.broadcast(shape![BM, D]));
        let out_start = (batch * wide(queries) * wide(heads) + head) * wide(dim);
        let out_rows: Tensor<T, { [-1, -1] }> = unsafe { matrix(out, out_start, queries, dim, heads * dim) };
        let mut out_tiles = unsafe { out_rows.partition_full_mut(shape![BM, D]) };
        out_tiles.store(rounded, [tile, 0i32]);

        if GENERAL == 0i32 {
            maximum = maximum * scale.broadcast(shape![BM, 1]);
        }
        let ln_2: Tile<f32, { [BM, 1] }> = constant(0.6931471805599453f32, shape![BM, 1]);
        let infinity: Tile<f32, { [BM, 1] }> = constant(f32::INFINITY, shape![BM, 1]);
        let log_sum: Tile<f32, { [BM, 1] }> = log2(sum);
        let logs: Tile<f32, { [BM, 1] }> = select(blind, infinity, (maximum + log_sum) * ln_2);
        let lse_row: Tensor<f32, { [-1] }> = unsafe { vector(lse, wide(head_of_all) * wide(queries), queries) };
        let mut lse_tiles = unsafe { lse_row.partition_full_mut(shape![BM]) };
        lse_tiles.store(logs.reshape(shape![BM]), [tile]);
    }

    /// Take tile `j` of keys and values into account; returns the new maximum, sum and acc.
    fn step<T: ElementType, const D: i32, const GENERAL: i32, const MASKED: i32, const BM: i32, const BN: i32>(
        query: Tile<T, { [BM, D] }>,
        k_tiles: &Partition<T, { [BN, D] }>,
        v_tiles: &Partition<T, { [BN, D] }>,
        j: i32,
        first: i32,
        keys: i32,
        left: i32,
        right: i32,
        scale: f32,
        softcap: f32,
        slope: f32,
        maximum: Tile<f32, { [BM, 1] }>,
        sum: Tile<f32, { [BM, 1] }>,
        acc: Tile<f32, { [BM, D] }>,
    ) -> (Tile<f32, { [BM, 1] }>, Tile<f32, { [BM, 1] }>, Tile<f32, { [BM, D] }>) {
        let key: Tile<T, { [BN, D] }> = k_tiles.load([j, 0i32]);
        let key: Tile<T, { [D, BN] }> = key.transpose();
        let nothing: Tile<f32, { [BM, BN] }> = constant(0.0f32, shape![BM, BN]);
        let mut s: Tile<f32, { [BM, BN] }> = mma(query, key, nothing);
        // From here on, rows and columns are counted from where the first row stands.
        if GENERAL == 1i32 {
            s = logits(s, j * BN - first, scale, softcap, slope);
        }
        if MASKED == 1i32 {
            s = mask(s, j * BN - first, left, right, keys - 1i32 - first);
        }

        let highest: Tile<f32, { [BM] }> = reduce_max(s, 1);
        let highest: Tile<f32, { [BM, 1] }> = max_tile(maximum, highest.reshape(shape![BM, 1]));
        // Where nothing is visible yet, any finite number will do.
        let zero: Tile<f32, { [BM, 1] }> = constant(0.0f32, shape![BM, 1]);
        let lowest: Tile<f32, { [BM, 1] }> = constant(f32::NEG_INFINITY, shape![BM, 1]);
        let seen: Tile<bool, { [BM, 1] }> = gt_tile(highest, lowest);
        let mut shift: Tile<f32, { [BM, 1] }> = select(seen, highest, zero);
        let mut change: Tile<f32, { [BM, 1] }> = maximum - shift;
        let mut logit: Tile<f32, { [BM, BN] }> = s - shift.broadcast(shape![BM, BN]);
        if GENERAL == 0i32 {
            let scales: Tile<f32, { [BM, 1] }> = scale.broadcast(shape![BM, 1]);
            change = change * scales;
            shift = zero - shift * scales;
            let scales: Tile<f32, { [BM, BN] }> = scale.broadcast(shape![BM, BN]);
            let shifts: Tile<f32, { [BM, BN] }> = shift.broadcast(shape![BM, BN]);
            logit = fma(s, scales, shifts, rounding::NearestEven, ftz::Enabled);
        }
        let weight: Tile<f32, { [BM, BN] }> = exp2(logit, ftz::Enabled);
        let decay: Tile<f32, { [BM, 1] }> = exp2(change, ftz::Enabled);
        let added: Tile<f32, { [BM] }> = reduce_sum(weight, 1);
        let sum: Tile<f32, { [BM, 1] }> = sum * decay + added.reshape(shape![BM, 1]);

        let value: Tile<T, { [BN, D] }> = v_tiles.load([j, 0i32]);
        let weight: Tile<T, { [BM, BN] }> = convert_tile(weight);
        let acc: Tile<f32, { [BM, D] }> = mma(weight, value, acc * decay.broadcast(shape![BM, D]));
        (highest, sum, acc)
    }

    /// Scale, cap, and add alibi's bias, for columns from `offset` on.
    fn logits<const BM: i32, const BN: i32>(
        s: Tile<f32, { [BM, BN] }>,
        offset: i32,
        scale: f32,
        softcap: f32,
        slope: f32,
    ) -> Tile<f32, { [BM, BN] }> {
        let mut s: Tile<f32, { [BM, BN] }> = s * scale.broadcast(shape![BM, BN]);
        if softcap > 0.0f32 {
            // tanh(x) = 1 - 2 / (e^2x + 1), where `scale` has made 2x of the score.
            let one: Tile<f32, { [BM, BN] }> = constant(1.0f32, shape![BM, BN]);
            let two: Tile<f32, { [BM, BN] }> = constant(2.0f32, shape![BM, BN]);
            let power: Tile<f32, { [BM, BN] }> = exp2(s, ftz::Enabled);
            s = (one - true_div(two, power + one)) * softcap.broadcast(shape![BM, BN]);
        }
        let row: Tile<f32, { [BM, 1] }> = convert_tile(rows::<BM>());
        let column: Tile<f32, { [1, BN] }> = convert_tile(columns::<BN>(offset));
        let distance: Tile<f32, { [BM, BN] }> = column.broadcast(shape![BM, BN]) - row.broadcast(shape![BM, BN]);
        let distance: Tile<f32, { [BM, BN] }> = absf(distance);
        let s: Tile<f32, { [BM, BN] }> = s - distance * slope.broadcast(shape![BM, BN]);
        s
    }

    /// Hide what a row does not see, of columns from `offset` on, the last of which is `end`.
    fn mask<const BM: i32, const BN: i32>(
        s: Tile<f32, { [BM, BN] }>,
        offset: i32,
        left: i32,
        right: i32,
        end: i32,
    ) -> Tile<f32, { [BM, BN] }> {
        let row: Tile<i32, { [BM, 1] }> = rows::<BM>();
        let low: Tile<i32, { [BM, 1] }> = row - left.broadcast(shape![BM, 1]);
        let high: Tile<i32, { [BM, 1] }> = min_tile(row + right.broadcast(shape![BM, 1]), end.broadcast(shape![BM, 1]));
        let column: Tile<i32, { [1, BN] }> = columns::<BN>(offset);
        let column: Tile<i32, { [BM, BN] }> = column.broadcast(shape![BM, BN]);
        let seen: Tile<bool, { [BM, BN] }> =
            ge_tile(column, low.broadcast(shape![BM, BN])) & le_tile(column, high.broadcast(shape![BM, BN]));
        let hidden: Tile<f32, { [BM, BN] }> = constant(f32::NEG_INFINITY, shape![BM, BN]);
        // Not an addition, so that a NaN which is hidden is not seen.
        let s: Tile<f32, { [BM, BN] }> = select(seen, s, hidden);
        s
    }

    fn rows<const BM: i32>() -> Tile<i32, { [BM, 1] }> {
        let row: Tile<i32, { [BM] }> = iota(shape![BM]);
        row.reshape(shape![BM, 1])
    }

    fn columns<const BN: i32>(first: i32) -> Tile<i32, { [1, BN] }> {
        let column: Tile<i32, { [BN] }> = iota(shape![BN]);
        column.reshape(shape![1, BN]) + first.broadcast(shape![1, BN])
    }

    /// `[rows, columns]` from `offset` on. The host has seen to the alignment, without which each access would be one of
    /// a single element, and no bulk copy.
    unsafe fn matrix<T: ElementType>(
        base: *mut T,
        offset: i64,
        rows: i32,
        columns: i32,
        stride: i32,
    ) -> Tensor<T, { [-1, -1] }> {
        let columns: i32 = unsafe { assume_div_by::<_, 8>(columns) };
        let stride: i32 = unsafe { assume_div_by::<_, 8>(stride) };
        let start: PointerTile<*mut T, { [] }> = unsafe { assume_div_by::<_, 16>(at(base, offset)) };
        let shape: Shape<{ [-1, -1] }> = Shape::<{ [-1, -1] }> { dims: &[rows, columns] };
        let strides: Array<{ [-1, 1] }> = Array::<{ [-1, 1] }> { dims: &[stride] };
        unsafe { make_tensor_view(start, shape, strides, new_token_unordered()) }
    }

    unsafe fn vector(base: *mut f32, offset: i64, size: i32) -> Tensor<f32, { [-1] }> {
        let start: PointerTile<*mut f32, { [] }> = at(base, offset);
        let shape: Shape<{ [-1] }> = Shape::<{ [-1] }> { dims: &[size] };
        let strides: Array<{ [1] }> = Array::<{ [1] }> { dims: &[] };
        unsafe { make_tensor_view(start, shape, strides, new_token_unordered()) }
    }

    unsafe fn number(base: *mut f32, offset: i64) -> f32 {
        let place: PointerTile<*mut f32, { [] }> = at(base, offset);
        let (number, _token): (Tile<f32, { [] }>, Token) =
            unsafe { load_ptr_tko(place, ordering::Weak, None::<scope::TileBlock>, None, None, None, Latency::<0>) };
        tile_to_scalar(number)
    }

    fn at<E: ElementType>(base: *mut E, offset: i64) -> PointerTile<*mut E, { [] }> {
        let base: PointerTile<*mut E, { [] }> = pointer_to_tile(base);
        let offset: Tile<i64, { [] }> = scalar_to_tile(offset);
        let place: PointerTile<*mut E, { [] }> = addptr_tile(base, offset);
        place
    }

    fn wide(x: i32) -> i64 {
        let narrow: Tile<i32, { [] }> = scalar_to_tile(x);
        let wide: Tile<i64, { [] }> = exti(narrow);
        let wide: i64 = tile_to_scalar(wide);
        wide
    }
}
