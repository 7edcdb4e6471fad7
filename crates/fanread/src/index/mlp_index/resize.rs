//! Growing and shrinking: one segment at a time, copied beside its readers.
//!
//! A segment is locked bucket by bucket, which readers do not notice, and copied into a new one, or into two, each with the
//! hashes of one more bit. Then the directory names the copies, and the old buckets die. Only who writes to that segment
//! waits, and several threads replace several segments at a time: who *claims* a segment replaces it, and the map's lock is held
//! only while the directory is changed. Before he waits, a writer copies another segment that will be full soon: every thread comes to
//! the one that is being copied within a few calls, and would wait for it.
//!
//! A prefix's buckets are shares of the segment's length, so an entry keeps its place relative to it: the copy goes through
//! both segments from front to back.
//!
//! PAPER: none; its table has a fixed size.

use super::edit::{Again, Pages, View};
use super::layout::{Entry, SLOTS, UNITS, word_of};
use super::raw::{self, Bucket, Directory, Garbage, Home, Segment, Table, Tables};
use super::words::Words;
use super::{MlpIndex, Pinned, Recycle};
use crate::arch::prefetch;
use crate::mem::pages::HUGE_BYTES;
use crate::mem::word::Word;
use crate::mem::{AllocError, LINE_BYTES};
use crate::sync::backoff::Backoff;
use crate::sync::epoch::{self, Guard};

/// Buckets of a map's first segment.
const FIRST: usize = 2;

/// How much larger a full segment becomes, as a fraction.
///
/// A table is three quarters full when its large segments grow, and half full after. A smaller step saves memory and copies every entry
/// more often: at 1.25 four times in all, at 1.5 twice.
const STEP: (usize, usize) = (3, 2);

/// What part of its slots a table uses when all entries are there that were expected: less than [`STEP`] lets it use.
const EXPECTED: (usize, usize) = (7, 10);

/// Buckets from which a segment becomes two instead of a larger one: 12 MB.
///
/// Larger ones keep their writers waiting for longer, some 10 ms for each 12 MB; smaller ones make the directory larger. With half of
/// that all segments of a large map would be of one size and only ever split, which makes loads a tenth to a fifth faster, and tables
/// a third full after a split.
pub(super) const MOST: usize =
    if cfg!(any(shuttle, small_leaves, miri)) { 8 } else { 6 * HUGE_BYTES / LINE_BYTES };

/// The same while there are fewer segments than a copy for each writer leaves them: one page.
const EARLY_MOST: usize =
    if MOST < HUGE_BYTES / LINE_BYTES { MOST } else { HUGE_BYTES / LINE_BYTES };

/// A segment shrinks when less than one in so many of its slots is in use.
const SPARSE: usize = 5;

/// A segment of so many buckets that has no room although less than one in `COLLIDING` of its slots is in use has keys that
/// collide on purpose.
///
/// Three nodes that have both their buckets in common find no room, however large the table is. Of those few that such a
/// table has, three do by accident about once in 10^9 tables; in smaller tables it happens.
const COLLIDING_FROM: usize = 4096;
const COLLIDING: usize = 64;

/// The number of buckets of a segment that ought to have so many: in a large table, whole pages of 2 MB, the nearest number of them.
///
/// A small one's few segments, and any that are smaller than a page, are as large as they have to be, on pages of 4 KB, of which a processor
/// knows enough for all of them: where each is one page of 2 MB or two, tables of some hundred thousand keys are a third full on average.
///
/// More than a page times [`STEP`] is never rounded back to what it was.
fn rounded(buckets: usize, of: Option<&Directory>) -> usize {
    let huge = HUGE_BYTES / LINE_BYTES;
    let is_small = of.is_none_or(|directory| directory.bits() <= SMALL_BITS);
    let is_exact = is_small || buckets < huge;
    if is_exact { buckets.max(FIRST) } else { (buckets + huge / 2) / huge * huge }
}

/// Bits of the directory of a small table: its segments, up to 2 MB each, become no more than twice as many as it has names.
const SMALL_BITS: u32 = 1;

/// How many entries of a copy wait for their lines together.
const LATE: usize = 32;

/// Segments that nobody else knows, as they are filled.
pub(super) struct Filling {
    pub(super) has_values: bool,
}

