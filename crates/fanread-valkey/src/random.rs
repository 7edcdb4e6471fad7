//! Chance, for `OMAP.RANDFIELD`.

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

/// Shows the entries of the given ranks, which ascend and may repeat, to `visit`, with each one's place among the ranks.
///
/// An index has no ranks, so this goes through all entries up to the last rank, from the nearer end if there is only one.
pub(crate) fn at_ranks(tree: &Tree, ranks: &[usize], mut visit: impl FnMut(usize, &[u8], &[u8])) {
    let (mut next, mut rank) = (0, 0);
    let last = tree.len() - 1;
    let reverse = ranks.len() == 1 && ranks[0] > last / 2;
    tree.walk(Span::ALL, reverse, |field, value| {
        while next < ranks.len() && rank == if reverse { last - ranks[next] } else { ranks[next] } {
            visit(next, field, value);
            next += 1;
        }
        rank += 1;
        if next < ranks.len() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
}

/// Shows `count` different entries, or all if there are no more, to `visit`, each set of them as likely as any other.
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
