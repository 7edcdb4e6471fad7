//! Writing lines from the caches to memory that survives a power cut.
//!
//! Which instruction does it is asked of the processor once; the value is proof that it has it. `clwb` keeps the line in the
//! cache, `clflushopt` does not, and `clflush`, which all have, waits for the one before as well.

use super::AtomicU64;

/// What writes a line to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flush(Instruction);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(
    not(all(target_arch = "x86_64", not(miri))),
    allow(dead_code, reason = "other processors have others, which nobody has asked for yet")
)]
enum Instruction {
    Clwb,
    ClflushOpt,
    Clflush,
}

impl Flush {
    /// The best that this processor has, and that is known here.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    pub(crate) fn detect() -> Option<Self> {
        Self::all().next()
    }

    /// The best that this processor has, and that is known here.
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    pub(crate) fn detect() -> Option<Self> {
        None
    }

    /// All that this processor has, the best first.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn all() -> impl Iterator<Item = Self> {
        use core::arch::x86_64::{__cpuid, __cpuid_count};
        // Leaf 7 is there if the highest one is not below it.
        let features = if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
        let has = |bit: u32| features >> bit & 1 != 0;
        [
            has(24).then_some(Self(Instruction::Clwb)),
            has(23).then_some(Self(Instruction::ClflushOpt)),
            Some(Self(Instruction::Clflush)),
        ]
        .into_iter()
        .flatten()
    }

    /// Begins to write the line that holds `word`. It is in memory after the next [`fence`](Self::fence) of this thread.
    #[inline]
    pub(crate) fn line(self, word: &AtomicU64) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: the line is mapped, since it holds a word that is borrowed; the instructions change no word, and the processor
        // has the one that the value names. No `nomem`: stores before must not be moved behind it.
        unsafe {
            match self.0 {
                Instruction::Clwb => {
                    core::arch::asm!("clwb [{0}]", in(reg) word.as_ptr(), options(nostack, preserves_flags));
                }
                Instruction::ClflushOpt => {
                    core::arch::asm!("clflushopt [{0}]", in(reg) word.as_ptr(), options(nostack, preserves_flags));
                }
                Instruction::Clflush => {
                    core::arch::asm!("clflush [{0}]", in(reg) word.as_ptr(), options(nostack, preserves_flags));
                }
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = (self, word);
    }

    /// Waits until all lines that this thread has begun to write are in memory.
    #[inline]
    pub(crate) fn fence() {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: all processors of the architecture have it; it changes nothing.
        unsafe {
            core::arch::asm!("sfence", options(nostack, preserves_flags));
        }
    }
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering::Relaxed;

    #[test]
    fn every_instruction_leaves_the_words_as_they_are() {
        let words: [AtomicU64; 16] = core::array::from_fn(|at| AtomicU64::new(at as u64));
        assert_eq!(Flush::detect(), Flush::all().next());
        for flush in Flush::all() {
            for (at, word) in words.iter().enumerate() {
                word.store(!(at as u64), Relaxed);
                flush.line(word);
            }
            Flush::fence();
            assert!((0..16).all(|at| words[at].load(Relaxed) == !(at as u64)));
        }
    }
}
