//! FlashAttention-2 forward: softmax(q kᵀ) v, one block of keys after the other, with the softmax's maximum and sum kept
//! up to date on the way. No more than a block of the scores ever exists.
//!
//! # The layout, and what bounds the speed
//!
//! Queries lie in the lanes of vectors, `NR` vectors to a panel. Keys and values are broadcast. Then
//! - both products are the same loop: load `NR` vectors, broadcast `M` numbers, do `M * NR` multiply-adds into as many
//!   registers. With 8 × 3 of AVX-512's 32 registers that is 11 loads for 24 multiply-adds, of which a core does as many
//!   in a cycle as loads: the multiply-adds are the bound, as they should be;
//! - keys need no transposing, and queries are transposed once for all keys;
//! - the maximum and the sum of a softmax run down a lane, so that no step crosses lanes. Of the other work only the
//!   exponentials count: about 12 instructions for a vector of scores, which at headdim 64 stand against 128
//!   multiply-adds.
//!
//! With grouped-query heads, a group of query heads shares panels: row `r` of a key head is query `r / group` of the
//! group's head `r % group`. So a group of 8 fills 8 lanes even for a single query, and each key is read once for all 8.
//!
//! A panel's queries, its scores, and a block of keys or of values are in use at a time. For headdim 64 and float32 these
//! are 12, 18 and 24 KiB, so that they stream from L2 at worst. Blocks are packed once for all panels of a tile.

use std::array::from_fn;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytemuck::{Zeroable, cast_slice, cast_slice_mut, zeroed_vec};
use kernelyard_rs::parallel;

use crate::call::MAX_DIM;
use crate::cpu::simd::{Job, Simd};
use crate::cpu::tensor::{At, Tensors};
use crate::window::Window;

/// Keys in a block. A multiple of every `MK` and of every `DEPTH`.
const BLOCK: usize = 96;
/// Rows in a tile, up to a whole panel.
const TILE: usize = 256;

const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// A call, but for the tensors that have a type.
pub struct Problem {
    pub batch: usize,
    pub heads: usize,
    pub key_heads: usize,
    pub dim: usize,
    pub window: Window,
    /// `[batch, heads]`
    pub slopes: Option<Vec<f32>>,
    pub scale: f32,
    /// 0 is none.
    pub softcap: f32,
}

impl Problem {
    /// Query heads to a key head.
    fn group(&self) -> usize {
        self.heads / self.key_heads
    }

    /// Rows of a key head: the queries of its group.
    pub fn rows(&self) -> usize {
        self.window.queries * self.group()
    }

    /// Where a row of the key head is in q and out.
    fn query(&self, head: KeyHead, row: usize) -> At {
        let group = self.group();
        [head.batch, row / group, head.head * group + row % group]
    }

    /// Whether scores need only be scaled, and by a factor that leaves their order as it is.
    fn is_linear(&self) -> bool {
        self.softcap == 0.0 && self.slopes.is_none() && self.scale >= 0.0
    }

    /// Compute it with panels of `NR` vectors, and `MK` keys or `MV` dimensions of values at a time.
    pub fn solve<S: Simd, const MK: usize, const MV: usize, const NR: usize>(
        &self,
        s: S,
        tensors: &dyn Tensors<S::E>,
        threads: usize,
    ) {
        const { assert!(BLOCK.is_multiple_of(MK) && BLOCK.is_multiple_of(S::DEPTH)) };
        let plan = Plan::new(self.batch * self.key_heads, self.rows(), NR * S::LANES, threads);
        let next = AtomicUsize::new(0);
        // A worker for each thread. One that starts late finds less to do, or nothing.
        parallel::ranges(threads.min(plan.tasks()), 1, |_| {
            s.run(&mut Worker::<S, MK, MV, NR>::new(s, self, tensors, plan, &next));
        });
    }
}

/// A head of k and v.
#[derive(Clone, Copy)]
struct KeyHead {
    batch: usize,
    head: usize,
}

/// How the rows are divided: into tiles, each of which is a task for a thread.
#[derive(Clone, Copy)]
struct Plan {
    heads: usize,
    rows: usize,
    tile: usize,
}

