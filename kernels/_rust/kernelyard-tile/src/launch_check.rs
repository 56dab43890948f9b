//! Safety checks that the tile compiler moved from the kernel to its launch.

use cutile::cuda_async::predicate::{Atom, LaunchCheck, Predicate, Term};
use serde::Serialize;

/// `grid · (a, b, c) + constant` in a relation: all that can be said of a launch whose parameters are no tensors.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct GridCheck {
    grid: [i64; 3],
    constant: i64,
    relation: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    modulus: Option<i64>,
    cause: String,
}

impl GridCheck {
    /// The check in this form, or what it speaks of that no launch knows.
    pub(crate) fn new(check: &LaunchCheck) -> Result<Self, String> {
        let (term, relation, modulus) = match &check.predicate {
            Predicate::Zero(term) => (term, "zero", None),
            Predicate::Nonzero(term) => (term, "nonzero", None),
            Predicate::Positive(term) => (term, "positive", None),
            Predicate::DivisibleBy { term, divisor } => (term, "divisible", Some(*divisor)),
        };
        let cause = check.cause.lines().next().unwrap_or_default().to_owned();
        Ok(Self { grid: coefficients(term)?, constant: term.constant_part(), relation, modulus, cause })
    }
}

fn coefficients(term: &Term) -> Result<[i64; 3], String> {
    let mut grid = [0; 3];
    for (atom, &factor) in term.coeffs() {
        match *atom {
            Atom::NumTileBlocks(axis) if axis < grid.len() => grid[axis] = factor,
            other => return Err(format!("{other:?}")),
        }
    }
    Ok(grid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(predicate: Predicate) -> LaunchCheck {
        LaunchCheck { predicate, cause: "tile out of range\n  at src/lib.rs:3:4".to_owned() }
    }

    fn blocks(axis: usize, factor: i64, offset: i64) -> Term {
        Term::affine(Atom::NumTileBlocks(axis), factor, offset)
    }

    #[test]
    fn a_condition_on_the_grid_is_a_linear_form() {
        let sum = blocks(0, 3, 4).add(&blocks(2, 5, 0)).unwrap();
        let expected = GridCheck {
            grid: [3, 0, 5],
            constant: 4,
            relation: "positive",
            modulus: None,
            cause: "tile out of range".to_owned(),
        };
        assert_eq!(GridCheck::new(&check(Predicate::Positive(sum))), Ok(expected));
    }

    #[test]
    fn a_divisor_is_its_modulus() {
        let found = GridCheck::new(&check(Predicate::divisible_by(blocks(1, 1, 0), 4).unwrap())).unwrap();
        assert_eq!((found.grid, found.relation, found.modulus), ([0, 1, 0], "divisible", Some(4)));
    }

    #[test]
    fn a_condition_on_a_tensor_is_not_expressible() {
        let extent = Term::atom(Atom::Dim { param: 0, axis: 1 });
        let found = GridCheck::new(&check(Predicate::nonzero(extent)));
        assert_eq!(found, Err("Dim { param: 0, axis: 1 }".to_owned()));
    }
}
