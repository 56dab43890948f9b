//! On the CPU.

use kernelyard_rs::{dispatch_float, parallel, Arg, Float, Result};

/// How many elements a thread takes at a time: some ten microseconds of work.
const GRAIN: usize = 1 << 15;

pub(crate) fn relu(out: &Arg, x: &Arg) -> Result<()> {
    dispatch_float!(x.float()?, T => {
        // SAFETY: `out` shares no memory with `x`, and nothing else uses it during this call.
        let (from, to) = (x.slice::<T>()?, unsafe { out.slice_mut::<T>()? });
        parallel::chunks_mut(to, GRAIN, |start, to| relu_of(&from[start..], to));
    });
    Ok(())
}

fn relu_of<T: Float>(from: &[T], to: &mut [T]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = if from.to_f32() < 0.0 { T::from_f32(0.0) } else { from };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernelyard_rs::{bf16, f16};

    fn of<T: Float>(values: &[f32]) -> Vec<f32> {
        let from: Vec<T> = values.iter().map(|&value| T::from_f32(value)).collect();
        let mut to = vec![T::from_f32(7.0); from.len()];
        relu_of(&from, &mut to);
        to.into_iter().map(T::to_f32).collect()
    }

    #[test]
    fn negative_numbers_become_zero() {
        let values = [-1.0, 0.0, 0.5, f32::INFINITY, f32::NEG_INFINITY];
        let expected = [0.0, 0.0, 0.5, f32::INFINITY, 0.0];
        assert_eq!(of::<f32>(&values), expected);
        assert_eq!(of::<f16>(&values), expected);
        assert_eq!(of::<bf16>(&values), expected);
    }

    #[test]
    fn nan_stays_nan() {
        assert!(of::<f32>(&[f32::NAN])[0].is_nan());
    }
}
