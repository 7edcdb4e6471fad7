//! Finding the trie of a key, and the key in it.
//!
//! A search has five steps, each of which asks for the lines of the next: the prefix table's tags, its node, the trie's
//! header, the buckets of the path, the record. The first three stay in the cache unless the map is very large.
//!
//! PAPER: section 4.1, Algorithm 1.

use core::cmp::Ordering as Order;
use core::ops::ControlFlow;

use super::descend::{Look, WIDTH};
use super::eights;
use super::hints::{self, Hinted};
use super::layout::{HASH_BITS, SHORT_BYTES};
use super::raw::{Memory, Trie};
use super::walk::Direction;
use super::{CuckooTrie, Pinned};
use crate::api::Ref;
use crate::arch::{Baseline, Lanes};
use crate::batch::{Bits, DEPTH};
use crate::mem::word::{self, Read};
use crate::prefix::Probe;
use crate::sync::epoch::Guard;

/// The bits of a key's hash that its leaf keeps.
#[inline(always)]
pub(super) fn leaf_hash(full_hash: u64) -> u32 {
    (full_hash >> (u64::BITS - HASH_BITS)) as u32
}

/// Where a search starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hint<'g> {
    /// The trie where the key most likely belongs.
    pub(super) trie: Trie<'g>,
    /// The hash that its leaf would have.
    pub(super) hash: u32,
}

