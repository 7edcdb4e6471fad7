//! What the times of groups mean: the fit of the paper, and the knee.

/// Returns `c` of `T(K) = T(1) (1 + c (K - 1))` by least squares, for `K` up to `most`.
///
/// PAPER: Zhou, "Memory parallelism" (paper 001), section 2.2.
pub(super) fn fit(widths: &[usize], nanos: &[f64], most: usize) -> f64 {
    let (mut xy, mut xx) = (0.0, 0.0);
    for (&width, &time) in widths.iter().zip(nanos).filter(|pair| *pair.0 <= most) {
        let x = width as f64 - 1.0;
        xy += x * (time / nanos[0] - 1.0);
        xx += x * x;
    }
    if xx > 0.0 { xy / xx } else { 0.0 }
}

/// Returns the width at the knee of the curve of reads per second.
///
/// That is where the curve is farthest above a straight line from no read to
/// the best rate: up to there one more read at once adds more than the
/// average, from there on less. Unlike the width of the best rate it does not
/// wander with the noise of a flat end.
pub(super) fn knee(widths: &[usize], nanos: &[f64]) -> usize {
    let rates: Vec<f64> = widths.iter().zip(nanos).map(|(&w, &t)| w as f64 / t).collect();
    let fastest = (0..rates.len()).max_by(|&i, &j| rates[i].total_cmp(&rates[j])).unwrap_or(0);
    let (best, fastest) = (rates[fastest], widths[fastest]);
    let above = |i: usize| rates[i] / best - widths[i] as f64 / fastest as f64;
    let highest = (0..widths.len()).max_by(|&i, &j| above(i).total_cmp(&above(j)));
    highest.map_or(1, |i| widths[i])
}

/// Returns how many times as many reads a second groups of `width` make as single reads.
pub(super) fn gain(widths: &[usize], nanos: &[f64], width: usize) -> f64 {
    let at = widths.iter().position(|&w| w == width);
    at.map_or(1.0, |at| nanos[0] * width as f64 / nanos[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTHS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

    #[test]
    fn the_fit_of_a_straight_line_is_its_slope() {
        let nanos = WIDTHS.map(|width| 80.0 * (1.0 + 0.07 * (width as f64 - 1.0)));
        assert!((fit(&WIDTHS, &nanos, 64) - 0.07).abs() < 1e-12);
        assert!((fit(&WIDTHS, &nanos, 8) - 0.07).abs() < 1e-12);
        assert!(fit(&WIDTHS, &nanos, 1).abs() < 1e-12);
    }

    #[test]
    fn the_knee_is_where_more_at_once_stops_paying() {
        // Twelve at once for the time of one, then one after another.
        let nanos = WIDTHS.map(|width| 100.0 * (width as f64 / 12.0).max(1.0));
        assert_eq!(knee(&WIDTHS, &nanos), 16);
        assert!((gain(&WIDTHS, &nanos, 16) - 12.0).abs() < 1e-9);
        // Nothing gained by any width.
        assert_eq!(knee(&WIDTHS, &WIDTHS.map(|width| width as f64)), 1);
        // A flat end with noise on it.
        let noisy = [100.0, 110.0, 130.0, 170.0, 250.0, 470.0, 935.0];
        assert_eq!(knee(&WIDTHS, &noisy), 16);
    }
}