impl<'g> View<'g> for Filling {
    #[inline]
    fn look<T>(
        &mut self,
        bucket: &'g Bucket,
        mut read: impl FnMut(Words<'_>) -> T,
    ) -> Result<T, Again> {
        Ok(read(Words::of(bucket)))
    }
}

impl<'g> Pages<'g> for Filling {
    fn peek<T>(&self, bucket: &'g Bucket, read: impl FnOnce(Words<'_>) -> T) -> T {
        read(Words::of(bucket))
    }

    #[inline]
    fn add(&mut self, home: &Home<'g>, at: usize, entry: &Entry) -> Result<bool, Again> {
        let (bucket, slots) = (home.pair[at], entry.slots(self.has_values));
        if let Entry::Leaf { level, key, value } = *entry {
            if !self.add_leaf(bucket, level, (key, value)) {
                return Ok(false);
            }
        } else {
            if bucket.kinds().free() < slots {
                return Ok(false);
            }
            let mut image = bucket.image();
            image.add(entry, self.has_values);
            bucket.store(&image);
        }
        if at == 1 {
            let mut kinds = home.pair[0].kinds();
            kinds.sent_away(home.hash);
            home.pair[0].store_kinds(kinds);
        }
        Ok(true)
    }

    fn take(&mut self, home: &Home<'g>, (at, slot): (usize, usize)) -> Result<Entry, Again> {
        let mut image = home.pair[at].image();
        let entry = image.words().entry(slot, self.has_values);
        image.remove(slot, self.has_values);
        home.pair[at].store(&image);
        if at == 1 {
            let mut kinds = home.pair[0].kinds();
            kinds.back().ok_or(Again)?;
            home.pair[0].store_kinds(kinds);
        }
        Ok(entry)
    }
}

impl Filling {
    /// Puts a leaf into a bucket, if that has room; tells whether it had.
    #[inline(always)]
    pub(super) fn add_leaf(
        &self,
        bucket: &Bucket,
        level: usize,
        (key, value): (u64, Word),
    ) -> bool {
        let kinds = bucket.kinds();
        let Some(slot) = kinds.free_slot(self.has_values) else { return false };
        bucket.store_slot(slot, word_of(key));
        if self.has_values {
            bucket.store_slot(slot + UNITS, value);
        }
        bucket.store_kinds(kinds.with_leaf(slot, level, self.has_values));
        true
    }
}

/// Buckets that are locked for a copy.
struct Frozen<'s>(&'s Segment);

impl<'s> Frozen<'s> {
    fn new(segment: &'s Segment) -> Self {
        segment.buckets().iter().for_each(|bucket| bucket.version.freeze());
        Self(segment)
    }

    /// The directory has others in their place.
    fn kill(self) {
        self.0.buckets().iter().for_each(|bucket| bucket.version.kill());
        core::mem::forget(self);
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.0.buckets().iter().for_each(|bucket| bucket.version.thaw());
    }
}

/// The right to replace a segment; given up when dropped.
struct Claim<'s>(&'s Segment);

impl<'s> Claim<'s> {
    /// `None` if somebody else is replacing it, or has done so, or nobody may yet.
    fn new(segment: &'s Segment) -> Option<Self> {
        segment.claim().then(|| Self(segment))
    }

    /// The directory has others in the segment's place: nobody is ever to replace it again.
    fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

impl<V> MlpIndex<V> {
    /// Makes the first segments of a map.
    #[cold]
    pub(super) fn make_first(&self) -> Result<(), AllocError> {
        let _spares = self.structure.lock();
        for table in [Table::Nodes, Table::Leaves] {
            if self.root(table).get(&epoch::pin()).is_none() {
                let expected = if table == Table::Leaves { self.expected } else { 0 };
                let directory = Directory::of(Self::first_segments(expected)?);
                // There was none before.
                let none = self.root(table).replace::<V>(directory);
                debug_assert!(none.is_none());
            }
        }
        Ok(())
    }

    /// The segments of a table of so many leaves, which are full soon when these are there.
    fn first_segments(expected: usize) -> Result<Vec<Segment>, AllocError> {
        let slots = expected.saturating_mul(1 + usize::from(Self::HAS_VALUES));
        let buckets = slots.saturating_mul(EXPECTED.1).div_ceil(EXPECTED.0 * SLOTS);
        let most = |bits| if Directory::is_short_of(1_usize << bits) { EARLY_MOST } else { MOST };
        // As few as are not too large, and not more than there can be.
        let bits = (0..32).find(|bits| buckets >> bits < most(*bits)).unwrap_or(32);
        let (huge, size) = (HUGE_BYTES / LINE_BYTES, (buckets >> bits) + 1);
        let size = if size > huge { size.next_multiple_of(huge) } else { size.max(FIRST) };
        let mut segments = Vec::new();
        let failed = |_| AllocError { bytes: buckets.saturating_mul(LINE_BYTES) };
        segments.try_reserve_exact(1 << bits).map_err(failed)?;
        for _ in 0..1_usize << bits {
            let segment = Segment::new(size, bits, None)?;
            segment.open();
            segments.push(segment);
        }
        Ok(segments)
    }