impl<V> CuckooTrie<V> {
    /// The first steps of a search: the trie where `key` most likely belongs; `None` in a map that never had an entry.
    #[inline(always)]
    pub(super) fn hint(&self, key: &[u8], guard: &Guard) -> Option<Hint<'_>> {
        let probe = self.table.probe(key, guard);
        self.route(key, probe)
    }

    /// The step from the table's tags to a trie.
    #[inline(always)]
    fn route(&self, key: &[u8], probe: Probe<'_>) -> Option<Hint<'_>> {
        let hash = leaf_hash(probe.full_hash());
        let route = self.table.route(key, probe)?;
        let mut trie = self.memory.trie(route.first);
        if let Some(second) = route.second
            && trie.place_of(key, &self.memory) == Order::Less
        {
            trie = self.memory.trie(second);
        }
        Some(Hint { trie, hash })
    }

    /// The last steps: finds `key`, walking on from the hint if need be.
    #[inline(always)]
    pub(super) fn find<'g>(&'g self, key: &[u8], hint: Hint<'g>) -> Option<Read<'g, V>> {
        match self.avx512 {
            Some(kernel) => self.find_with(kernel, key, hint),
            None => self.find_with(Baseline, key, hint),
        }
    }

    #[inline(always)]
    fn find_with<'g>(
        &'g self,
        kernel: impl Lanes,
        key: &[u8],
        hint: Hint<'g>,
    ) -> Option<Read<'g, V>> {
        if hint.trie.is_hinted_for::<V>(key) {
            hint.trie.prefetch_hint(hint.hash);
            if let ControlFlow::Break(found) = self.find_by_hint(kernel, key, hint) {
                return found;
            }
        }
        self.find_by_path(kernel, key, hint)
    }

    /// The same without a look at the trie's hints.
    #[inline(always)]
    fn find_by_path<'g>(
        &'g self,
        kernel: impl Lanes,
        key: &[u8],
        hint: Hint<'g>,
    ) -> Option<Read<'g, V>> {
        let found = match hint.trie.look(&self.secret, kernel, key, hint.hash) {
            Look::Record(unit) => self.read(hint.trie, key, unit),
            Look::Short(value) => Self::live(hint.trie, Memory::short_value(value)),
            Look::Absent => None,
        };
        if found.is_some() {
            return found;
        }
        self.find_elsewhere(kernel, key, hint)
    }

    /// Finds a key in a trie with hints, whose line was asked for before; goes on if that says nothing of it.
    #[inline(never)]
    fn find_by_hint<'g>(
        &'g self,
        kernel: impl Lanes,
        key: &[u8],
        hint: Hint<'g>,
    ) -> ControlFlow<Option<Read<'g, V>>> {
        match hint.trie.look_by_hint(&self.secret, kernel, key, hint.hash) {
            Hinted::Record(unit) => match self.read(hint.trie, key, unit) {
                None => ControlFlow::Continue(()),
                found => ControlFlow::Break(found),
            },
            Hinted::Absent => ControlFlow::Break(self.find_elsewhere(kernel, key, hint)),
            Hinted::Unknown => ControlFlow::Continue(()),
        }
    }

    /// The value in a record, if it is this key's and the trie it was found in lived then (T1).
    ///
    /// A record of a dead trie is not looked at: entries of its successors are removed while the table still leads to it, and
    /// their records could be another's by now.
    #[inline(always)]
    fn read<'g>(&'g self, trie: Trie<'g>, key: &[u8], unit: u64) -> Option<Read<'g, V>> {
        // The key's length is in the first line, so the second would be asked for late.
        self.memory.prefetch_record(unit, Memory::reach_bytes::<V>(key.len()));
        if trie.version().is_dead_now() {
            return None;
        }
        let record = self.memory.record::<V>(unit);
        (record.key() == key).then(|| record.value())
    }

    /// What was found in a leaf of the key, if the trie lived then (T1): the leaf was the key's when its bucket was read.
    #[inline(always)]
    fn live<'g>(trie: Trie<'g>, value: Read<'g, V>) -> Option<Read<'g, V>> {
        (!trie.version().is_dead_now()).then_some(value)
    }

    /// Goes on where a trie did not have the key: there is none if the trie is the key's, and lives.
    #[inline(always)]
    fn find_elsewhere<'g>(
        &'g self,
        kernel: impl Lanes,
        key: &[u8],
        hint: Hint<'g>,
    ) -> Option<Read<'g, V>> {
        let dead = hint.trie.version().is_dead_now();
        if !dead && hint.trie.place_of(key, &self.memory) == Order::Equal {
            return None;
        }
        self.find_from(kernel, key, hint)
    }

    /// Finds a key that the table's first answer missed.
    #[cold]
    #[inline(never)]
    fn find_from<'g>(
        &'g self,
        kernel: impl Lanes,
        key: &[u8],
        mut hint: Hint<'g>,
    ) -> Option<Read<'g, V>> {
        loop {
            hint.trie = self.trie_of(key, hint.trie);
            let found = match hint.trie.look(&self.secret, kernel, key, hint.hash) {
                Look::Record(unit) => self.read(hint.trie, key, unit),
                Look::Short(value) => Self::live(hint.trie, Memory::short_value(value)),
                Look::Absent => None,
            };
            // A live trie's borders are what they were: the answer is good.
            if found.is_some() || !hint.trie.version().is_dead_now() {
                return found;
            }
        }
    }

    /// The trie linked before or behind `trie`; of a dead trie, its successor.
    fn step<'g>(&'g self, trie: Trie<'g>, place: Order) -> Trie<'g> {
        let dead = trie.version().begin().is_dead();
        let link = if place == Order::Less && !dead { trie.prev() } else { trie.next() };
        // No link: the list was being changed. Its first trie leads everywhere.
        link.map_or_else(|| self.first_trie().unwrap_or(trie), |link| self.memory.trie(link))
    }

    /// The trie of `key`, live at some instant of the call.
    pub(super) fn trie_of<'g>(&'g self, key: &[u8], mut trie: Trie<'g>) -> Trie<'g> {
        loop {
            if trie.version().begin().is_dead() {
                trie = self.step(trie, Order::Greater);
                continue;
            }
            match trie.place_of(key, &self.memory) {
                Order::Equal => return trie,
                misplaced => trie = self.step(trie, misplaced),
            }
        }
    }

    /// The trie that ends where `border` begins, live at some instant of the call.
    pub(super) fn trie_before<'g>(&'g self, border: &[u8], hint: Trie<'g>) -> Trie<'g> {
        let mut trie = hint;
        loop {
            let dead = trie.version().begin().is_dead();
            // The trie before a border is the one with keys below it and an upper border at or above it.
            let borders = trie.borders();
            let low = self.memory.border(borders.low);
            if !dead && low < border {
                let reaches = !borders.bounded || *self.memory.border(borders.high) >= *border;
                if reaches {
                    return trie;
                }
            }
            let link = if low >= border && !dead { trie.prev() } else { trie.next() };
            match link {
                Some(link) => trie = self.memory.trie(link),
                None => return self.first_trie().unwrap_or(trie),
            }
        }
    }

    /// The map's first trie in a direction, live at some instant of the call.
    #[inline]
    pub(super) fn end_trie(&self, direction: Direction, guard: &Guard) -> Option<Trie<'_>> {
        match direction {
            Direction::Up => self.first_trie().map(|first| self.trie_of(&[], first)),
            Direction::Down => self.last_trie(guard),
        }
    }

    /// The last trie, most likely; live at some instant of the call.
    fn last_trie(&self, guard: &Guard) -> Option<Trie<'_>> {
        let longest = [u8::MAX; 64];
        let hint = self.hint(&longest, guard)?;
        let mut trie = self.trie_of(&longest, hint.trie);
        while trie.borders().bounded {
            let border = self.memory.border(trie.borders().high);
            trie = self.trie_of(border, self.memory.trie(trie.next()?));
        }
        Some(trie)
    }
}

