//! Plain Rust twin of every kernel, and its definition.

use core::sync::atomic::{AtomicU64, Ordering};

/// How words are loaded. A reader puts a fence behind the call where it needs one.
// ORDER: Acquire for ThreadSanitizer, which does not know fences; pairs with the stores of `sync::shim`.
const LOAD: Ordering = if cfg!(fanread_tsan) { Ordering::Acquire } else { Ordering::Relaxed };

/// Nobody has AVX-512 here.
#[derive(Clone, Copy, Debug)]
#[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan)))))]
pub(crate) enum Avx512 {}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan)))))]
impl Avx512 {
    pub(crate) fn detect() -> Option<Self> {
        None
    }
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan)))))]
impl super::Lanes for Avx512 {
    fn match_u16(self, _line: &[AtomicU64; 8], _tag: u16) -> u32 {
        match self {}
    }

    fn match_u64(self, _line: &[AtomicU64; 8], _want: u64, _mask: u64) -> u8 {
        match self {}
    }

    fn match_word(self, _line: &[AtomicU64; 8], _want: u64) -> u8 {
        match self {}
    }

    fn match_u32(self, _line: &[AtomicU64; 8], _want: u32, _mask: u32) -> u32 {
        match self {}
    }
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan)))))]
impl super::Eights for Avx512 {
    fn count_below(self, _line: &[AtomicU64; 8], _number: u64) -> usize {
        match self {}
    }

    fn count_halves_below(self, _line: &[AtomicU64; 8], _number: u32) -> usize {
        match self {}
    }

    fn nearest<const UP: bool>(self, _words: &[AtomicU64], _from: u64, _least: u64) -> u64 {
        match self {}
    }

    fn copy_line(self, _line: &[AtomicU64; 8], _to: &mut [u64; 8]) {
        match self {}
    }

    fn copy<T: Copy>(self, _from: &[T; 8], _to: &mut [T; 8]) {
        match self {}
    }

    fn scramble(self, _numbers: &[u64; 8], _by: (&[u64; 3], &[u64; 3]), _hashes: &mut [u64; 8]) {
        match self {}
    }

    fn find(
        self,
        _wanted: super::Wanted<'_>,
        _at: super::Shelves<'_>,
        _partners: &mut [*mut (); 8],
    ) -> super::Finds {
        match self {}
    }
}

#[inline]
pub(super) fn match_u16(line: &[AtomicU64; 8], tag: u16) -> u32 {
    let mut lanes = 0;
    for (i, word) in line.iter().enumerate() {
        // Relaxed: a lane is a hint that its reader verifies.
        let word = word.load(LOAD);
        for lane in 0..4 {
            lanes |= u32::from((word >> (16 * lane)) as u16 == tag) << (4 * i + lane);
        }
    }
    lanes
}

#[inline]
pub(super) fn match_u64(line: &[AtomicU64; 8], want: u64, mask: u64) -> u8 {
    match_words(line, want, mask)
}

#[inline]
pub(super) fn match_four(words: &[AtomicU64; 4], want: u64, mask: u64) -> u8 {
    match_words(words, want, mask)
}

#[inline]
fn match_words(line: &[AtomicU64], want: u64, mask: u64) -> u8 {
    let mut words = 0;
    for (i, word) in line.iter().enumerate() {
        // Relaxed: whoever follows a word found here loads it again, with the order it needs.
        words |= u8::from(word.load(LOAD) & mask == want) << i;
    }
    words
}

#[inline]
pub(super) fn match_u32(line: &[AtomicU64; 8], want: u32, mask: u32) -> u32 {
    let mut lanes = 0;
    for (i, word) in line.iter().take(3).enumerate() {
        // Relaxed: as in `match_u16`.
        let word = word.load(LOAD);
        lanes |= u32::from(word as u32 & mask == want) << (2 * i);
        lanes |= u32::from((word >> 32) as u32 & mask == want) << (2 * i + 1);
    }
    // The sixth half is not a lane.
    lanes & 0b1_1111
}

#[inline]
pub(super) fn match_low_halves(words: &[AtomicU64; 4], want: u32) -> u32 {
    let mut found = 0;
    for (i, word) in words.iter().enumerate() {
        // Relaxed: as in `match_words`.
        found |= u32::from(word.load(LOAD) as u32 == want) << i;
    }
    found
}

#[inline]
pub(super) fn match_bytes(line: &[AtomicU64; 8], byte: u8) -> (u32, u32) {
    let (mut at_most, mut equal) = (0, 0);
    for (i, word) in line.iter().take(2).enumerate() {
        // Relaxed: as in `match_u16`.
        for (j, found) in word.load(LOAD).to_le_bytes().into_iter().enumerate() {
            at_most |= u32::from(found <= byte) << (8 * i + j);
            equal |= u32::from(found == byte) << (8 * i + j);
        }
    }
    (at_most, equal)
}

#[inline]
pub(super) fn match_sixteen(words: &[AtomicU64; 2], byte: u8) -> u32 {
    let mut equal = 0;
    for (i, word) in words.iter().enumerate() {
        // Relaxed: as in `match_u16`.
        for (j, found) in word.load(LOAD).to_le_bytes().into_iter().enumerate() {
            equal |= u32::from(found == byte) << (8 * i + j);
        }
    }
    equal
}
