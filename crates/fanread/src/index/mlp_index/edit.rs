//! Reading several buckets as of one instant, and changing several at once.
//!
//! A search looks at buckets through a [`View`]. A [`Trail`] remembers the versions it has seen; an [`Edit`] also keeps copies of
//! buckets that are to change, and puts them into effect all at once or not at all. So whatever is done to the trie is
//! written as if nobody else were there.
//!
//! `commit` locks the buckets that were changed, none of which it waits for, and then makes sure that those it only read
//! are as they were and that nobody else has locked them: of two edits of which each has read what the other changes, at
//! least one gives up. It announces all its changes before it ends one, so a reader that has seen one bucket after and
//! another before the edit finds the latter changed when it compares versions.
//!
//! # Invariants
//!
//! * **E1** What a look returns was so in its bucket at the version that the trail notes, but for the edit's own changes.
//! * **E2** Nothing waits while it holds a lock of a bucket.
//!
//! The loom models of `sync::version` and those below, and the shuttle scenes below and of the suites, run these protocols.

use core::sync::atomic::Ordering::SeqCst;

use smallvec::SmallVec;

use super::layout::{Entry, Image, UNITS};
use super::raw::{Bucket, Home, Segment};
use super::words::Words;
use crate::mem::word::Word;
use crate::sync::shim;
use crate::sync::version::{Locked, Seen};

/// Something was changed meanwhile: begin again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Again;

/// How a search looks at buckets.
pub(super) trait View<'g> {
    /// Lets `read` look at what `bucket` holds at one instant. It may be called on words that do not belong together, whose
    /// answer is thrown away.
    ///
    /// # Errors
    ///
    /// If the bucket has changed since another look, or its segment was replaced.
    fn look<T>(&mut self, bucket: &'g Bucket, read: impl FnMut(Words<'_>) -> T)
    -> Result<T, Again>;
}

/// The versions a reader has seen.
#[derive(Debug)]
pub(super) struct Trail<'g> {
    seen: SmallVec<[(&'g Bucket, Seen); 8]>,
}

impl<'g> Trail<'g> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self { seen: SmallVec::new() }
    }

    /// Notes the version of a bucket that somebody looked at.
    #[inline(always)]
    pub(super) fn note_one(&mut self, bucket: &'g Bucket, seen: Seen) {
        self.seen.push((bucket, seen));
    }

    /// Notes the versions of a pair of buckets, those that somebody looked at.
    #[inline(always)]
    pub(super) fn note(&mut self, home: &Home<'g>, seen: [Option<Seen>; 2]) {
        for (bucket, seen) in home.pair.into_iter().zip(seen) {
            self.seen.extend(seen.map(|seen| (bucket, seen)));
        }
    }

    /// Whether all that was read was so at one instant: now.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        self.seen
            .iter()
            .all(|(bucket, seen)| bucket.version.end(*seen).is_some_and(|now| !now.is_dead()))
    }
}

impl<'g> View<'g> for Trail<'g> {
    #[inline(always)]
    fn look<T>(
        &mut self,
        bucket: &'g Bucket,
        read: impl FnMut(Words<'_>) -> T,
    ) -> Result<T, Again> {
        let (answer, seen) = read_at_once(bucket, read)?;
        self.seen.push((bucket, seen));
        Ok(answer)
    }
}

/// What `read` makes of a bucket at one instant, and its version then.
#[inline(always)]
fn read_at_once<T>(
    bucket: &Bucket,
    mut read: impl FnMut(Words<'_>) -> T,
) -> Result<(T, Seen), Again> {
    loop {
        let seen = bucket.begin();
        if seen.is_dead() {
            return Err(Again);
        }
        let answer = read(Words::of(bucket));
        if bucket.version.end(seen).is_some() {
            return Ok((answer, seen));
        }
    }
}

/// Locks a bucket if it is as it was seen, and nobody else has locked it.
#[inline(always)]
pub(super) fn lock_as_seen(bucket: &Bucket, seen: Seen) -> Option<Locked<'_>> {
    let lock = bucket.version.try_lock()?;
    (lock.seen().same_changes(seen) && !lock.is_dead()).then_some(lock)
}