impl<V> CuckooTrie<V> {
    /// Finds up to [`eights::MOST`] keys: first those that are numbers, then the others and what is left, [`DEPTH`] at a time. What
    /// `found` is told last of a key counts.
    #[inline(always)]
    fn find_some<'g>(
        &'g self,
        guard: &'g Guard,
        keys: &[&[u8]],
        mut found: impl FnMut(usize, Option<Read<'g, V>>),
    ) {
        match self.avx512 {
            Some(kernel) => self.find_some_with(kernel, guard, keys, &mut found),
            None => self.find_some_with(Baseline, guard, keys, &mut found),
        }
    }

    #[inline(always)]
    fn find_some_with<'g>(
        &'g self,
        kernel: impl Lanes,
        guard: &'g Guard,
        keys: &[&[u8]],
        found: &mut impl FnMut(usize, Option<Read<'g, V>>),
    ) {
        let mut left = Bits(self.find_eights(kernel, guard, keys, found));
        while left.0 != 0 {
            let (mut some, mut places, mut count) = ([&[][..]; DEPTH], [0; DEPTH], 0);
            for place in left.by_ref().take(DEPTH) {
                (some[count], places[count]) = (keys[place], place);
                count += 1;
            }
            let mut found = |i: usize, read| found(places[i], read);
            self.find_together(kernel, guard, &some[..count], &mut found);
        }
    }

    /// Finds up to [`DEPTH`] keys: each step is taken for all of them before the next one, which reads what the step has asked
    /// for.
    #[inline(never)]
    fn find_together<'g>(
        &'g self,
        kernel: impl Lanes,
        guard: &'g Guard,
        keys: &[&[u8]],
        found: &mut impl FnMut(usize, Option<Read<'g, V>>),
    ) {
        let mut probes = [None; DEPTH];
        for (probe, key) in probes.iter_mut().zip(keys) {
            *probe = Some(self.table.probe_with(kernel, key, guard));
        }
        let mut hints = [None; DEPTH];
        for ((hint, probe), key) in hints.iter_mut().zip(&probes).zip(keys) {
            *hint = (*probe).and_then(|probe| self.route(key, probe));
            if let Some(hint) = hint {
                hint.trie.prefetch_header();
            }
        }
        let mut units = [None; DEPTH];
        let mut under_way = u32::MAX >> (u32::BITS as usize - keys.len());
        let mut by_hint = 0_u32;
        for (i, (hint, key)) in hints.iter().zip(keys).enumerate() {
            if let Some(hint) = hint.filter(|hint| hint.trie.is_hinted_for::<V>(key)) {
                hint.trie.prefetch_hint(hint.hash);
                by_hint |= 1 << i;
            }
        }
        if by_hint != 0 {
            let done = self.find_by_hints(kernel, keys, &hints, &mut units, by_hint, found);
            by_hint &= done;
            under_way &= !done;
        }
        under_way = self.find_by_guess(kernel, keys, &hints, &mut units, under_way, found);
        if under_way != 0 {
            self.find_by_paths(kernel, keys, &hints, &mut units, under_way, found);
        }
        for (i, ((unit, hint), key)) in units.iter().zip(&hints).zip(keys).enumerate() {
            if let (Some(unit), Some(hint)) = (*unit, *hint) {
                let read = self.read(hint.trie, key, unit);
                found(
                    i,
                    read.or_else(|| match by_hint >> i & 1 {
                        0 => self.find_elsewhere(kernel, key, hint),
                        _ => self.find_by_path(kernel, key, hint),
                    }),
                );
            }
        }
    }