impl Plan {
    fn new(heads: usize, rows: usize, panel: usize, threads: usize) -> Self {
        let mut panels = TILE.div_ceil(panel);
        // Large tiles save packing, but each thread should get several.
        while panels > 1 && heads * rows.div_ceil(panels * panel) < 4 * threads {
            panels /= 2;
        }
        Self { heads, rows, tile: panels * panel }
    }

    fn tiles(self) -> usize {
        self.rows.div_ceil(self.tile)
    }

    fn tasks(self) -> usize {
        self.heads * self.tiles()
    }

    /// A task's key head, counted through all batches, and its rows. The last rows of a head come first: with a causal
    /// mask they take the longest, so that threads end with short tasks.
    fn task(self, task: usize) -> Option<(usize, Range<usize>)> {
        let tiles = self.tiles();
        (task < self.tasks()).then(|| {
            let start = (tiles - 1 - task % tiles) * self.tile;
            (task / tiles, start..self.rows.min(start + self.tile))
        })
    }
}

/// A thread's memory, and what it works on.
struct Worker<'a, S: Simd, const MK: usize, const MV: usize, const NR: usize> {
    s: S,
    problem: &'a Problem,
    tensors: &'a dyn Tensors<S::E>,
    plan: Plan,
    next: &'a AtomicUsize,
    panels: Vec<Panel<S, NR>>,
    /// `[BLOCK][headdim / DEPTH]`
    keys: Vec<S::E>,
    /// `[BLOCK / DEPTH][headdim, rounded up to a multiple of MV]`; what is beyond headdim is 0.
    values: Vec<S::E>,
    /// Scores, then, `DEPTH` to one, weights: `[BLOCK]`.
    scores: Vec<[S::V; NR]>,
}

impl<S: Simd, const MK: usize, const MV: usize, const NR: usize> Job for Worker<'_, S, MK, MV, NR> {
    #[inline(always)]
    fn run(&mut self) {
        while let Some((head, rows)) = self.plan.task(self.next.fetch_add(1, Ordering::Relaxed)) {
            let heads = self.problem.key_heads;
            self.tile(KeyHead { batch: head / heads, head: head % heads }, rows);
        }
    }
}

impl<'a, S: Simd, const MK: usize, const MV: usize, const NR: usize> Worker<'a, S, MK, MV, NR> {
    fn new(s: S, problem: &'a Problem, tensors: &'a dyn Tensors<S::E>, plan: Plan, next: &'a AtomicUsize) -> Self {
        let dim = problem.dim;
        let panels = plan.tile.min(plan.rows).div_ceil(NR * S::LANES);
        Self {
            s,
            problem,
            tensors,
            plan,
            next,
            panels: (0..panels).map(|_| Panel::new(dim, dim.next_multiple_of(MV))).collect(),
            keys: zeroed_vec(BLOCK * dim / S::DEPTH),
            values: zeroed_vec(BLOCK / S::DEPTH * dim.next_multiple_of(MV)),
            scores: zeroed_vec(BLOCK),
        }
    }

    #[inline(always)]
    fn tile(&mut self, head: KeyHead, rows: Range<usize>) {
        let (dim, width) = (self.problem.dim, NR * S::LANES);
        let used = rows.len().div_ceil(width);
        for (panel, first) in self.panels[..used].iter_mut().zip(rows.step_by(width)) {
            panel.start(self.problem, self.tensors, head, first);
        }
        // What one row sees starts and ends no earlier than what the row before it sees.
        let seen = self.panels[0].seen.start..self.panels[used - 1].seen.end;
        // Blocks start at multiples of BLOCK whatever the tile, so that results do not depend on the number of threads.
        for start in (seen.start / BLOCK * BLOCK..seen.end).step_by(BLOCK) {
            let block = start..seen.end.min(start + BLOCK);
            let at = [head.batch, start, head.head];
            self.tensors.keys(at, block.len(), dim / S::DEPTH, &mut self.keys);
            self.tensors.values(at, block.len(), dim.next_multiple_of(MV), &mut self.values);
            for panel in 0..used {
                self.step(panel, head, block.clone());
            }
        }
        for panel in &self.panels[..used] {
            panel.finish(self.problem, self.tensors, head);
        }
    }