    /// Gives the segment of a hash, in which an entry found no room, more room. What is returned is dropped when the entry is
    /// in the map: that is user code.
    #[cold]
    pub(super) fn grow(
        &self,
        pinned: &Pinned<'_, V>,
        (table, hash): (Table, u64),
        (full, backoff): (&Segment, &mut Backoff),
    ) -> Result<Option<Recycle<V>>, AllocError> {
        let Some(claim) = Claim::new(full) else { return Ok(self.wait_for(pinned, backoff)) };
        let buckets = full.buckets().len();
        if buckets >= COLLIDING_FROM && full.used() * COLLIDING < buckets * SLOTS {
            // Keys that collide so often are no accident, and room does not help.
            return Err(AllocError { bytes: 2 * full.bytes() });
        }
        let recycle = self.enlarge(pinned, (table, hash), claim)?;
        self.grow_shards(&pinned.guard);
        Ok(Some(recycle))
    }

    fn enlarge(
        &self,
        pinned: &Pinned<'_, V>,
        at: (Table, u64),
        claim: Claim<'_>,
    ) -> Result<Recycle<V>, AllocError> {
        let buckets = claim.0.buckets().len();
        let wanted = (buckets * STEP.0).div_ceil(STEP.1).max(buckets + 1);
        let garbage = self.replace(&pinned.guard, at, claim, wanted)?;
        Ok(self.exchange_segments(pinned, garbage))
    }

    /// What a writer does who came where another one is at work. If segments are being copied he copies another one that will be full
    /// soon; what is returned is dropped when the entry is in the map. He waits if there is none, and if he has done so before: no call
    /// makes more than two copies.
    #[cold]
    pub(super) fn wait_for(
        &self,
        pinned: &Pinned<'_, V>,
        backoff: &mut Backoff,
    ) -> Option<Recycle<V>> {
        let tables = self.tables(&pinned.guard).filter(|_| backoff.is_fresh());
        let busy = tables.into_iter().flat_map(|tables| {
            let both = [Table::Leaves, Table::Nodes];
            let busy = move |table: &Table| tables.of(*table).all().any(Segment::is_claimed);
            both.into_iter().filter(busy).map(move |table| (table, tables.of(table)))
        });
        let soon_full = busy.flat_map(|(table, directory)| {
            let all = directory.all_with_hashes().filter(|(_, segment)| segment.is_full_soon());
            all.filter_map(move |(hash, segment)| Some(((table, hash), Claim::new(segment)?)))
        });
        if let Some((at, claim)) = { soon_full }.next() {
            backoff.has_waited();
            // Without memory it stays as it is, for now.
            return self.enlarge(pinned, at, claim).ok();
        }
        backoff.wait();
        None
    }

    /// Lets a segment shrink if little of it is in use: any one, which differs from key to key.
    #[inline]
    pub(super) fn shrink(&self, pinned: &Pinned<'_, V>, tables: Tables<'_>, key: u64) {
        let hash = self.secret.hash(0, key);
        for table in [Table::Leaves, Table::Nodes] {
            let segment = tables.of(table).segment(hash);
            let (used, slots) = (segment.used(), segment.buckets().len() * SLOTS);
            if used * SPARSE < slots && slots > 16 * SLOTS {
                self.shrink_now(pinned, (table, hash), segment);
            }
        }
    }

    #[cold]
    fn shrink_now(&self, pinned: &Pinned<'_, V>, at: (Table, u64), segment: &Segment) {
        let directory = self.root(at.0).get(&pinned.guard);
        let wanted = rounded(segment.used() * 2 / SLOTS, directory);
        if wanted * 2 > segment.buckets().len() {
            return;
        }
        // If somebody else has it, or there is no memory for a smaller one, it stays as it is.
        let Some(claim) = Claim::new(segment) else { return };
        let garbage = self.replace(&pinned.guard, at, claim, wanted).unwrap_or_default();
        self.exchange_segments(pinned, garbage).run();
    }

