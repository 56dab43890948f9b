//! The threads that share the work.

use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// The pool of the last call, for the next one that asks for as many threads.
static POOL: Mutex<Option<Pool>> = Mutex::new(None);

struct Pool {
    /// A fork copies the pool but not its threads, so the child must make its own.
    process: u32,
    threads: Arc<ThreadPool>,
}

/// Run `work` on each of that many threads, or on the calling one alone, and wait for all.
pub fn on_each(threads: usize, work: impl Fn() + Sync) -> Result<(), ThreadPoolBuildError> {
    if threads <= 1 {
        work();
    } else {
        pool(threads)?.broadcast(|_| work());
    }
    Ok(())
}

fn pool(threads: usize) -> Result<Arc<ThreadPool>, ThreadPoolBuildError> {
    // A panic while the lock is held leaves either the old pool or the new one, and both are usable.
    let mut current = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some(pool) = &*current
        && pool.process == process
        && pool.threads.current_num_threads() == threads
    {
        return Ok(Arc::clone(&pool.threads));
    }
    let new =
        Arc::new(ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("flash-attn2-{i}")).build()?);
    if let Some(old) = current.replace(Pool { process, threads: Arc::clone(&new) })
        && old.process != process
    {
        // Dropping it would speak to threads that this process does not have.
        std::mem::forget(old);
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_thread_runs_the_work_once() {
        for threads in [0, 1, 2, 5, 2] {
            let calls = AtomicUsize::new(0);
            on_each(threads, || {
                calls.fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
            assert_eq!(calls.into_inner(), threads.max(1));
        }
    }
}
