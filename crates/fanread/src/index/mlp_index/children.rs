//! The children of a node that a walk reads next: which they are, and where they were asked for.
//!
//! ```text
//! places   0 .. 3              4 .. 13                       14 .. 27
//!          are read next;      second buckets, and nodes,    first buckets
//!          from nodes on,      are on their way              are on their way
//!          children of theirs
//! ```
//!
//! All but the reading is a hint: what is further on is asked for by what has come of it, and read when its turn comes. Lines come into the
//! second-level cache, as more of them are on their way than a core has places for in the first.

use core::hint::select_unpredictable;

use super::layout::{Children, Node, leaves_of};
use super::raw::{Bucket, Tables};
use super::search::Secret;
use super::words::Words;
use crate::arch::tagged::Tagged as _;
use crate::arch::{Avx512, prefetch, prefetch_many};

/// How many children of a node are asked for ahead.
///
/// A line each. Fewer leave the walk waiting, more fetch for nothing where a walk is short.
pub(super) const AHEAD: usize = 28;
/// How many of them are asked for, read and looked at in a row.
pub(super) const ROW: usize = 4;
/// How far ahead the second bucket of a child is asked for, if one of its keys is away.
///
/// Nearer, and it comes too late; further, and the first is not there yet. What is no group there is a node, whose lines are asked for.
const HALFWAY: usize = AHEAD / 2;
/// How far ahead the children of such a node are asked for, and how many of them.
pub(super) const NEAR: usize = 4;
pub(super) const FIRST_CHILDREN: usize = 6;
/// Places in the ring of these.
const RING: usize = AHEAD.next_power_of_two();
const _: () = assert!(RING == u32::BITS as usize, "a bit for each");

/// A node on the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    prefix: u64,
    pub(super) depth: usize,
    children: Children,
    /// The children that are still to be read: those of this word, and of the words behind it.
    bits: u64,
    word: usize,
}

impl Frame {
    pub(super) const NONE: Self =
        Self { prefix: 0, depth: 0, children: Children([0; 4]), bits: 0, word: 0 };

    /// Has the children from a place on read next; places are those of [`Way`].
    pub(super) fn seek<const UP: bool>(&mut self, place: usize) {
        let at = if UP { place.min(255) } else { place.saturating_sub(1) };
        let (word, bit) = (at / 64, at % 64);
        let rest = if UP { u64::MAX << bit } else { u64::MAX >> (63 - bit) };
        let is_any = place != if UP { 256 } else { 0 };
        let bits = self.children.0[word] & rest;
        (self.word, self.bits) = (word, if is_any { bits } else { 0 });
    }

    /// Those of a node from a place on.
    pub(super) fn of<const UP: bool>(node: &Node, place: usize) -> Self {
        let &Node { prefix, depth, children, .. } = node;
        let mut frame = Self { prefix, depth, children, ..Self::NONE };
        frame.seek::<UP>(place);
        frame
    }

    /// The next child, which is not to be read again.
    #[inline(always)]
    pub(super) fn take<const UP: bool>(&mut self) -> Option<u8> {
        while self.bits == 0 {
            self.word = if UP { self.word + 1 } else { self.word.wrapping_sub(1) };
            let Some(bits) = self.children.0.get(self.word) else {
                // As before.
                self.word = if UP { 3 } else { 0 };
                return None;
            };
            self.bits = *bits;
        }
        let bit = if UP { self.bits.trailing_zeros() } else { self.bits.ilog2() };
        self.bits ^= 1 << bit;
        Some((self.word * 64) as u8 | bit as u8)
    }
}

/// A child that was asked for: what its keys share, and where they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'g> {
    pub(super) prefix: u64,
    pub(super) hash: u64,
    pub(super) pair: Option<[&'g Bucket; 2]>,
}

/// Children of a node that were asked for.
#[derive(Debug)]
pub(super) struct Ring<'g> {
    asked: [Asked<'g>; RING],
    /// Which of these are likely to be nodes, a bit for each.
    pub(super) nodes: u32,
    /// Which of them is read next, how many there are, and of how many the first bucket was looked at.
    first: usize,
    pub(super) waiting: usize,
    pub(super) seen: usize,
}

impl<'g> Ring<'g> {
    pub(super) const NONE: Self = Self {
        asked: [Asked { prefix: 0, hash: 0, pair: None }; RING],
        nodes: 0,
        first: 0,
        waiting: 0,
        seen: 0,
    };

    /// The child that is read after `n` others.
    #[inline(always)]
    pub(super) fn at(&self, n: usize) -> &Asked<'g> {
        &self.asked[(self.first + n) % RING]
    }

    /// Asks for the next children of a node, until so many wait.
    #[inline(always)]
    pub(super) fn ask<const UP: bool>(
        &mut self,
        frame: &mut Frame,
        (tables, secret): (Tables<'g>, &Secret),
        level: usize,
        ahead: usize,
    ) {
        let shift = 64 - 8 * level as u32;
        let (mut children, mut waiting) = (*frame, self.waiting);
        while waiting < ahead
            && let Some(byte) = children.take::<UP>()
        {
            let prefix = children.prefix | u64::from(byte) << shift;
            let home = tables.group(secret.hash(level, prefix));
            prefetch_many(home.pair[0]);
            let at = (self.first + waiting) % RING;
            self.asked[at] = Asked { prefix, hash: home.hash, pair: Some(home.pair) };
            waiting += 1;
        }
        (frame.word, frame.bits) = (children.word, children.bits);
        self.waiting = waiting;
    }

    /// Takes the next ones out, fewer than there are places.
    #[inline(always)]
    pub(super) fn take(&mut self, count: usize) {
        self.nodes &= !(((1 << count) - 1_u32).rotate_left((self.first % RING) as u32));
        self.first += count;
        self.waiting -= count;
        self.seen = self.seen.saturating_sub(count);
    }

    /// Those of the children from one to `NEAR` after the next that are likely to be nodes, a bit for each place behind the next;
    /// `count` of them, the furthest.
    #[inline(always)]
    pub(super) fn near_nodes(&self, count: usize) -> u32 {
        let nodes = self.nodes.rotate_right((self.first % RING) as u32);
        nodes & (((1 << count) - 1) << (NEAR + 1 - count))
    }

    /// Looks at the first buckets of some children further on, which have come by now: asks for the second one if somebody may be away
    /// there, and for a node if there is no group.
    #[inline(always)]
    pub(super) fn look_ahead(
        &mut self,
        tables: Tables<'g>,
        level: usize,
        has_values: bool,
        kernel: Option<Avx512>,
    ) {
        // Few at a time: right after the first were asked for, none has come.
        let (from, mut nodes) = (self.seen, self.nodes);
        let until = self.waiting.min(HALFWAY).min(from + ROW + 1);
        for n in from..until {
            let Asked { prefix, hash, pair: Some([first, second]) } = *self.at(n) else { return };
            let words = Words::of(first);
            let is_away = words.kinds.may_be_away(hash);
            let is_group = match kernel {
                Some(kernel) => kernel.has(leaves_of(level), first.line(), prefix),
                None => words.has_group((level, prefix), has_values),
            };
            // No branch on who is away: that cannot be guessed. The first is there already.
            prefetch(select_unpredictable(is_away, second, first));
            if !(is_group | is_away) {
                tables.node(hash).pair.into_iter().for_each(|bucket| prefetch(bucket));
                nodes |= 1 << ((self.first + n) % RING);
            }
        }
        (self.seen, self.nodes) = (until, nodes);
    }
}