    /// Makes a segment of so many buckets, out of the memory of one that is no more if there is any.
    fn segment_of(&self, buckets: usize, bits: u32) -> Result<Segment, AllocError> {
        let is_large = raw::is_large(buckets * LINE_BYTES);
        let spare = if is_large { self.structure.lock().pop() } else { None };
        Segment::new(buckets, bits, spare)
    }

    /// Replaces a segment by one of so many buckets, or more if that does not do, or by two. Others may replace other segments
    /// meanwhile.
    fn replace(
        &self,
        guard: &Guard,
        (table, hash): (Table, u64),
        claim: Claim<'_>,
        wanted: usize,
    ) -> Result<Vec<Garbage<V>>, AllocError> {
        let segment = claim.0;
        let directory = self.root(table).get(guard);
        let is_early = directory.is_some_and(Directory::is_short);
        let most = if is_early { EARLY_MOST } else { MOST };
        let mut garbage = Vec::new();
        let mut wanted = wanted;
        let mut frozen = None;
        let copies = loop {
            let splits = wanted > most;
            let (parts, bits) = if splits { (2, segment.bits() + 1) } else { (1, segment.bits()) };
            let size = rounded(wanted.div_ceil(parts), directory);
            let copies: Vec<Segment> =
                (0..parts).map(|_| self.segment_of(size, bits)).collect::<Result<_, _>>()?;
            // The system clears the pages of the copy while writers still use the old segment.
            copies.iter().for_each(Segment::touch);
            frozen.get_or_insert_with(|| Frozen::new(segment));
            if self.copy(segment, &copies) {
                break copies;
            }
            // It does not fit by bad luck.
            wanted += wanted / 8 + 1;
        };
        let first = hash & !(u64::MAX >> segment.bits());
        // The hashes of the second copy have one more bit set.
        let hashes = [first, first | 1 << 63 >> segment.bits()];
        let hashes = &hashes[..copies.len()];
        let spares = self.structure.lock();
        let root = self.root(table);
        let Some(mut directory) = root.get(guard) else { return Ok(garbage) };
        if copies.len() == 2 && directory.bits() == segment.bits() {
            garbage.extend(root.replace(directory.doubled()));
            let Some(doubled) = root.get(guard) else { return Ok(garbage) };
            directory = doubled;
        }
        let old = directory.replace(first, copies);
        drop(spares);
        claim.keep();
        frozen.into_iter().for_each(Frozen::kill);
        // Not before: a reader that finds one bucket of the old segment as it was must not find another's later state.
        for hash in hashes {
            // Whatever has become of the directory, closed segments are not replaced.
            directory.segment(*hash).open();
        }
        garbage.extend(old);
        Ok(garbage)
    }

    /// Copies all entries of a segment; tells whether there was room for all.
    ///
    /// Those in their first bucket come in the order of the copy's buckets. The others go to their first, if there is room
    /// now, or to wherever there is, after the lines have had time to come.
    fn copy(&self, from: &Segment, to: &[Segment]) -> bool {
        let mut filling = Filling { has_values: Self::HAS_VALUES };
        let mut late = Vec::with_capacity(LATE);
        let place_all = |filling: &mut Filling, late: &mut Vec<(Home<'_>, Entry)>| {
            late.drain(..).all(|(home, entry)| self.place_at(filling, &home, entry).is_ok())
        };
        for bucket in from.buckets() {
            let words = Words::of(bucket);
            for slot in words.kinds.heads() {
                let (level, prefix, _) = words.name(slot, Self::HAS_VALUES);
                let old = from.home(self.secret.hash(level, prefix));
                let part = if to.len() == 2 { (old.hash << from.bits() >> 63) as usize } else { 0 };
                let home = to[part].home(old.hash);
                let is_first = old.which(bucket) == 0;
                if is_first && words.kinds.is_leaf(slot) {
                    let leaf = (words.number(slot), words.value(slot, Self::HAS_VALUES));
                    if filling.add_leaf(home.pair[0], level, leaf) {
                        continue;
                    }
                }
                let entry = words.entry(slot, Self::HAS_VALUES);
                if is_first && matches!(filling.add(&home, 0, &entry), Ok(true)) {
                    continue;
                }
                home.pair.into_iter().for_each(|bucket| prefetch(bucket));
                late.push((home, entry));
                if late.len() == LATE && !place_all(&mut filling, &mut late) {
                    return false;
                }
            }
        }
        let done = place_all(&mut filling, &mut late);
        to.iter().for_each(Segment::count_all);
        done
    }