    /// Take a block of keys into account for a panel.
    #[inline(always)]
    fn step(&mut self, panel: usize, head: KeyHead, block: Range<usize>) {
        let (s, problem) = (self.s, self.problem);
        let panel = &mut self.panels[panel];
        let start = block.start.max(panel.seen.start);
        let end = block.end.min(panel.seen.end);
        if start >= end {
            return;
        }
        // Values are packed by DEPTH from the start of the block. One key too many, before the first visible, is masked.
        let skipped = (start - block.start) / S::DEPTH;
        let start = block.start + skipped * S::DEPTH;
        let count = end - start;

        scores::<S, MK, NR>(s, &panel.q, &self.keys[skipped * problem.dim..], count, &mut self.scores);
        let masked = start < panel.shared.start || panel.shared.end < end;
        let scale = if masked || !problem.is_linear() {
            panel.logits(s, problem, head, start, masked, &mut self.scores[..count]);
            1.0
        } else {
            problem.scale * LOG2_E
        };
        let decay = panel.softmax(s, &mut self.scores[..count], scale);
        let weights = &self.scores[..count.div_ceil(S::DEPTH)];
        let width = problem.dim.next_multiple_of(MV);
        for (at, o) in (0..width).step_by(MV).zip(panel.o.chunks_exact_mut(MV)) {
            accumulate::<S, MV, NR>(s, &self.values[skipped * width..], at, width, weights, &decay, o);
        }
    }
}

/// `scores[key] = keys[key] · q`, for the first `count` keys and up to the next multiple of `M`.
#[inline(always)]
fn scores<S: Simd, const M: usize, const NR: usize>(
    s: S,
    q: &[[S::V; NR]],
    keys: &[S::E],
    count: usize,
    scores: &mut [[S::V; NR]],
) {
    let depth = q.len();
    for (start, scores) in (0..count).step_by(M).zip(scores.chunks_exact_mut(M)) {
        // The last key stands in for those after it, whose scores are not used.
        let keys: [&[S::E]; M] = from_fn(|m| &keys[(start + m).min(count - 1) * depth..][..depth]);
        let mut sums = [[s.splat(0.0); NR]; M];
        for (i, q) in q.iter().enumerate() {
            for (sums, key) in sums.iter_mut().zip(keys) {
                for (sum, &q) in sums.iter_mut().zip(q) {
                    *sum = s.dot(*sum, key[i], q);
                }
            }
        }
        scores.copy_from_slice(&sums);
    }
}

/// `o[i] = o[i] * decay + Σ values[key][i] * weights[key]`, for `M` dimensions.
#[inline(always)]
fn accumulate<S: Simd, const M: usize, const NR: usize>(
    s: S,
    values: &[S::E],
    at: usize,
    width: usize,
    weights: &[[S::V; NR]],
    decay: &[S::V; NR],
    o: &mut [[S::V; NR]],
) {
    let mut sums = [[s.splat(0.0); NR]; M];
    for (sums, o) in sums.iter_mut().zip(o.iter()) {
        for ((sum, &o), &decay) in sums.iter_mut().zip(o).zip(decay) {
            *sum = s.mul(o, decay);
        }
    }
    for (values, weights) in values.chunks_exact(width).zip(weights) {
        for (sums, &value) in sums.iter_mut().zip(&values[at..at + M]) {
            for (sum, &weight) in sums.iter_mut().zip(weights) {
                *sum = s.dot(*sum, value, weight);
            }
        }
    }
    o.copy_from_slice(&sums);
}

/// `NR` vectors of queries, and their results so far. Logits are in units of log 2, so that exponentials are powers of 2.
struct Panel<S: Simd, const NR: usize> {
    first: usize,
    /// The keys that some of the queries see, and those that all of them see.
    seen: Range<usize>,
    shared: Range<usize>,
    /// `[headdim / DEPTH]`
    q: Vec<[S::V; NR]>,
    /// The sum of values times weights, 2^(logit - max): `[headdim, rounded up to a multiple of MV]`.
    o: Vec<[S::V; NR]>,
    /// The largest logit.
    max: [S::V; NR],
    /// The sum of weights.
    sum: [S::V; NR],
}