    /// Looks on the levels where most leaves are for those of up to [`DEPTH`] keys that have a bit in `wanted`. Returns the bits
    /// of those of which that said nothing; `found` is told of the others, or their record is in `units` and has been asked for.
    #[inline(always)]
    fn find_by_guess<'g>(
        &'g self,
        kernel: impl Lanes,
        keys: &[&[u8]],
        hints: &[Option<Hint<'g>>; DEPTH],
        units: &mut [Option<u64>; DEPTH],
        wanted: u32,
        found: &mut impl FnMut(usize, Option<Read<'g, V>>),
    ) -> u32 {
        let mut guesses = [None; DEPTH];
        for (i, ((guess, hint), key)) in guesses.iter_mut().zip(hints).zip(keys).enumerate() {
            if let Some(hint) = hint.filter(|_| wanted >> i & 1 != 0) {
                *guess = hint.trie.guess_first(&self.secret, key);
            }
        }
        let (mut left, mut again) = (wanted, 0_u32);
        for (i, ((guess, hint), key)) in guesses.iter().zip(hints).zip(keys).enumerate() {
            let (Some(guess), Some(hint)) = (guess, *hint) else { continue };
            if let Some(look) = guess.look_first(hint.trie, kernel, key, hint.hash) {
                left &= !(1 << i);
                units[i] = self.answer(kernel, key, hint, look, |read| found(i, read));
            } else {
                again |= 1 << i;
            }
        }
        for i in Bits(again.into()) {
            let (Some(guess), Some(hint)) = (&guesses[i], hints[i]) else { continue };
            if let Some(look) = guess.look_second(hint.trie, kernel, keys[i], hint.hash) {
                left &= !(1 << i);
                units[i] = self.answer(kernel, keys[i], hint, look, |read| found(i, read));
            }
        }
        left
    }

    /// Goes down the paths of those of up to [`DEPTH`] keys that have a bit in `under_way`. Tells `found` what comes of it, or
    /// puts their records into `units` and asks for them.
    #[inline(never)]
    fn find_by_paths<'g>(
        &'g self,
        kernel: impl Lanes,
        keys: &[&[u8]],
        hints: &[Option<Hint<'g>>; DEPTH],
        units: &mut [Option<u64>; DEPTH],
        mut under_way: u32,
        found: &mut impl FnMut(usize, Option<Read<'g, V>>),
    ) {
        // By a function: an array of constants would be copied, half a kilobyte each.
        let mut descents: [_; DEPTH] = core::array::from_fn(|_| None);
        for i in Bits(under_way.into()) {
            let Some(hint) = hints[i] else { continue };
            descents[i] = Some(hint.trie.descent(&self.secret, keys[i]));
            if let Some(descent) = &mut descents[i] {
                descent.ask_first(&self.secret);
            }
        }
        while under_way != 0 {
            for i in Bits(under_way.into()) {
                let (Some(descent), Some(hint)) = (&mut descents[i], hints[i]) else {
                    under_way &= !(1 << i);
                    found(i, None);
                    continue;
                };
                let look = descent.look_on(&self.secret, kernel, hint.hash, WIDTH);
                let Some(look) = look else { continue };
                under_way &= !(1 << i);
                units[i] = self.answer(kernel, keys[i], hint, look, |read| found(i, read));
            }
        }
    }

    /// Tells `found` what was found for a key, or asks for its record and returns that.
    #[inline(always)]
    fn answer<'g>(
        &'g self,
        kernel: impl Lanes,
        key: &[u8],
        hint: Hint<'g>,
        look: Look,
        found: impl FnOnce(Option<Read<'g, V>>),
    ) -> Option<u64> {
        let read = match look {
            Look::Record(unit) => {
                self.memory.prefetch_record(unit, Memory::reach_bytes::<V>(key.len()));
                return Some(unit);
            }
            Look::Short(value) => Self::live(hint.trie, Memory::short_value(value)),
            Look::Absent => None,
        };
        found(read.or_else(|| self.find_elsewhere(kernel, key, hint)));
        None
    }

    /// Takes the first steps for those of up to [`DEPTH`] keys that have a bit in `wanted`, whose hints were asked for before.
    /// Returns the bits of those that are not there, which `found` is told, and of those whose record is in `units` and has
    /// been asked for.
    #[inline(never)]
    fn find_by_hints<'g>(
        &'g self,
        kernel: impl Lanes,
        keys: &[&[u8]],
        hints: &[Option<Hint<'g>>; DEPTH],
        units: &mut [Option<u64>; DEPTH],
        wanted: u32,
        found: &mut impl FnMut(usize, Option<Read<'g, V>>),
    ) -> u32 {
        let mut leaves = [hints::Hint::Unknown; DEPTH];
        let is_wanted = |i: usize| hints[i].filter(|_| wanted >> i & 1 != 0);
        for (i, (leaf, key)) in leaves.iter_mut().zip(keys).enumerate() {
            if let Some(hint) = is_wanted(i) {
                *leaf = hint.trie.read_hint(&self.secret, key, hint.hash);
            }
        }
        let (mut done, mut again) = (0, 0_u32);
        let mut note = |i: usize, hint: Hint<'g>, hinted| {
            match hinted {
                Hinted::Record(unit) => {
                    let reach = Memory::reach_bytes::<V>(keys[i].len());
                    self.memory.prefetch_record(unit, reach);
                    units[i] = Some(unit);
                }
                Hinted::Absent => found(i, self.find_elsewhere(kernel, keys[i], hint)),
                Hinted::Unknown => return,
            }
            done |= 1 << i;
        };
        for (i, leaf) in leaves.iter_mut().enumerate().take(keys.len()) {
            let Some(hint) = is_wanted(i) else { continue };
            match leaf {
                hints::Hint::At(leads, seen) => {
                    match hint.trie.look_first(kernel, leads, *seen, hint.hash) {
                        Some(hinted) => note(i, hint, hinted),
                        None => again |= 1 << i,
                    }
                }
                hints::Hint::Absent => note(i, hint, Hinted::Absent),
                hints::Hint::Unknown => {}
            }
        }
        for i in Bits(again.into()) {
            if let (hints::Hint::At(leads, seen), Some(hint)) = (&leaves[i], hints[i]) {
                note(i, hint, hint.trie.look_second(kernel, leads, *seen, hint.hash));
            }
        }
        done
    }
}

impl<V> Pinned<'_, V> {
    /// Returns the value of `key`.
    ///
    /// # Cost
    ///
    /// Two waits: two lines for each of the last levels of the key's path, 8 at a time, two on random numbers, of which one
    /// each is asked for first; then the record. A wait more for each 8 levels beyond that where other keys near this one have nodes too, for a node on
    /// a level where few have, and for each 80 symbols of six bits that many keys share and others do not. There is no record for keys that are not there, and none for keys of eight bytes with
    /// values of at most eight that need no dropping. Where six levels or more are usual, two waits or three: hints that say on
    /// which levels leaves of the key's hash are, and with them a line on each of the five or so levels where most leaves are; the others of two lines for each
    /// that the hints name; and the record. Without that if there is no such leaf.
    ///
    /// # Concurrency
    ///
    /// Takes no lock and stores nothing. Waits for a writer only while that stores into a bucket that is read, and reads again what was
    /// changed meanwhile. Takes effect when the last node is read.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::CuckooTrie;
    ///
    /// let map = CuckooTrie::new();
    /// let pinned = map.pin();
    /// pinned.insert(b"wombat", 1);
    /// assert_eq!(pinned.get(b"wombat").as_deref(), Some(&1));
    /// assert!(pinned.get(b"womb").is_none());
    /// ```
    ///
    /// # Paper
    ///
    /// Section 4.1, Algorithm 1.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<Ref<'_, V>> {
        if const { word::is_inline::<V>() }
            && let Ok(eight) = <[u8; SHORT_BYTES]>::try_from(key)
        {
            return self.map.find_eight(&self.guard, eight).map(Ref::new);
        }
        let hint = self.map.hint(key, &self.guard)?;
        self.map.find(key, hint).map(Ref::new)
    }

