//! The version word of a leaf: a lock for writers, a counter for readers, and a mark for the dead.
//!
//! ```text
//! bit  0       1      2 .......... 63
//!      LOCKED  DEAD   changes
//! ```
//!
//! Writers exclude each other by LOCKED. Readers ignore it: whatever a writer stores under the lock is
//! published by one word store, except for two things, which the counter covers.
//!
//! | step of a writer | `changes` | a reader of one slot | a reader of the whole order |
//! | --- | --- | --- | --- |
//! | locked, adds an entry | n (even) | sees it or not | sees it or not |
//! | `begin_change` | n + 1 | | order is not to be trusted |
//! | takes an entry out, rewrites the order | n + 1 | sees it or not | |
//! | `end_change`, unlocked | n + 2 | a pair read across this is dropped | trusted again |
//! | `retire` | DEAD | goes to the successor | goes to the successor |
//!
//! A slot is used again only after `end_change`, so a reader that finds the same `changes` before and after
//! has read two words of one entry, even while a change is under way: **readers never wait.**
//!
//! Who changes more than that makes all of it one change. A reader that finds `changes` even, and the same at the end, has
//! then read one state.
//!
//! # Invariants
//!
//! * **V1** Only the holder of LOCKED changes the word, and only it sets DEAD, which is never cleared.
//! * **V2** `changes` is odd exactly between `begin_change` and `end_change`.
//! * **V3** `changes` never returns to a value: it has 62 bits.
//!
//! The loom models below run these functions on loom's atomics: a pair is never torn, a dead leaf never
//! answers for its successor.

use super::backoff::Backoff;
use super::shim::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    Word,
};
use crate::arch::prefetch_to_write;

const LOCKED: u64 = 1;
const DEAD: u64 = 2;
const CHANGE: u64 = 4;

/// What a reader saw in the version word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen(u64);

impl Seen {
    /// Whether the leaf has been replaced.
    #[inline(always)]
    pub(crate) fn is_dead(self) -> bool {
        self.0 & DEAD != 0
    }

    /// Whether no entry was taken out and the order not rewritten in between.
    #[inline(always)]
    pub(crate) fn same_changes(self, other: Self) -> bool {
        (self.0 ^ other.0) & !(LOCKED | DEAD) == 0
    }

    /// Whether a writer held the lock.
    #[inline(always)]
    pub(crate) fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// Whether a writer was taking an entry out or rewriting the order.
    #[inline(always)]
    pub(crate) fn is_changing(self) -> bool {
        self.0 & CHANGE != 0
    }
}

/// The version word; see the module.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Version<W: Word = AtomicU64>(W);

impl<W: Word> Version<W> {
    #[cfg(all(test, loom))]
    pub(crate) fn over(word: W) -> Self {
        Self(word)
    }

    /// Starts a read.
    #[inline(always)]
    pub(crate) fn begin(&self) -> Seen {
        // ORDER: Acquire, pairs with the Release store in `unlock` and `retire`: the reader sees what the
        // writer of this version wrote.
        Seen(self.0.load(Acquire))
    }

    /// Ends a read of several words that started with `begin`; `None` if it has to be repeated.
    #[inline(always)]
    pub(crate) fn end(&self, before: Seen) -> Option<Seen> {
        // ORDER: Acquire fence, pairs with the Release fence in `reuse`: if the reader saw one word of a
        // later use of a slot, the load below sees the change that freed the slot.
        W::fence(Acquire);
        let after = Seen(self.0.load(Relaxed));
        before.same_changes(after).then_some(after)
    }

    /// Ends reads of several leaves, each begun with `begin`: whether all that was read was so at one instant, no leaf being
    /// dead or rewritten then. One test for all.
    #[inline(always)]
    pub(crate) fn hold<const N: usize>(reads: [(&Self, Seen); N]) -> bool {
        // ORDER: Acquire fence, as in `end`.
        W::fence(Acquire);
        let (mut changed, mut now) = (0, 0);
        for (version, before) in reads {
            let after = version.0.load(Relaxed);
            changed |= after ^ before.0;
            now |= after;
        }
        changed & !(LOCKED | DEAD) | now & (DEAD | CHANGE) == 0
    }

    /// Whether reads are to be repeated between which some version words came to differ in these bits: for a kernel that loads the
    /// words as `begin` and `end` do.
    #[inline(always)]
    pub(crate) fn has_changed(bits: u64) -> bool {
        bits & !(LOCKED | DEAD) != 0
    }

    /// Whether the leaf was dead after all loads before this call.
    #[inline(always)]
    pub(crate) fn is_dead_now(&self) -> bool {
        // ORDER: Acquire fence, keeps the load below behind the loads before the call; pairs with the Release
        // store in `retire`.
        W::fence(Acquire);
        // ORDER: Acquire, pairs with the Release store in `retire`: the forward reference is there.
        self.0.load(Acquire) & DEAD != 0
    }

