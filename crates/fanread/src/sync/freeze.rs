//! A mark that closes many locks at once, for who copies what they guard.
//!
//! | a writer | who freezes |
//! | --- | --- |
//! | locks one of the versions | sets the mark |
//! | looks at the mark: set, it unlocks and comes back later | locks each version once, and unlocks it |
//! | not set, it writes, and unlocks | reads everything: it stands still |
//!
//! A writer that locked a version before the mark's owner did is waited for; one that locks it afterwards sees the mark, as the
//! version brings along what its last holder had done. So neither side needs a fence, and a writer pays one load.
//!
//! What is new can have its mark set from the start: nobody writes to it before `thaw`, and who does has seen what came before that.
//!
//! # Invariants
//!
//! * **F1** From when `freeze` has returned true, or the mark was made set, until `thaw`, nobody writes under the locks, and all
//!   that was written is seen by who froze.
//!
//! The loom models below run these functions on loom's atomics.

use super::shim::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    Word,
};
use super::version::Version;

/// The mark; see the module.
#[derive(Debug, Default)]
pub(crate) struct Frost<W: Word = AtomicU64>(W);

impl Frost {
    /// One that is set: what it closes is opened by `thaw`.
    pub(crate) fn set() -> Self {
        Self(AtomicU64::new(1))
    }
}

impl<W: Word> Frost<W> {
    /// Whether the mark is set, for a writer that holds one of the versions.
    #[inline(always)]
    pub(crate) fn holds(&self) -> bool {
        // ORDER: Acquire, pairs with the Release store in `thaw`. That it is set need not be seen by a writer that does not see it
        // from the version: who set it has held the version since, or will wait for it.
        self.0.load(Acquire) != 0
    }

    /// Waits for all writers and keeps others out; `false` if somebody else does that already.
    pub(crate) fn freeze<'v>(&self, versions: impl IntoIterator<Item = &'v Version<W>>) -> bool
    where
        W: 'v,
    {
        // Looked at first: all writers read this line, and a failed exchange takes it from them.
        if self.0.load(Relaxed) != 0
            // ORDER: AcqRel, pairs with the store in `thaw`: who freezes again sees what was written in between.
            || self.0.compare_exchange_weak(0, 1, AcqRel, Relaxed).is_err()
        {
            return false;
        }
        for version in versions {
            drop(version.lock());
        }
        true
    }

    /// Lets writers in again.
    pub(crate) fn thaw(&self) {
        // ORDER: Release, pairs with `freeze`.
        self.0.store(0, Release);
    }

    /// Whether the mark is set, for who holds nothing.
    pub(crate) fn is_set(&self) -> bool {
        // ORDER: Acquire, only to see it soon.
        self.0.load(Acquire) != 0
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64 as Model;
    use loom::thread;

    /// Two words with a version each, and the mark that closes both.
    struct Segment {
        frost: Frost<Model>,
        versions: [Version<Model>; 2],
        words: [Model; 2],
    }

    impl Segment {
        fn new() -> Arc<Self> {
            let version = || Version::over(Model::new(0));
            Arc::new(Self {
                frost: Frost(Model::new(0)),
                versions: [version(), version()],
                words: [Model::new(0), Model::new(0)],
            })
        }

        /// Adds one to a word; tells whether it could.
        fn write(&self, at: usize) -> bool {
            let locked = self.versions[at].lock();
            let may = !self.frost.holds();
            if may {
                self.words[at].store(self.words[at].load(Relaxed) + 1, Relaxed);
            }
            drop(locked);
            may
        }

        fn words(&self) -> [u64; 2] {
            self.words.each_ref().map(|word| word.load(Relaxed))
        }
    }

    #[test]
    fn loom_what_is_frozen_stands_still_and_misses_no_write() {
        loom::model(|| {
            let segment = Segment::new();
            let writers = [0, 1].map(|at| {
                let segment = segment.clone();
                thread::spawn(move || segment.write(at))
            });
            let copy = segment.frost.freeze(&segment.versions).then(|| segment.words());
            let written = writers.map(|writer| u64::from(writer.join().unwrap()));
            assert_eq!(segment.words(), written);
            if let Some(copy) = copy {
                assert_eq!(copy, written, "a write was missed, or came later");
            }
        });
    }

    #[test]
    fn loom_one_of_two_freezes() {
        loom::model(|| {
            let segment = Segment::new();
            let other = {
                let segment = segment.clone();
                thread::spawn(move || segment.frost.freeze(&segment.versions))
            };
            let mine = segment.frost.freeze(&segment.versions);
            assert!(!(mine && other.join().unwrap()));
        });
    }

    #[test]
    fn loom_after_a_thaw_writes_are_possible_and_seen_by_the_next_who_freezes() {
        loom::model(|| {
            let segment = Segment::new();
            let writer = {
                let segment = segment.clone();
                thread::spawn(move || segment.write(0))
            };
            let mut copy = None;
            for _ in 0..2 {
                if segment.frost.freeze(&segment.versions) {
                    copy = Some(segment.words());
                    segment.frost.thaw();
                }
            }
            let written = u64::from(writer.join().unwrap());
            assert_eq!(segment.words()[0], written);
            assert!(copy.is_none_or(|copy| copy[0] <= written));
        });
    }
}