impl<S: Simd, const NR: usize> Panel<S, NR> {
    const WIDTH: usize = NR * S::LANES;

    fn new(dim: usize, padded_dim: usize) -> Self {
        Self {
            first: 0,
            seen: 0..0,
            shared: 0..0,
            q: zeroed_vec(dim / S::DEPTH),
            o: zeroed_vec(padded_dim),
            max: Zeroable::zeroed(),
            sum: Zeroable::zeroed(),
        }
    }

    /// The row of a lane. Lanes after the last row repeat it.
    fn row(&self, lane: usize, rows: usize) -> usize {
        (self.first + lane).min(rows - 1)
    }

    #[inline(always)]
    fn start(&mut self, problem: &Problem, tensors: &dyn Tensors<S::E>, head: KeyHead, first: usize) {
        let (rows, group) = (problem.rows(), problem.group());
        self.first = first;
        let first = problem.window.seen(first / group);
        let last = problem.window.seen(self.row(Self::WIDTH - 1, rows) / group);
        self.seen = first.start..last.end;
        self.shared = last.start..first.end;
        self.o.fill(Zeroable::zeroed());
        self.sum = Zeroable::zeroed();
        cast_slice_mut::<S::V, f32>(&mut self.max).fill(f32::NEG_INFINITY);

        let mut buffer = [S::E::zeroed(); MAX_DIM];
        let query = &mut buffer[..self.q.len()];
        for lane in 0..Self::WIDTH {
            tensors.query(problem.query(head, self.row(lane, rows)), query);
            let columns = cast_slice_mut::<[S::V; NR], S::E>(&mut self.q).chunks_exact_mut(Self::WIDTH);
            for (column, &number) in columns.zip(query.iter()) {
                column[lane] = number;
            }
        }
    }

    /// One number for each lane, made from its row.
    #[inline(always)]
    fn lanes(&self, rows: usize, number: impl Fn(usize) -> f32) -> [S::V; NR] {
        let mut lanes = <[S::V; NR]>::zeroed();
        for (lane, x) in cast_slice_mut::<S::V, f32>(&mut lanes).iter_mut().enumerate() {
            *x = number(self.row(lane, rows));
        }
        lanes
    }

    /// Turn scores of the keys from `start` on into logits: scale, cap, add alibi's bias, and mask if asked to.
    #[inline(always)]
    fn logits(&self, s: S, problem: &Problem, head: KeyHead, start: usize, masked: bool, scores: &mut [[S::V; NR]]) {
        let (rows, group, window) = (problem.rows(), problem.group(), &problem.window);
        // Positions are relative to the first key, and so exact in f32 where it matters.
        let relative = |position: i64| (position - start as i64) as f32;
        let bounds = masked.then(|| {
            let starts = self.lanes(rows, |row| relative(window.seen(row / group).start as i64));
            let ends = self.lanes(rows, |row| relative(window.seen(row / group).end as i64));
            (starts, ends)
        });
        let bias = problem.slopes.as_ref().map(|slopes| {
            let slope = |row| slopes[head.batch * problem.heads + problem.query(head, row)[2]];
            let slopes = self.lanes(rows, |row| -slope(row) * LOG2_E);
            let positions = self.lanes(rows, |row| relative(window.position(row / group)));
            (slopes, positions)
        });
        let capped = problem.softcap > 0.0;
        let scale = s.splat(if capped { problem.scale / problem.softcap } else { problem.scale * LOG2_E });
        let cap = s.splat(problem.softcap * LOG2_E);
        let hidden = s.splat(f32::NEG_INFINITY);
        for (key, scores) in scores.iter_mut().enumerate() {
            let key = s.splat(key as f32);
            for (n, score) in scores.iter_mut().enumerate() {
                let mut logit = s.mul(*score, scale);
                if capped {
                    logit = s.mul(s.tanh(logit), cap);
                }
                if let Some((slopes, positions)) = &bias {
                    logit = s.fma(slopes[n], s.abs(s.sub(positions[n], key)), logit);
                }
                if let Some((starts, ends)) = &bounds {
                    logit = s.select_lt(key, starts[n], hidden, logit);
                    logit = s.select_lt(key, ends[n], logit, hidden);
                }
                *score = logit;
            }
        }
    }