    /// Asks for the line of the word, for who will lock it.
    #[inline(always)]
    pub(crate) fn ask_to_lock(&self) {
        prefetch_to_write(self);
    }

    /// Locks the word for writing. Locks a dead leaf too: the caller looks.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_, W> {
        self.ask_to_lock();
        let mut backoff = Backoff::new();
        loop {
            if let Some(locked) = self.try_lock() {
                return locked;
            }
            backoff.wait();
        }
    }

    /// Locks the word for writing, unless somebody holds it for longer than most do.
    #[inline]
    pub(crate) fn lock_soon(&self) -> Option<Locked<'_, W>> {
        self.ask_to_lock();
        let mut backoff = Backoff::new();
        loop {
            if let Some(locked) = self.try_lock() {
                return Some(locked);
            }
            if backoff.is_long() {
                return None;
            }
            backoff.wait();
        }
    }

    /// Locks the word for writing if nobody holds it.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Locked<'_, W>> {
        let now = self.0.load(Relaxed);
        if now & LOCKED != 0 {
            return None;
        }
        // ORDER: Acquire, pairs with the Release store in `unlock`: this writer sees what the last one wrote.
        self.0.compare_exchange_weak(now, now | LOCKED, Acquire, Relaxed).ok()?;
        Some(Locked { version: self, now: now | LOCKED })
    }
}

/// Locks for many words at once, by one writer who remembers by itself which it holds.
impl<W: Word> Version<W> {
    /// Locks the word, as `lock` does, until `thaw` or `kill`.
    pub(crate) fn freeze(&self) {
        core::mem::forget(self.lock());
    }

    /// Unlocks what `freeze` locked.
    pub(crate) fn thaw(&self) {
        let now = self.0.load(Relaxed);
        debug_assert!(now & LOCKED != 0, "V1");
        // ORDER: Release, as in `Locked::drop`.
        self.0.store(now & !LOCKED, Release);
    }

    /// Unlocks what `freeze` locked, and marks it dead. Whatever replaces it has been published before.
    pub(crate) fn kill(&self) {
        let now = self.0.load(Relaxed);
        debug_assert!(now & LOCKED != 0, "V1");
        // ORDER: Release, pairs with the Acquire load in `begin`: who sees the mark finds what replaces it.
        self.0.store(now & !LOCKED | DEAD, Release);
    }
}

/// The right to change a leaf; unlocks when dropped.
#[derive(Debug)]
pub(crate) struct Locked<'a, W: Word = AtomicU64> {
    version: &'a Version<W>,
    now: u64,
}

impl<W: Word> Locked<'_, W> {
    /// Whether the leaf had been replaced before it was locked.
    #[inline(always)]
    pub(crate) fn is_dead(&self) -> bool {
        self.now & DEAD != 0
    }

    /// What a reader sees now.
    #[inline(always)]
    pub(crate) fn seen(&self) -> Seen {
        Seen(self.now)
    }

    /// Announces that entries will be taken out or the order rewritten.
    #[inline]
    pub(crate) fn begin_change(&mut self) {
        debug_assert!(self.now & CHANGE == 0, "V2");
        self.now += CHANGE;
        self.version.0.store(self.now, Relaxed);
        // ORDER: Release fence, pairs with the Acquire fence in `end`: a reader that saw one word of the
        // change sees at least this version.
        W::fence(Release);
    }

    /// Ends what `begin_change` announced.
    #[inline]
    pub(crate) fn end_change(&mut self) {
        debug_assert!(self.now & CHANGE != 0, "V2");
        self.now += CHANGE;
        // ORDER: Release, pairs with `begin`: a reader that starts from this version sees the change.
        self.version.0.store(self.now, Release);
    }

    /// Announces a change, makes it, and ends it.
    #[inline(always)]
    pub(crate) fn change<T>(&mut self, change: impl FnOnce() -> T) -> T {
        self.begin_change();
        let done = change();
        self.end_change();
        done
    }

    /// To be called before the first store into a slot that may have been used before.
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "only who holds the lock may call it")]
    pub(crate) fn reuse(&self) {
        // ORDER: Release fence, pairs with the Acquire fence in `end`: whoever sees the store that follows
        // also sees the `end_change` that freed the slot.
        W::fence(Release);
    }

    /// Marks the leaf dead. Its forward reference has been stored before.
    #[inline]
    pub(crate) fn retire(mut self) {
        self.now |= DEAD;
        // Dropping stores the word.
    }
}