    /// Gives a map that has grown its shards.
    fn grow_shards(&self, guard: &Guard) {
        let bytes = self.leaves.get(guard).map_or(0, |directory| directory.segment(0).bytes());
        if bytes >= SHARDS_FROM_BYTES {
            self.shards.grow();
        }
    }

    /// Bytes of all segments.
    pub(super) fn table_bytes(&self, guard: &Guard) -> usize {
        let bytes = |directory: &Directory| {
            directory.all().map(Segment::bytes).sum::<usize>() + directory.bytes()
        };
        self.tables(guard).map_or(0, |tables| bytes(tables.leaves) + bytes(tables.nodes))
    }

    /// How many slots of all segments are free, about.
    pub(super) fn free_slots(&self, guard: &Guard) -> usize {
        let free = |directory: &Directory| -> usize {
            directory.all().map(|s| (s.buckets().len() * SLOTS).saturating_sub(s.used())).sum()
        };
        self.tables(guard).map_or(0, |tables| free(tables.leaves) + free(tables.nodes))
    }
}

/// Bytes of a segment from which a map is worth its own shards for threads.
const SHARDS_FROM_BYTES: usize = 256 << 10;

#[cfg(all(test, shuttle))]
mod tests {
    use shuttle::thread;

    use super::*;
    use crate::api::Options;
    use crate::index::mlp_index::edit::Trail;
    use crate::index::mlp_index::search::What;
    use crate::sync::shim::explore;

    /// The root, or the group of key `1 << 56`, is read, its segment copied, and then changed.
    fn run(table: Table, change: fn(&Pinned<'_, u32>)) {
        let scene = move || {
            let map = MlpIndex::<u32>::with_options(Options::new().seed(1));
            let pinned = map.pin();
            (1..=5).for_each(|byte| assert!(pinned.insert(byte << 56, 0).is_none()));
            let tables = map.tables(&pinned.guard).unwrap();
            let mut trail = Trail::new();
            let found = match table {
                Table::Nodes => map.node_at(tables, &mut trail, 0, 0),
                Table::Leaves => map.entry_at(tables, &mut trail, 1, 1 << 56),
            };
            assert!(found.unwrap().what != What::Nothing && trail.holds());
            let holds = thread::scope(|scope| {
                scope.spawn(|| {
                    let pinned = map.pin();
                    let full = tables.of(table).segment(0);
                    let full = (full, &mut Backoff::new());
                    map.grow(&pinned, (table, 0), full).unwrap().unwrap();
                });
                change(&pinned);
                trail.holds()
            });
            assert!(!holds, "what was read has changed");
            pinned.check().unwrap();
        };
        explore(1, scene);
    }

    #[test]
    fn shuttle_a_node_read_before_a_copy_does_not_hold_when_the_copy_has_lost_a_child() {
        run(Table::Nodes, |pinned| _ = pinned.remove(1 << 56));
    }

    #[test]
    fn shuttle_a_node_read_before_a_copy_does_not_hold_when_the_copy_has_a_new_child() {
        run(Table::Nodes, |pinned| _ = pinned.insert(6 << 56, 0));
    }

    #[test]
    fn shuttle_a_group_read_before_a_copy_does_not_hold_when_the_copy_has_a_new_key() {
        run(Table::Leaves, |pinned| _ = pinned.insert((1 << 56) + 1, 0));
    }

    #[test]
    fn shuttle_a_segment_that_two_grow_is_replaced_once() {
        let scene = || {
            let map = MlpIndex::<u32>::with_options(Options::new().seed(1));
            let pinned = map.pin();
            (1..=5).for_each(|byte| assert!(pinned.insert(byte << 56, 0).is_none()));
            let full = map.tables(&pinned.guard).unwrap().leaves.segment(0);
            let grow = |pinned: &Pinned<'_, u32>| {
                let full = (full, &mut Backoff::new());
                map.grow(pinned, (Table::Leaves, 0), full).unwrap()
            };
            let (here, there) = thread::scope(|scope| {
                let there = scope.spawn(|| grow(&map.pin()).is_some());
                (grow(&pinned).is_some(), there.join().unwrap())
            });
            assert!(here != there, "by one of them");
            assert!(pinned.insert(6 << 56, 0).is_none());
            pinned.check().unwrap();
        };
        explore(1, scene);
    }
}
