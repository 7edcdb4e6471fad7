//! What a leaf counts and names: sorted numbers, fresh ones, and how many records were removed. Its views are in `raw.rs`.

#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]

use smallvec::SmallVec;

use super::guides::Group;
use super::layout::{FIXED_LINES, GUIDED_FRESH_AT, LINE_FRESH, LINE_NUMBERS};
use super::raw::{Leaf, Number};
use crate::list::Leaf as _;
use crate::mem::LINE_BYTES;
use crate::sync::shim::Ordering::{Acquire, Relaxed, Release};

/// A removed record in a leaf's counts.
const ONE_REMOVED: u64 = 1 << 32;

impl Leaf<'_> {
    /// How many numbers are sorted.
    #[inline(always)]
    pub(super) fn sorted(self) -> usize {
        usize::from(self.shape().sorted)
    }

    /// How many are fresh.
    #[inline(always)]
    pub(super) fn fresh(self) -> usize {
        // ORDER: Acquire, pairs with the Release addition in `push`: the numbers counted are there.
        self.header().counts.load(Acquire) as u32 as usize
    }

    /// A sorted number.
    #[inline(always)]
    pub(super) fn sorted_at(self, at: usize) -> Number {
        // Relaxed: published with the leaf.
        self.sorted_numbers()[at].load(Relaxed)
    }

    /// A fresh number that was counted.
    #[inline(always)]
    pub(super) fn fresh_at(self, at: usize) -> Number {
        // Relaxed: published by the count.
        self.fresh_lines()[at / LINE_FRESH].numbers[at % LINE_FRESH].load(Relaxed)
    }

    /// The first `count` fresh numbers, which were counted.
    #[inline(always)]
    pub(super) fn fresh_numbers(self, count: usize) -> impl Iterator<Item = Number> {
        let numbers = self.fresh_lines().iter().flat_map(|line| &line.numbers);
        // Relaxed: as in `fresh_at`.
        numbers.take(count).map(|number| number.load(Relaxed))
    }

    /// The codes of the first `count` fresh numbers, which were counted.
    #[inline(always)]
    pub(super) fn fresh_codes(self, count: usize) -> impl Iterator<Item = u8> {
        let codes = self.fresh_lines().iter().flat_map(|line| &line.codes);
        // Relaxed: as in `fresh_at`.
        codes.take(count).map(|code| code.load(Relaxed))
    }

    /// Of the first `count` fresh keys, the places of those that may have a slice between two, both included.
    #[inline(always)]
    pub(super) fn fresh_between(
        self,
        count: usize,
        (least, most): (u64, u64),
    ) -> SmallVec<[usize; 8]> {
        let [least, most] = [least, most].map(|slice| self.group().code(slice));
        let width = most.saturating_sub(least);
        let mut places = SmallVec::new();
        for (line, from) in self.fresh_lines().iter().zip((0..count).step_by(LINE_FRESH)) {
            // No branch on a code, as most lines have none of them.
            let is_near = |at: usize| {
                // Relaxed: as in `fresh_at`.
                u32::from(line.codes[at].load(Relaxed).wrapping_sub(least) <= width)
            };
            let near = (0..LINE_FRESH).fold(0, |near, at| near | is_near(at) << at);
            let mut near = near & ((1 << (count - from).min(LINE_FRESH)) - 1);
            while near != 0 {
                places.push(from + near.trailing_zeros() as usize);
                near &= near - 1;
            }
        }
        places
    }

    /// All keys of the leaf as a group.
    #[inline(always)]
    pub(super) fn group(self) -> Group {
        let header = self.header();
        Group::new(header.low_slice, header.high_slice)
    }

    /// Adds a fresh number, the key of which has this slice, if there is room. The caller holds the leaf's lock.
    #[inline]
    pub(super) fn push(self, number: Number, slice: u64) -> bool {
        let counts = &self.header().counts;
        // Relaxed: only the holder of the lock adds to it.
        let at = counts.load(Relaxed) as u32 as usize;
        if at == self.shape().fresh() {
            return false;
        }
        let line = &self.fresh_lines()[at / LINE_FRESH];
        line.codes[at % LINE_FRESH].store(self.group().code(slice), Relaxed);
        line.numbers[at % LINE_FRESH].store(number, Relaxed);
        // ORDER: Release, pairs with `fresh`: number and code are there. An addition, as others count what they removed.
        counts.fetch_add(1, Release);
        true
    }

    /// Counts a record that was removed; returns how many.
    pub(super) fn count_removed(self) -> usize {
        // Relaxed: a figure to decide by.
        (self.header().counts.fetch_add(ONE_REMOVED, Relaxed) >> 32) as usize + 1
    }

    /// How many records were removed since the leaf was made.
    pub(super) fn removed(self) -> usize {
        // Relaxed: as above.
        (self.header().counts.load(Relaxed) >> 32) as usize
    }

    /// Asks for the lines that an insertion needs: the header, and most of those of fresh numbers.
    #[inline(always)]
    pub(super) fn ask(self) {
        self.header().version.ask_to_lock();
        self.ask_lines([0, 1, 2, 3].map(|line| GUIDED_FRESH_AT + line));
    }

    /// Asks for the lines that a walk needs first: the header, guides, and the first of the fresh numbers.
    #[inline(always)]
    pub(super) fn ask_guides(self) {
        self.ask_lines([0, FIXED_LINES, GUIDED_FRESH_AT]);
    }

    /// Asks for the lines of the first `count` fresh numbers.
    #[inline(always)]
    pub(super) fn ask_fresh(self, count: usize) {
        let first = self.shape().fresh_at();
        (0..count.div_ceil(LINE_FRESH)).for_each(|line| self.ask_lines([first + line]));
    }

    #[inline(always)]
    fn ask_lines<const N: usize>(self, lines: [usize; N]) {
        for line in lines {
            self.ask_byte(line * LINE_BYTES);
        }
    }

    /// Asks for the line of a sorted number.
    #[inline(always)]
    pub(super) fn ask_sorted(self, at: usize) {
        self.ask_lines([self.shape().sorted_at() + at / LINE_NUMBERS]);
    }

    /// Asks for the line of a sorted key's code.
    #[inline(always)]
    pub(super) fn ask_code(self, at: usize) {
        self.ask_byte(self.codes_at() + at);
    }
}
