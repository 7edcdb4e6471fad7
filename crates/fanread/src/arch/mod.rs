//! Kernels that depend on the processor, behind one face; the only place that asks for the architecture.
//!
//! `portable.rs` defines what each kernel means and runs everywhere. A twin for one architecture may replace
//! it; the case list in `tests.rs` runs against every twin.
//!
//! A *line* is eight shared words: any of them may be stored to while a kernel reads them. A kernel reads each
//! word once, as a Relaxed load does, and different words at different times.
//!
//! # Invariants
//!
//! * **A1** A kernel accesses only the words it was given, and writes nothing but what it was given for its results.
//! * **A2** Every twin returns what the portable one returns for the same words. Kernels for eight words ([`Eights`]) have no
//!   portable twin: `tests.rs` says what they return, and their callers have other ways.
//!
//! `tests.rs` checks A2.

#![allow(clippy::inline_always, reason = "kernels of a few instructions, called from hot loops")]
#![expect(
    unsafe_code,
    reason = "prefetch, flushes, vector loads of shared words, and words that start uninitialised"
)]

use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU64;

mod flush;
#[cfg_attr(
    all(target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan)), not(test)),
    allow(dead_code, reason = "there it defines what the twins in use have to return")
)]
mod portable;
#[cfg_attr(
    not(all(target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan)))),
    allow(dead_code, reason = "other processors have no such kernels yet")
)]
pub(crate) mod tagged;
mod words;
#[cfg(all(target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan))))]
mod x86_64;

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests;

pub(crate) use best::Avx512;
pub(crate) use flush::Flush;
pub(crate) use words::Words;

#[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan)))))]
use portable as best;
#[cfg(all(target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan))))]
use x86_64 as best;

/// Asks for the line that holds `at`, without waiting for it. Any address will do, none faults.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint; it neither reads nor faults, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{0}]", in(reg) at, options(readonly, nostack, preserves_flags));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = at;
}

/// The same for one of many lines that are looked at later: into the second-level cache.
///
/// On Zen 4 more of those can be on their way than of lines for the first level. Who looks has 14 cycles to wait then.
#[inline(always)]
pub(crate) fn prefetch_many<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint; it neither reads nor faults, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T1 }>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    prefetch(at);
}

/// The same for a line that is to be written, which another core may have: it comes once, not to be read and then again to be written.
#[inline(always)]
pub(crate) fn prefetch_to_write<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as above. AMD's processors have this instruction since there is a 64-bit mode, and others take it for nothing at least, but for
    // Intel's of 2004 and 2005.
    unsafe {
        core::arch::asm!("prefetchw [{0}]", in(reg) at, options(readonly, nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{0}]", in(reg) at, options(readonly, nostack, preserves_flags));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = at;
}

/// Kernels whose twins are picked at run time, once per search: its probes are most of what a search does.
///
/// The value is proof that the processor can run it.
pub(crate) trait Lanes: Copy {
    /// Does what the function [`match_u16`] does.
    fn match_u16(self, line: &[AtomicU64; 8], tag: u16) -> u32;

    /// Does what the function [`match_u64`] does.
    fn match_u64(self, line: &[AtomicU64; 8], want: u64, mask: u64) -> u8;

    /// Does what the function [`match_u64`] does with a mask of all bits.
    fn match_word(self, line: &[AtomicU64; 8], want: u64) -> u8;

    /// Returns which of the first five 32-bit lanes of `line` equal `want` in the bits of `mask`: bit `i` for lane `i`,
    /// counted from the low end of the first word.
    fn match_u32(self, line: &[AtomicU64; 8], want: u32, mask: u32) -> u32;
}

/// Eight words that are looked for in a line each; see [`Eights`].
#[cfg_attr(
    not(all(target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan)))),
    allow(dead_code, reason = "other processors have no such kernels yet")
)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) words: &'a [u64; 8],
    /// Bits that are set in each of the words, before they are compared.
    pub(crate) with: u64,
    /// The bits that are compared.
    pub(crate) mask: u64,
}