/// A bucket that an edit changes.
#[derive(Debug)]
struct Change<'g> {
    bucket: &'g Bucket,
    seen: Seen,
    segment: &'g Segment,
    /// How many slots were in use before.
    used: usize,
    image: Image,
    lock: Option<Locked<'g>>,
}

/// A change in the making.
#[derive(Debug)]
pub(super) struct Edit<'g> {
    /// What was read and is not to be changed.
    read: SmallVec<[(&'g Bucket, Seen); 8]>,
    changes: SmallVec<[Change<'g>; 4]>,
    has_values: bool,
}

impl<'g> View<'g> for Edit<'g> {
    #[inline(always)]
    fn look<T>(
        &mut self,
        bucket: &'g Bucket,
        mut read: impl FnMut(Words<'_>) -> T,
    ) -> Result<T, Again> {
        if let Some(change) = self.changes.iter().find(|c| core::ptr::eq(c.bucket, bucket)) {
            return Ok(read(change.image.words()));
        }
        let (answer, seen) = read_at_once(bucket, read)?;
        match self.read.iter().find(|(other, _)| core::ptr::eq(*other, bucket)) {
            Some((_, before)) if !before.same_changes(seen) => return Err(Again),
            Some(_) => {}
            None => self.read.push((bucket, seen)),
        }
        Ok(answer)
    }
}

impl<'g> Edit<'g> {
    #[inline]
    pub(super) fn new(has_values: bool) -> Self {
        Self { read: SmallVec::new(), changes: SmallVec::new(), has_values }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.read.clear();
        self.changes.clear();
    }

    /// The image of a bucket of `segment`, to be changed.
    fn change(&mut self, segment: &'g Segment, bucket: &'g Bucket) -> Result<&mut Image, Again> {
        let at = self.changes.iter().position(|change| core::ptr::eq(change.bucket, bucket));
        let at = match at {
            Some(at) => at,
            None => self.begin_change(segment, bucket)?,
        };
        Ok(&mut self.changes[at].image)
    }

    fn begin_change(&mut self, segment: &'g Segment, bucket: &'g Bucket) -> Result<usize, Again> {
        if !segment.is_open() {
            return Err(Again);
        }
        let (image, seen) = read_at_once(bucket, |_| bucket.image())?;
        if let Some(at) = self.read.iter().position(|(other, _)| core::ptr::eq(*other, bucket)) {
            let (_, before) = self.read.swap_remove(at);
            if !before.same_changes(seen) {
                return Err(Again);
            }
        }
        let used = image.kinds.used();
        self.changes.push(Change { bucket, seen, segment, used, image, lock: None });
        Ok(self.changes.len() - 1)
    }

    /// Changes the value of a leaf in a slot of a bucket.
    ///
    /// # Errors
    ///
    /// If the bucket was changed.
    pub(super) fn set_value(
        &mut self,
        home: &Home<'g>,
        (at, slot): (usize, usize),
        value: Word,
    ) -> Result<(), Again> {
        self.change(home.segment, home.pair[at])?.slots[slot % UNITS + UNITS] = value;
        Ok(())
    }

    /// Gives a node, whose level this is, one more child, if it has room for that where it is; tells whether it has.
    ///
    /// # Errors
    ///
    /// If the bucket was changed.
    pub(super) fn add_child(
        &mut self,
        home: &Home<'g>,
        level: usize,
        (at, slot): (usize, usize),
        byte: u8,
    ) -> Result<bool, Again> {
        Ok(self.change(home.segment, home.pair[at])?.add_child((level, slot), byte))
    }

    /// Puts the changes into effect.
    ///
    /// # Errors
    ///
    /// If something that was read is no longer so; nothing was changed then.
    pub(super) fn commit(&mut self) -> Result<(), Again> {
        let done = self.try_commit();
        // Unlocks whatever was locked.
        self.clear();
        done
    }

    fn try_commit(&mut self) -> Result<(), Again> {
        for change in &mut self.changes {
            change.lock = Some(lock_as_seen(change.bucket, change.seen).ok_or(Again)?);
        }
        if !self.read.is_empty() {
            // ORDER: SeqCst fence between our locks and the loads below. Of two edits that do this, one at least sees the
            // other's lock.
            shim::fence(SeqCst);
            for (bucket, seen) in &self.read {
                let now = bucket.version.end(*seen).ok_or(Again)?;
                if now.is_locked() || now.is_dead() {
                    return Err(Again);
                }
            }
        }
        // E1 holds for all that was read at this instant, and for what is locked until it is unlocked.
        for change in &mut self.changes {
            change.lock.as_mut().into_iter().for_each(Locked::begin_change);
        }
        for change in &self.changes {
            change.bucket.store(&change.image);
            let used = change.image.kinds.used();
            let more = used.cast_signed() - change.used.cast_signed();
            change.segment.count(change.bucket, more);
        }
        for change in &mut self.changes {
            change.lock.as_mut().into_iter().for_each(Locked::end_change);
        }
        Ok(())
    }
}

/// Buckets in which entries are placed: those of an edit, or of a segment that nobody else knows.
pub(super) trait Pages<'g>: View<'g> {
    /// Lets `read` look at a bucket, maybe at words that do not belong together: a hint, which nothing may rest on.
    fn peek<T>(&self, bucket: &'g Bucket, read: impl FnOnce(Words<'_>) -> T) -> T;

    /// Puts an entry into its first or second bucket, if that has room; tells whether it had.
    ///
    /// # Errors
    ///
    /// If the bucket has changed since a look, or its segment was replaced.
    fn add(&mut self, home: &Home<'g>, at: usize, entry: &Entry) -> Result<bool, Again>;

    /// Takes the entry out that is in its first or second bucket, and begins in a slot there.
    ///
    /// # Errors
    ///
    /// As `add`.
    fn take(&mut self, home: &Home<'g>, at: (usize, usize)) -> Result<Entry, Again>;
}

impl<'g> Pages<'g> for Edit<'g> {
    fn peek<T>(&self, bucket: &'g Bucket, read: impl FnOnce(Words<'_>) -> T) -> T {
        match self.changes.iter().find(|change| core::ptr::eq(change.bucket, bucket)) {
            Some(change) => read(change.image.words()),
            None => read(Words::of(bucket)),
        }
    }

    fn add(&mut self, home: &Home<'g>, at: usize, entry: &Entry) -> Result<bool, Again> {
        let has_values = self.has_values;
        if self.look(home.pair[at], |words| words.kinds.free())? < entry.slots(has_values) {
            return Ok(false);
        }
        self.change(home.segment, home.pair[at])?.add(entry, has_values);
        if at == 1 {
            self.change(home.segment, home.pair[0])?.kinds.sent_away(home.hash);
        }
        Ok(true)
    }

    fn take(&mut self, home: &Home<'g>, (at, slot): (usize, usize)) -> Result<Entry, Again> {
        let has_values = self.has_values;
        let image = self.change(home.segment, home.pair[at])?;
        let entry = image.words().entry(slot, has_values);
        image.remove(slot, has_values);
        if at == 1 {
            self.change(home.segment, home.pair[0])?.kinds.back().ok_or(Again)?;
        }
        Ok(entry)
    }
}

#[cfg(all(test, shuttle))]
mod tests {
    use shuttle::thread;

    use super::*;
    use crate::sync::shim::explore;

    /// Runs a scene with a segment of two empty buckets.
    fn run(scene: fn(&Segment)) {
        let scene = move || {
            let segment = Segment::new(2, 0, None).unwrap();
            segment.open();
            scene(&segment);
        };
        explore(1, scene);
    }

    fn used(words: Words<'_>) -> usize {
        words.kinds.used()
    }

    fn add<'g>(edit: &mut Edit<'g>, segment: &'g Segment, at: usize) -> Result<(), Again> {
        let leaf = Entry::Leaf { level: 0, key: 1, value: core::ptr::null_mut() };
        edit.change(segment, &segment.buckets()[at])?.add(&leaf, false);
        Ok(())
    }

    #[test]
    fn shuttle_of_two_edits_that_have_read_what_the_other_changes_one_gives_up() {
        /// Fills a bucket if the other is empty.
        fn fill(segment: &Segment, at: usize) -> Result<(), Again> {
            let mut edit = Edit::new(false);
            if edit.look(&segment.buckets()[1 - at], used)? == 0 {
                add(&mut edit, segment, at)?;
            }
            edit.commit()
        }
        run(|segment| {
            thread::scope(|scope| {
                scope.spawn(|| fill(segment, 0));
                let _ = fill(segment, 1);
            });
            let filled = segment.buckets().iter().filter(|bucket| bucket.kinds().used() > 0);
            assert!(filled.count() < 2, "each was empty when the other was filled");
        });
    }

    #[test]
    fn shuttle_a_trail_that_holds_has_seen_all_of_an_edit_or_nothing() {
        fn read(segment: &Segment, order: [usize; 2]) {
            let mut trail = Trail::new();
            let seen = order.map(|at| trail.look(&segment.buckets()[at], used));
            assert!(seen[0] == seen[1] || !trail.holds(), "a part of it: {seen:?}");
        }
        run(|segment| {
            thread::scope(|scope| {
                scope.spawn(|| read(segment, [0, 1]));
                scope.spawn(|| read(segment, [1, 0]));
                let mut edit = Edit::new(false);
                (0..2).try_for_each(|at| add(&mut edit, segment, at)).unwrap();
                edit.commit().unwrap();
            });
        });
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    //! The steps of `try_commit` and `Trail::holds` on loom's atomics, of which buckets are not made.

    use core::sync::atomic::Ordering::{Relaxed, SeqCst};

    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, fence};
    use loom::thread;

    use crate::sync::version::{Locked, Seen, Version};

    /// A bucket of one word.
    struct Bucket {
        version: Version<AtomicU64>,
        word: AtomicU64,
    }

    impl Bucket {
        fn look(&self) -> Option<(u64, Seen)> {
            let seen = self.version.begin();
            let word = self.word.load(Relaxed);
            (!seen.is_changing() && self.version.end(seen).is_some()).then_some((word, seen))
        }

        fn lock(&self, seen: Seen) -> Option<Locked<'_, AtomicU64>> {
            self.version.try_lock().filter(|lock| lock.seen().same_changes(seen))
        }
    }

    /// Two threads at two empty buckets.
    fn race(one: fn(&[Bucket; 2]), other: fn(&[Bucket; 2])) -> Arc<[Bucket; 2]> {
        let empty =
            || Bucket { version: Version::over(AtomicU64::new(0)), word: AtomicU64::new(0) };
        let buckets = Arc::new([empty(), empty()]);
        let there = {
            let buckets = Arc::clone(&buckets);
            thread::spawn(move || one(&buckets))
        };
        other(&buckets);
        there.join().unwrap();
        buckets
    }

    #[test]
    fn loom_of_two_edits_that_have_read_what_the_other_changes_one_gives_up() {
        /// Fills a bucket if the other is empty.
        fn fill(mine: &Bucket, other: &Bucket) -> Option<()> {
            let ((_, before), (word, seen)) = (mine.look()?, other.look()?);
            let mut lock = mine.lock(before)?;
            // ORDER: SeqCst, as in `try_commit`.
            fence(SeqCst);
            if word == 0 && !other.version.end(seen)?.is_locked() {
                lock.change(|| mine.word.store(1, Relaxed));
            }
            Some(())
        }
        loom::model(|| {
            let buckets = race(|[a, b]| _ = fill(a, b), |[a, b]| _ = fill(b, a));
            let filled = buckets.each_ref().map(|bucket| bucket.word.load(Relaxed));
            assert_ne!(filled, [1, 1], "each was empty when the other was filled");
        });
    }

    #[test]
    fn loom_a_trail_that_holds_has_seen_all_of_an_edit_or_nothing() {
        fn fill(buckets: &[Bucket; 2]) {
            let mut locks = buckets.each_ref().map(|bucket| bucket.version.lock());
            locks.iter_mut().for_each(Locked::begin_change);
            for bucket in buckets {
                bucket.word.store(1, Relaxed);
            }
            locks.iter_mut().for_each(Locked::end_change);
        }
        fn read(first: &Bucket, second: &Bucket) {
            if let (Some(one), Some(other)) = (first.look(), second.look())
                && first.version.end(one.1).is_some()
                && second.version.end(other.1).is_some()
            {
                assert_eq!(one.0, other.0, "a part of it");
            }
        }
        // As in `version.rs`, the writer goes first in the first run.
        loom::model(|| _ = race(|[a, b]| read(a, b), fill));
        loom::model(|| _ = race(|[a, b]| read(b, a), fill));
    }
}
