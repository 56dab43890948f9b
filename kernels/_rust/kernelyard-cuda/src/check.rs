//! What must hold of a grid.

/// A condition of the device code on the grid, which its compiler left to the host.
///
/// With `a`, `b` and `c` for [`grid`](Check::grid) it is about the number `a·x + b·y + c·z +` [`constant`](Check::constant).
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// What each extent of the grid is multiplied with.
    pub grid: [i64; 3],
    /// What is added.
    pub constant: i64,
    /// What the sum must be.
    pub relation: Relation,
    /// What is wrong where it is not.
    pub cause: &'static str,
}

/// What a number must be.
#[derive(Clone, Copy, Debug)]
pub enum Relation {
    /// 0.
    Zero,
    /// Anything else than 0.
    Nonzero,
    /// Greater than 0.
    Positive,
    /// A multiple of this one, which is at least 1.
    DivisibleBy(i64),
}

impl Check {
    /// Whether a grid is as it must be.
    pub(crate) fn holds(&self, grid: [u32; 3]) -> bool {
        // In 128 bits nothing overflows.
        let parts = self.grid.iter().zip(grid).map(|(&factor, extent)| i128::from(factor) * i128::from(extent));
        let sum = parts.sum::<i128>() + i128::from(self.constant);
        match self.relation {
            Relation::Zero => sum == 0,
            Relation::Nonzero => sum != 0,
            Relation::Positive => sum > 0,
            Relation::DivisibleBy(divisor) => sum.rem_euclid(i128::from(divisor)) == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(grid: [i64; 3], constant: i64, relation: Relation) -> bool {
        Check { grid, constant, relation, cause: "" }.holds([6, 1, u32::MAX])
    }

    #[test]
    fn each_relation() {
        assert!(holds([1, 0, 0], -6, Relation::Zero) && !holds([1, 0, 0], -5, Relation::Zero));
        assert!(holds([1, 0, 0], -5, Relation::Nonzero) && !holds([1, 0, 0], -6, Relation::Nonzero));
        assert!(holds([1, -5, 0], 0, Relation::Positive) && !holds([1, -6, 0], 0, Relation::Positive));
        assert!(holds([1, 1, 0], 1, Relation::DivisibleBy(4)) && !holds([1, 0, 0], 0, Relation::DivisibleBy(4)));
        assert!(holds([-1, 0, 0], -2, Relation::DivisibleBy(4)));
    }

    #[test]
    fn nothing_overflows() {
        assert!(holds([0, i64::MAX, i64::MAX], i64::MAX, Relation::Positive));
    }
}