/// Where eight words are looked for: in the first half of a line each, whose second half has a partner for each word of the first.
/// Each line has a guard, which is loaded before the line and once more behind it.
#[cfg_attr(
    not(all(target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan)))),
    allow(dead_code, reason = "other processors have no such kernels yet")
)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shelves<'a> {
    pub(crate) lines: &'a [&'a [AtomicU64; 8]; 8],
    pub(crate) guards: &'a [&'a AtomicU64; 8],
}

/// What a kernel has found of eight words.
#[cfg_attr(
    not(all(target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan)))),
    allow(dead_code, reason = "other processors have no such kernels yet")
)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Finds {
    /// Which words are in none of the first four words of their lines: bit `i` for word `i`.
    pub(crate) absent: u64,
    /// All bits in which a guard was not the same the second time.
    pub(crate) changed: u64,
}

/// Kernels for eight words at a time. Whoever has none of them goes word by word.
pub(crate) trait Eights: Copy {
    /// Counts the words of a line that are below a number.
    fn count_below(self, line: &[AtomicU64; 8], number: u64) -> usize;

    /// The same for the halves of words.
    fn count_halves_below(self, line: &[AtomicU64; 8], number: u32) -> usize;

    /// The least of some numbers: `least`, and how far each of `words` is above `from`, or with `UP` not set, below it. What is on
    /// the other side is further away than all that is on this.
    fn nearest<const UP: bool>(self, words: &[AtomicU64], from: u64, least: u64) -> u64;

    /// Copies a line of shared words.
    fn copy_line(self, line: &[AtomicU64; 8], to: &mut [u64; 8]);

    /// Copies words that nobody else has.
    fn copy<T: Copy>(self, from: &[T; 8], to: &mut [T; 8]);

    /// Makes hashes of numbers: three times combined with a sum and multiplied by a factor, the bytes turned around in between.
    fn scramble(self, numbers: &[u64; 8], by: (&[u64; 3], &[u64; 3]), hashes: &mut [u64; 8]);

    /// Looks for words, and stores the partner of each that is there; of one that is not there, some partner of its line.
    ///
    /// The loads of a guard, a line, a partner and the guard again are done in this order, as Acquire loads.
    fn find(self, wanted: Wanted<'_>, at: Shelves<'_>, partners: &mut [*mut (); 8]) -> Finds;
}

/// The twin that every processor of the architecture can run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Baseline;

impl Lanes for Baseline {
    #[inline(always)]
    fn match_u16(self, line: &[AtomicU64; 8], tag: u16) -> u32 {
        best::match_u16(line, tag)
    }

    #[inline(always)]
    fn match_u64(self, line: &[AtomicU64; 8], want: u64, mask: u64) -> u8 {
        best::match_u64(line, want, mask)
    }

    #[inline(always)]
    fn match_word(self, line: &[AtomicU64; 8], want: u64) -> u8 {
        best::match_u64(line, want, !0)
    }

    #[inline(always)]
    fn match_u32(self, line: &[AtomicU64; 8], want: u32, mask: u32) -> u32 {
        best::match_u32(line, want, mask)
    }
}

/// Returns the 16-bit lanes of `line` that equal `tag`: bit `i` for lane `i`, counted from the low end of the
/// first word.
#[inline(always)]
pub(crate) fn match_u16(line: &[AtomicU64; 8], tag: u16) -> u32 {
    best::match_u16(line, tag)
}

/// Returns the words of `line` that equal `want` in the bits of `mask`: bit `i` for word `i`.
#[inline(always)]
pub(crate) fn match_u64(line: &[AtomicU64; 8], want: u64, mask: u64) -> u8 {
    best::match_u64(line, want, mask)
}