    /// Looks up all `keys` and stores the answer for `keys[i]` in `found[i]`.
    ///
    /// # Cost
    ///
    /// The line fetches of as many `get`s, up to 16 keys' at a time, up to 64 keys' if all have eight bytes and values have no
    /// records. Allocates nothing.
    ///
    /// # Concurrency
    ///
    /// Each key's lookup takes effect by itself, as a `get` at some instant of the call.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::CuckooTrie;
    ///
    /// let map = CuckooTrie::new();
    /// let pinned = map.pin();
    /// pinned.insert(b"a", 1);
    /// let keys: [&[u8]; 2] = [b"a", b"b"];
    /// let mut found = [const { None }; 2];
    /// pinned.get_batch(&keys, &mut found);
    /// assert_eq!(found[0].as_deref(), Some(&1));
    /// assert!(found[1].is_none());
    /// ```
    #[track_caller]
    pub fn get_batch<'g>(&'g self, keys: &[&[u8]], found: &mut [Option<Ref<'g, V>>]) {
        assert_eq!(keys.len(), found.len(), "as many answers as keys");
        for (keys, found) in keys.chunks(eights::MOST).zip(found.chunks_mut(eights::MOST)) {
            self.map.find_some(&self.guard, keys, |i, read| found[i] = read.map(Ref::new));
        }
    }

    /// Looks up all `keys` and stores in `found[i]` whether `keys[i]` has a value; as
    /// [`get_batch`](Self::get_batch).
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    #[track_caller]
    pub fn contains_batch(&self, keys: &[&[u8]], found: &mut [bool]) {
        assert_eq!(keys.len(), found.len(), "as many answers as keys");
        for (keys, found) in keys.chunks(eights::MOST).zip(found.chunks_mut(eights::MOST)) {
            self.map.find_some(&self.guard, keys, |i, read| found[i] = read.is_some());
        }
    }
}
