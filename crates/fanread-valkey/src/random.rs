//! Chance, for `OMAP.RANDFIELD`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::tree::{Span, Tree};

/// A generator whose numbers nobody's safety rests on.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number: a Weyl sequence, mixed (`SplitMix64`).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `end`, which is not 0. The bias is at most `end` in 2^64.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }
}

/// Shows `count` entries, each of them any, to `visit`.
pub(crate) fn any(
    tree: &Tree,
    count: usize,
    random: &mut Random,
    mut visit: impl FnMut(&[u8], &[u8]),
) {
    let mut left = count;
    if left > 0 {
        tree.draw(
            |end| random.below(end),
            |field, value| {
                visit(field, value);
                left -= 1;
                if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            },
        );
    }
}

/// The most of a map that is drawn one by one, as a divisor: of more, so many come again that a walk is as short.
const DRAWN: usize = 8;

/// Shows `count` different entries, or all if there are no more, to `visit` in order, each set of them as likely as any other.
pub(crate) fn distinct(
    tree: &Tree,
    count: usize,
    random: &mut Random,
    mut visit: impl FnMut(&[u8], &[u8]),
) {
    let (mut left, mut wanted) = (tree.len(), count.min(tree.len()));
    if wanted == 0 {
        return;
    }
    if wanted < left / DRAWN {
        let mut drawn: BTreeMap<Box<[u8]>, Box<[u8]>> = BTreeMap::new();
        tree.draw(
            |end| random.below(end),
            |field, value| {
                if !drawn.contains_key(field) {
                    drawn.insert(field.into(), value.into());
                }
                if drawn.len() < wanted {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            },
        );
        for (field, value) in &drawn {
            visit(field, value);
        }
        return;
    }
    tree.walk(Span::ALL, false, |field, value| {
        // An entry is taken with the share of those wanted in those that are left.
        if random.below(left) < wanted {
            visit(field, value);
            wanted -= 1;
        }
        left -= 1;
        if wanted > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
}
