//! Ranges of work, spread over the CPUs.
//!
//! Each library that uses this crate has a pool of threads of its own, made when it is first needed. A process that was
//! forked gets a new pool, as threads do not survive a fork.

use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use rayon::{ThreadPool, ThreadPoolBuilder};

struct Pool {
    process: u32,
    pool: ThreadPool,
}

static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());
/// How many threads a call may use; 0 until it is asked for or set.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// How many threads one call uses at most.
///
/// It is what [`set_threads`] set, else `RAYON_NUM_THREADS`, else `OMP_NUM_THREADS` (which PyTorch goes by too), else
/// the number of CPUs that the process may use.
pub fn threads() -> usize {
    match THREADS.load(Ordering::Relaxed) {
        0 => {
            let threads = default_threads(|name| std::env::var(name).ok());
            THREADS.store(threads, Ordering::Relaxed);
            threads
        }
        threads => threads,
    }
}

/// Limit the threads of calls from now on, as `torch.set_num_threads` does; never more than the pool has.
pub fn set_threads(threads: usize) {
    THREADS.store(threads.max(1), Ordering::Relaxed);
}

fn default_threads(variable: impl Fn(&str) -> Option<String>) -> usize {
    ["RAYON_NUM_THREADS", "OMP_NUM_THREADS"]
        .into_iter()
        .find_map(|name| variable(name)?.trim().parse().ok().filter(|&threads: &usize| threads > 0))
        .unwrap_or_else(cpus)
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get())
}

/// Run `body` in the pool, so that rayon's own operations in it use the pool's threads.
pub fn install<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    pool().install(body)
}

/// Call `body` for ranges that together cover `0..length`, each of `grain` or (the last one) fewer items.
///
/// Up to [`threads`] ranges are in work at once; a thread that is done takes the next. Choose a grain that takes tens of
/// microseconds: work of a single grain is done by the calling thread. A panic in `body` is a panic of this function.
pub fn ranges(length: usize, grain: usize, body: impl Fn(Range<usize>) + Sync) {
    let grain = grain.max(1);
    let count = length.div_ceil(grain);
    let next = AtomicUsize::new(0);
    let work = || loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= count {
            break;
        }
        body(index * grain..length.min((index + 1) * grain));
    };
    let workers = threads().min(count);
    if workers <= 1 {
        return work();
    }
    pool().scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|_| work());
        }
    });
}

/// Call `body` with the chunks of a slice, each of `length` or (the last one) fewer items, and where each starts.
///
/// For the rest see [`ranges`].
pub fn chunks_mut<T: Send>(slice: &mut [T], length: usize, body: impl Fn(usize, &mut [T]) + Sync) {
    let start = Shared(slice.as_mut_ptr());
    ranges(slice.len(), length, |range| {
        // SAFETY: the ranges do not overlap, so each chunk is used by one thread alone.
        let chunk = unsafe { std::slice::from_raw_parts_mut(start.get().add(range.start), range.len()) };
        body(range.start, chunk);
    });
}

/// A pointer that threads may share; they use different parts of what it points to.
struct Shared<T>(*mut T);

// SAFETY: see above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

fn pool() -> &'static ThreadPool {
    let process = std::process::id();
    let known = POOL.load(Ordering::Acquire);
    // SAFETY: what POOL points to is never freed.
    if let Some(known) = unsafe { known.as_ref() } {
        if known.process == process {
            return &known.pool;
        }
    }
    let threads = cpus().max(threads());
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("threads for the kernel's pool");
    let mine = Box::into_raw(Box::new(Pool { process, pool }));
    // A pool of the process before a fork cannot be ended, because its threads are gone: it stays as it is.
    match POOL.compare_exchange(known, mine, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: never freed from here on.
        Ok(_) => unsafe { &(*mine).pool },
        Err(other) => {
            // SAFETY: nobody else has seen `mine`; `other` is never freed.
            unsafe {
                drop(Box::from_raw(mine));
                &(*other).pool
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn ranges_cover_everything_once() {
        for (length, grain) in [(0, 1), (1, 0), (7, 3), (1000, 1), (1000, 999), (1000, 1000), (12345, 17)] {
            let seen = Mutex::new(vec![0; length]);
            ranges(length, grain, |range| {
                assert!(range.len() <= grain.max(1));
                seen.lock().unwrap()[range].iter_mut().for_each(|count| *count += 1);
            });
            assert!(seen.into_inner().unwrap().iter().all(|&count| count == 1));
        }
    }

    #[test]
    fn chunks_know_where_they_start() {
        let mut numbers = vec![0; 10_001];
        chunks_mut(&mut numbers, 100, |start, chunk| {
            chunk.iter_mut().enumerate().for_each(|(offset, number)| *number = start + offset);
        });
        assert!(numbers.iter().enumerate().all(|(index, &number)| index == number));
        chunks_mut(&mut Vec::<u8>::new(), 100, |_, _| panic!("there is no chunk"));
    }

    #[test]
    fn one_grain_is_the_callers_own_work() {
        let caller = std::thread::current().id();
        ranges(10, 10, |_| assert_eq!(std::thread::current().id(), caller));
    }

    #[test]
    #[should_panic(expected = "item 4711")]
    fn a_panic_comes_back() {
        ranges(10_000, 1, |range| assert_ne!(range.start, 4711, "item {}", range.start));
    }

    #[test]
    fn the_environment_sets_the_number_of_threads() {
        let given = |value: Option<&str>, other: Option<&str>| {
            default_threads(|name| match name {
                "RAYON_NUM_THREADS" => value.map(str::to_owned),
                _ => other.map(str::to_owned),
            })
        };
        assert_eq!(given(Some("3"), Some("5")), 3);
        assert_eq!(given(None, Some(" 5 ")), 5);
        assert_eq!(given(Some("0"), Some("many")), cpus());
        assert_eq!(given(None, None), cpus());
    }
}