/// Does what [`match_u64`] does for four words.
#[inline(always)]
pub(crate) fn match_four(words: &[AtomicU64; 4], want: u64, mask: u64) -> u8 {
    best::match_four(words, want, mask)
}

/// Returns the words whose lower halves equal `want`: bit `i` for word `i`.
#[inline(always)]
pub(crate) fn match_low_halves(words: &[AtomicU64; 4], want: u32) -> u32 {
    best::match_low_halves(words, want)
}

/// Compares `byte` with the first sixteen bytes of `line`. Bit `i` of the first result: byte `i` is at most
/// `byte`; of the second: byte `i` equals `byte`.
#[inline(always)]
pub(crate) fn match_bytes(line: &[AtomicU64; 8], byte: u8) -> (u32, u32) {
    best::match_bytes(line, byte)
}

/// Compares `byte` with the sixteen bytes of two words. Bit `i` of the result: byte `i` equals it.
#[inline(always)]
pub(crate) fn match_sixteen(words: &[AtomicU64; 2], byte: u8) -> u32 {
    best::match_sixteen(words, byte)
}

/// Whether two keys are the same. Short ones, which are many, without a call.
#[inline(always)]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    // The first and the last bytes are all there are, some of them twice.
    match a.len() {
        4..8 => ends::<4>(a) == ends::<4>(b),
        8..=16 => ends::<8>(a) == ends::<8>(b),
        17..=32 => ends::<16>(a) == ends::<16>(b),
        _ => a == b,
    }
}

/// The first bytes of a key and the last.
#[inline(always)]
fn ends<const N: usize>(key: &[u8]) -> Option<(&[u8; N], &[u8; N])> {
    Some((key.first_chunk()?, key.last_chunk()?))
}

/// Returns where `byte` is in `bytes` for the first time.
#[inline]
pub(crate) fn position(bytes: &[u8], byte: u8) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    let (eights, rest) = bytes.as_chunks::<8>();
    for (i, eight) in eights.iter().enumerate() {
        // A byte that is `byte` becomes 0; the lowest 0 is the lowest byte that a 1 taken from it carries beyond.
        let differ = u64::from_le_bytes(*eight) ^ (ONES * u64::from(byte));
        let zeros = differ.wrapping_sub(ONES) & !differ & (ONES << 7);
        if zeros != 0 {
            return Some(i * 8 + zeros.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|other| *other == byte)?;
    Some(eights.len() * 8 + at)
}

/// Returns how many leading bytes `a` and `b` share.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let shorter = a.len().min(b.len());
    let (a, b) = (&a[..shorter], &b[..shorter]);
    let (a_words, a_tail) = a.as_chunks::<8>();
    let (b_words, b_tail) = b.as_chunks::<8>();
    for (i, (x, y)) in a_words.iter().zip(b_words).enumerate() {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return i * 8 + differ.trailing_zeros() as usize / 8;
        }
    }
    let same = a_tail.iter().zip(b_tail).take_while(|(x, y)| x == y).count();
    a_words.len() * 8 + same
}

/// Returns the bits of `word`, whatever they are, as an initialised number.
///
/// A word copied from a value with padding may be partly uninitialised, and using such a word as a number is
/// undefined behaviour. Here it passes through memory that the compiler has to assume was written meanwhile.
#[allow(dead_code, reason = "for maps that keep values inside words")]
#[inline(always)]
pub(crate) fn freeze(word: &mut MaybeUninit<u64>) -> u64 {
    #[cfg(not(miri))]
    // SAFETY: the block does nothing. The compiler is told that it may write the eight bytes at the address,
    // which are exclusively borrowed.
    unsafe {
        core::arch::asm!("/* {0} */", in(reg) word.as_mut_ptr(), options(nostack, preserves_flags));
    }
    // SAFETY: the block above stands for code that has initialised the word: for the compiler it may have
    // stored any number, and the machine has no uninitialised memory. (Miri tracks what was written, so under
    // it this is sound for initialised words only.)
    unsafe { word.assume_init() }
}