impl<W: Word> Drop for Locked<'_, W> {
    #[inline]
    fn drop(&mut self) {
        debug_assert!(self.now & CHANGE == 0, "V2");
        // ORDER: Release, pairs with `begin`, `is_dead_now` and `try_lock`: they see all writes under the lock.
        self.version.0.store(self.now & !LOCKED, Release);
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64 as Model;
    use loom::thread;

    /// A leaf of one slot: a key word, a value word, and where its successor's value is.
    struct Leaf {
        version: Version<Model>,
        key: Model,
        value: Model,
    }

    impl Leaf {
        fn new(key: u64, value: u64) -> Self {
            Self {
                version: Version::over(Model::new(0)),
                key: Model::new(key),
                value: Model::new(value),
            }
        }

        fn read(&self) -> Option<(u64, u64, bool)> {
            let before = self.version.begin();
            let key = self.key.load(Acquire);
            let value = self.value.load(Relaxed);
            self.version.end(before).map(|after| (key, value, after.is_dead()))
        }

        fn remove(&self) {
            let mut locked = self.version.lock();
            locked.begin_change();
            self.key.store(0, Relaxed);
            locked.end_change();
        }

        fn insert(&self, key: u64, value: u64) {
            let locked = self.version.lock();
            locked.reuse();
            self.value.store(value, Relaxed);
            self.key.store(key, Release);
            drop(locked);
        }
    }

    /// Runs a reader beside a writer. The writer goes first in the first run: loom goes back from a load to the stores
    /// before it, but from a store only to the last access before it.
    fn race(write: impl FnOnce(&Leaf), read: impl FnOnce(&Leaf) + 'static) -> Arc<Leaf> {
        let leaf = Arc::new(Leaf::new(1, 10));
        let reader = {
            let leaf = leaf.clone();
            thread::spawn(move || read(&leaf))
        };
        write(&leaf);
        reader.join().unwrap();
        leaf
    }

    #[test]
    fn loom_a_reader_never_pairs_a_key_with_the_value_of_another() {
        loom::model(|| {
            let write = |leaf: &Leaf| {
                leaf.remove();
                leaf.insert(2, 20);
            };
            let leaf = race(write, |leaf| {
                if let Some((key, value, _)) = leaf.read() {
                    let is_whole = matches!((key, value), (1, 10) | (0, _) | (2, 20));
                    assert!(is_whole, "{key} with {value}");
                }
            });
            assert_eq!(leaf.read(), Some((2, 20, false)));
        });
    }

    #[test]
    fn loom_a_key_that_comes_back_is_not_paired_with_a_value_in_between() {
        loom::model(|| {
            let write = |leaf: &Leaf| {
                leaf.remove();
                leaf.insert(2, 20);
                leaf.remove();
                leaf.insert(1, 30);
            };
            race(write, |leaf| {
                if let Some((1, value, _)) = leaf.read() {
                    assert!(value == 10 || value == 30, "1 with {value}");
                }
            });
        });
    }

    #[test]
    fn loom_a_dead_leaf_does_not_answer_for_its_successor() {
        loom::model(|| {
            let old = Arc::new(Leaf::new(1, 10));
            let new = Arc::new(Leaf::new(1, 10));
            // 0: nothing happened yet, 1: the new leaf's entry was removed.
            let done = Arc::new(Model::new(0));
            let writer = {
                let (old, new, done) = (old.clone(), new.clone(), done.clone());
                thread::spawn(move || {
                    old.version.lock().retire();
                    new.remove();
                    done.store(1, Release);
                })
            };
            // A reader that starts after the removal in the successor must not find the entry.
            if done.load(Acquire) == 1 {
                if let Some((key, _, dead)) = old.read() {
                    assert!(key == 0 || dead, "answered from a dead leaf");
                }
            }
            writer.join().unwrap();
        });
    }

    #[test]
    fn loom_what_is_read_quietly_belongs_together() {
        loom::model(|| {
            let write = |leaf: &Leaf| {
                for (key, value) in [(2, 20), (3, 30)] {
                    leaf.version.lock().change(|| {
                        leaf.value.store(value, Relaxed);
                        leaf.key.store(key, Relaxed);
                    });
                }
            };
            race(write, |leaf| {
                let before = leaf.version.begin();
                let (key, value) = (leaf.key.load(Relaxed), leaf.value.load(Relaxed));
                if !before.is_changing() && leaf.version.end(before).is_some() {
                    assert_eq!(value, 10 * key, "parts of two states");
                }
            });
        });
    }

    #[test]
    fn loom_two_writers_exclude_each_other() {
        loom::model(|| {
            let leaf = Arc::new(Leaf::new(0, 0));
            let add = |leaf: Arc<Leaf>| {
                move || {
                    let locked = leaf.version.lock();
                    let value = leaf.value.load(Relaxed);
                    leaf.value.store(value + 1, Relaxed);
                    drop(locked);
                }
            };
            let other = thread::spawn(add(leaf.clone()));
            add(leaf.clone())();
            other.join().unwrap();
            assert_eq!(leaf.value.load(Relaxed), 2);
        });
    }
}
