//! Which keys a query sees.

/// The visible keys around each query, where the last query stands at the last key.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub queries: usize,
    pub keys: usize,
    /// How many keys are seen before and after the query's own; None is all of them.
    pub left: Option<usize>,
    pub right: Option<usize>,
}

impl Window {
    /// A negative `left` or `right` means no limit; `causal` is a `right` of 0.
    pub fn new(queries: usize, keys: usize, causal: bool, left: i64, right: i64) -> Self {
        // A window as wide as all positions is no limit; so no sum below can overflow.
        let limit = |size: i64| usize::try_from(size).ok().filter(|&size| size < queries + keys);
        let right = if causal { Some(0) } else { limit(right) };
        Self { queries, keys, left: limit(left), right }
    }
}

// On a GPU, the device code does this.
#[cfg(any(test, not(feature = "cuda")))]
impl Window {
    /// The position of a query among the keys; negative if it stands before the first.
    pub fn position(&self, query: usize) -> i64 {
        (query + self.keys) as i64 - self.queries as i64
    }

    /// The keys that a query sees. Neither end ever decreases from one query to the next.
    pub fn seen(&self, query: usize) -> std::ops::Range<usize> {
        let position = self.position(query);
        let key = |position: i64| position.clamp(0, self.keys as i64) as usize;
        let start = self.left.map_or(0, |left| key(position - left as i64));
        let end = self.right.map_or(self.keys, |right| key(position + right as i64 + 1));
        start..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visible(window: Window) -> Vec<std::ops::Range<usize>> {
        (0..window.queries).map(|query| window.seen(query)).collect()
    }

    #[test]
    fn without_limits_all_keys_are_seen() {
        assert_eq!(visible(Window::new(2, 3, false, -1, -1)), [0..3, 0..3]);
        assert_eq!(visible(Window::new(2, 3, false, i64::MAX, i64::MAX)), [0..3, 0..3]);
        assert_eq!(visible(Window::new(2, 0, true, -1, -1)), [0..0, 0..0]);
    }

    #[test]
    fn the_last_query_stands_at_the_last_key() {
        assert_eq!(visible(Window::new(2, 4, true, -1, -1)), [0..3, 0..4]);
        assert_eq!(visible(Window::new(4, 2, true, -1, -1)), [0..0, 0..0, 0..1, 0..2]);
        assert_eq!(visible(Window::new(3, 3, true, -1, 2)), [0..1, 0..2, 0..3]);
    }

    #[test]
    fn windows_are_clamped_to_the_keys() {
        assert_eq!(visible(Window::new(3, 5, false, 1, 0)), [1..3, 2..4, 3..5]);
        assert_eq!(visible(Window::new(3, 2, false, 0, 1)), [0..1, 0..2, 1..2]);
        assert_eq!(visible(Window::new(5, 1, false, 1, 1)), [0..0, 0..0, 0..0, 0..1, 0..1]);
    }

    #[test]
    fn every_range_agrees_with_the_definition() {
        for (queries, keys) in [(1, 1), (1, 7), (7, 1), (5, 5), (4, 9), (9, 4)] {
            for (left, right) in [(-1, -1), (0, 0), (0, -1), (-1, 0), (1, 2), (3, 1), (20, 20)] {
                let window = Window::new(queries, keys, false, left, right);
                for query in 0..queries {
                    let seen: Vec<usize> = (0..keys)
                        .filter(|&key| {
                            let after = key as i64 - window.position(query);
                            (left < 0 || -after <= left) && (right < 0 || after <= right)
                        })
                        .collect();
                    assert_eq!(window.seen(query).collect::<Vec<_>>(), seen);
                }
            }
        }
    }
}