    /// Replace scores by weights, 2^(score * scale - max), `DEPTH` keys to a row, with the maximum up to these keys.
    /// Returns what the results so far are to be multiplied by, for theirs was another.
    #[inline(always)]
    fn softmax(&mut self, s: S, scores: &mut [[S::V; NR]], scale: f32) -> [S::V; NR] {
        let scale = s.splat(scale);
        let lowest = s.splat(f32::NEG_INFINITY);
        let mut max = [lowest; NR];
        for scores in scores.iter() {
            for (max, &score) in max.iter_mut().zip(scores) {
                *max = s.max(score, *max);
            }
        }
        let mut decay = [lowest; NR];
        let mut shift = [lowest; NR];
        for n in 0..NR {
            let max = s.max(s.mul(max[n], scale), self.max[n]);
            // Where nothing is visible yet, any finite number will do.
            shift[n] = s.select_lt(lowest, max, max, s.splat(0.0));
            decay[n] = s.exp2(s.sub(self.max[n], shift[n]));
            self.max[n] = max;
        }
        let mut sum = [s.splat(0.0); NR];
        for step in 0..scores.len().div_ceil(S::DEPTH) {
            let (low, high) = (step * S::DEPTH, step * S::DEPTH + S::DEPTH - 1);
            for n in 0..NR {
                let mut weights = [s.splat(0.0); 2];
                weights[0] = s.exp2(s.sub(s.mul(scores[low][n], scale), shift[n]));
                sum[n] = s.add(sum[n], weights[0]);
                if low < high && high < scores.len() {
                    weights[1] = s.exp2(s.sub(s.mul(scores[high][n], scale), shift[n]));
                    sum[n] = s.add(sum[n], weights[1]);
                }
                scores[step][n] = s.join(weights[0], weights[1]);
            }
        }
        for n in 0..NR {
            self.sum[n] = s.fma(self.sum[n], decay[n], sum[n]);
        }
        decay
    }

    /// Write out and lse.
    #[inline(always)]
    fn finish(&self, problem: &Problem, tensors: &dyn Tensors<S::E>, head: KeyHead) {
        let o = cast_slice::<[S::V; NR], f32>(&self.o);
        let sums = cast_slice::<S::V, f32>(&self.sum);
        let maxima = cast_slice::<S::V, f32>(&self.max);
        let mut buffer = [0.0; MAX_DIM];
        let out = &mut buffer[..problem.dim];
        let rows = self.first..problem.rows().min(self.first + Self::WIDTH);
        for (lane, row) in rows.enumerate() {
            // As in the reference kernel, a query that sees no key gives 0, and an lse of infinity.
            let (scale, lse) = if sums[lane] == 0.0 {
                (0.0, f32::INFINITY)
            } else {
                let log2 = f64::from(maxima[lane]) + f64::from(sums[lane]).log2();
                (1.0 / sums[lane], (log2 * std::f64::consts::LN_2) as f32)
            };
            for (x, o) in out.iter_mut().zip(o.chunks_exact(Self::WIDTH)) {
                *x = o[lane] * scale;
            }
            // SAFETY: a row belongs to one panel of one task, and each task is done once.
            unsafe { tensors.write(problem.query(head, row), out, lse) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_cover_all_rows_once() {
        for (heads, rows, panel, threads) in [(1, 1, 48, 1), (3, 100, 48, 2), (2, 1000, 64, 8), (5, 513, 4, 3)] {
            let plan = Plan::new(heads, rows, panel, threads);
            let mut seen = vec![vec![0; rows]; heads];
            for (head, rows) in (0..plan.tasks()).map(|task| plan.task(task).unwrap()) {
                assert_eq!(rows.start % panel, 0);
                rows.for_each(|row| seen[head][row] += 1);
            }
            assert!(seen.iter().flatten().all(|&count| count == 1));
            assert_eq!(plan.task(plan.tasks()), None);
        }
    }

    #[test]
    fn threads_share_the_tiles() {
        assert!(Plan::new(8, 2048, 64, 64).tasks() >= 256);
        assert_eq!(Plan::new(8, 2048, 64, 1).tile, TILE);
    }
}
