//! Values that are made once, by the first of several threads, and whose making can fail.

use std::sync::{Mutex, OnceLock, PoisonError};

/// The value, which `make` makes if there is none yet; no lock is taken if there is one.
///
/// While `make` runs, others that ask under the same `lock` wait. If it fails there is no value, and the next who asks
/// tries again.
pub(crate) fn get_or_try<'a, T, E>(
    value: &'a OnceLock<T>,
    lock: &Mutex<()>,
    make: impl FnOnce() -> Result<T, E>,
) -> Result<&'a T, E> {
    if let Some(made) = value.get() {
        return Ok(made);
    }
    // The lock guards no data, so a panic of another thread leaves nothing to be wary of.
    let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    match value.get() {
        Some(made) => Ok(made),
        None => make().map(|made| value.get_or_init(|| made)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn threads_make_it_once() {
        let (value, lock, made) = (OnceLock::new(), Mutex::new(()), AtomicUsize::new(0));
        let make = || Ok::<_, ()>(made.fetch_add(1, Ordering::Relaxed));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(get_or_try(&value, &lock, make), Ok(&0)));
            }
        });
        assert_eq!(made.into_inner(), 1);
    }

    #[test]
    fn what_failed_is_tried_again() {
        let (value, lock) = (OnceLock::new(), Mutex::new(()));
        assert_eq!(get_or_try(&value, &lock, || Err("no")), Err("no"));
        assert_eq!(get_or_try(&value, &lock, || Ok::<_, &str>(1)), Ok(&1));
        assert_eq!(get_or_try(&value, &lock, || Err("not asked")), Ok(&1));
    }
}
