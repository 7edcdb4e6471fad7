//! Where a key belongs among sorted ones that are a wait each to look at.

use core::ops::Range;

/// Places that a search looks at in one round: their lines are on their way together.
pub(crate) const ROUND: usize = 8;

/// The first of `places` that is not below, or the end. All before it are below, and none behind.
///
/// Each round asks for some places at once and looks at them: at first at those around a guess, if there is one that counts on keys to be
/// spread evenly, and else at some of all. `None` if `is_below` cannot tell.
#[inline]
pub(crate) fn rank(
    places: Range<usize>,
    mut guess: Option<usize>,
    ask: impl Fn(&[usize]),
    is_below: impl Fn(usize) -> Option<bool>,
) -> Option<usize> {
    let Range { start: mut from, end: mut to } = places;
    while from < to {
        let count = to - from;
        let looks = count.min(ROUND);
        // Of keys that are spread evenly, the place differs from what is expected by the root of half of their number at most.
        let stride = 1 + count.isqrt() / 5;
        let reach = (looks - 1) * stride;
        let near = guess.take().filter(|_| reach < count);
        let near = near.map(|at| at.saturating_sub(reach / 2).clamp(from, to - 1 - reach));
        let mut places = [0; ROUND];
        for (look, place) in places[..looks].iter_mut().enumerate() {
            *place = match near {
                Some(near) => near + look * stride,
                None => from + (look + 1) * count / (looks + 1),
            };
        }
        let places = &places[..looks];
        ask(places);
        for place in places {
            if is_below(*place)? {
                from = place + 1;
            } else {
                to = *place;
                break;
            }
        }
    }
    Some(to)
}

/// Which part of `count` a number is of another one, about; of a number that is larger, all.
#[inline(always)]
pub(crate) fn share(part: u64, whole: u64, count: usize) -> usize {
    // The product fits: no leaf has so many keys.
    let shift = if whole >> 48 == 0 { 0 } else { 16 };
    let (part, whole) = (part >> shift, (whole >> shift).max(1));
    (part.min(whole) * count as u64 / whole) as usize
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_that_is_not_below_is_found() {
        for count in 0..=300 {
            for rank in 0..=count {
                for guess in [None, Some(rank), Some(0), Some(rank / 2), Some(count), Some(1000)] {
                    let found = super::rank(
                        10..10 + count,
                        guess.map(|guess| guess + 10),
                        |places| {
                            assert!(places.is_sorted_by(|a, b| a < b) && places.len() <= ROUND);
                            assert!(places.iter().all(|place| (10..10 + count).contains(place)));
                        },
                        |place| Some(place < 10 + rank),
                    );
                    assert_eq!(found, Some(10 + rank), "{count} {guess:?}");
                }
            }
        }
        assert_eq!(super::rank(0..9, None, |_| (), |_| None), None);
    }

    #[test]
    fn a_share_is_a_part_of_the_count() {
        assert_eq!(share(0, 0, 200), 0);
        assert_eq!(share(5, 10, 200), 100);
        assert_eq!(share(u64::MAX / 4, u64::MAX, 200), 49);
        assert_eq!(share(u64::MAX, 7, 200), 200);
        assert_eq!(share(u64::MAX, u64::MAX, 200), 200);
    }
}
