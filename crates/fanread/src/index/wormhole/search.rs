//! Finding the leaf of a key, and the key in the leaf.
//!
//! A search has four steps, each of which asks for the lines of the next: the prefix table's tags, its node, the
//! leaf, the record. [`Get`] stops between them, so that a batch of searches waits for all its lines at once;
//! a single `get` takes the same steps one after another.
//!
//! PAPER: section 2.3 and Algorithm 3 (`searchTrieHT`, `pointSearchLeaf`). The siblings' hops are gone: the table
//! names at most two leaves, and the leaves' own borders decide.

use core::cmp::Ordering as Order;

use super::layout::{SLOTS, Slot, Tag, Word, line_behind};
use super::raw::{Leaf, ShortPrefix, read_inline};
use super::{Pinned, Ref, Wormhole};
use crate::api::Key;
use crate::arch::{self, Baseline, Lanes};
use crate::batch::{self, Walk};
use crate::list::{self, Leaf as _, Leaves as _};
use crate::mem::LINE_BYTES;
use crate::mem::word::Read;
use crate::prefix::Probe;
use crate::sync::epoch::Guard;
use crate::sync::shim::{self, LineWords, Ordering::Acquire};

/// The leaf a search goes to first, and the one to try if the key lies before it.
pub(super) type Hint<'g> = list::Hint<Leaf<'g>>;

/// What a leaf says of a key.
#[derive(Debug)]
pub(super) enum Look<'g, V> {
    /// The key is there.
    Found(Slot, Read<'g, V>),
    /// The leaf is the key's, and the key is not there.
    Absent,
    /// The leaf is not the key's; look there.
    Elsewhere(Hint<'g>),
}

impl<V> core::fmt::Debug for Read<'_, V> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Read").finish_non_exhaustive()
    }
}

/// How an entry of a key looks in a leaf's words: `word & mask == want`.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) want: u64,
    pub(super) mask: u64,
}

impl Form {
    /// The word itself, of a key that has no record.
    #[inline(always)]
    pub(super) fn inline_word(self) -> Option<Word> {
        (self.mask == !0).then_some(Word(self.want))
    }
}

impl<V> Wormhole<V> {
    /// Step 1: asks the table's tags for the key's prefixes.
    #[inline(always)]
    pub(super) fn probe<'g>(&self, key: &[u8], guard: &'g Guard) -> (Tag, Probe<'g>) {
        let probe = self.list.table.probe(key, guard);
        (Tag::of(probe.full_hash()), probe)
    }

    /// Step 2: reads the node and asks for the leaf.
    #[inline(always)]
    pub(super) fn route(&self, key: &[u8], tag: Tag, probe: Probe<'_>) -> Option<Hint<'_>> {
        self.route_by(arch::prefetch, key, tag, probe)
    }

    /// The same, one of many that are looked at later.
    #[inline(always)]
    pub(super) fn route_many(&self, key: &[u8], tag: Tag, probe: Probe<'_>) -> Option<Hint<'_>> {
        self.route_by(arch::prefetch_many, key, tag, probe)
    }

    /// The same for who is going to write there.
    #[inline(always)]
    pub(super) fn hint_to_write(&self, key: &[u8], guard: &Guard) -> Option<(Tag, Hint<'_>)> {
        let (tag, probe) = self.probe(key, guard);
        Some((tag, self.route_by(arch::prefetch_to_write, key, tag, probe)?))
    }

    #[inline(always)]
    fn route_by(
        &self,
        prefetch: impl Fn(*const u8) + Copy,
        key: &[u8],
        tag: Tag,
        probe: Probe<'_>,
    ) -> Option<Hint<'_>> {
        let route = self.list.table.route(key, probe)?;
        let leaf = self.memory.leaf(route.first);
        let home = leaf.home_line::<V>(tag);
        leaf.prefetch::<V>(prefetch, home);
        if let Some(second) = route.second {
            self.memory.leaf(second).prefetch::<V>(prefetch, home);
        }
        Some(Hint { leaf, second: route.second })
    }

    /// Steps 1 and 2: the leaf where `key` most likely belongs; `None` in a map that never had an entry.
    #[inline(always)]
    pub(super) fn hint(&self, key: &[u8], guard: &Guard) -> Option<(Tag, Hint<'_>)> {
        let (tag, probe) = self.probe(key, guard);
        Some((tag, self.route(key, tag, probe)?))
    }

    /// All steps of one search, in a function of its own for each kernel: a single search is the faster the fewer
    /// instructions lie between its leaf and that of the next one.
    #[inline(never)]
    fn get_with<'g>(
        &'g self,
        kernel: impl Lanes,
        key: &[u8],
        guard: &'g Guard,
    ) -> Option<Read<'g, V>> {
        let probe = self.list.table.probe_with(kernel, key, guard);
        let tag = Tag::of(probe.full_hash());
        let hint = self.route(key, tag, probe)?;
        self.find_with(kernel, key, tag, hint).map(|(_, _, read)| read)
    }

    /// Steps 3 and 4: finds `key`, walking on from the hint if need be.
    #[inline(always)]
    pub(super) fn find<'g>(
        &'g self,
        key: &[u8],
        tag: Tag,
        hint: Hint<'g>,
    ) -> Option<(Leaf<'g>, Slot, Read<'g, V>)> {
        match self.avx512 {
            Some(kernel) => self.find_with(kernel, key, tag, hint),
            None => self.find_with(Baseline, key, tag, hint),
        }
    }

    #[inline(always)]
    fn find_with<'g>(
        &'g self,
        kernel: impl Lanes,
        key: &[u8],
        tag: Tag,
        hint: Hint<'g>,
    ) -> Option<(Leaf<'g>, Slot, Read<'g, V>)> {
        match self.look(kernel, hint, key, tag) {
            Look::Found(slot, read) => Some((hint.leaf, slot, read)),
            Look::Absent => None,
            Look::Elsewhere(hint) => self.find_on(kernel, key, tag, hint),
        }
    }

    /// Goes on where a first leaf was not the key's.
    #[inline(never)]
    fn find_on<'g>(
        &'g self,
        kernel: impl Lanes,
        key: &[u8],
        tag: Tag,
        mut hint: Hint<'g>,
    ) -> Option<(Leaf<'g>, Slot, Read<'g, V>)> {
        loop {
            match self.look(kernel, hint, key, tag) {
                Look::Found(slot, read) => return Some((hint.leaf, slot, read)),
                Look::Absent => return None,
                Look::Elsewhere(there) => hint = there,
            }
        }
    }

    /// The form of a key in the leaf that it belongs to (L4).
    #[inline(always)]
    pub(super) fn form(leaf: Leaf<'_>, key: &[u8], tag: Tag) -> Form {
        let shape = leaf.header().shape;
        if shape.inline
            && let Some(word) = Word::of_key(key, leaf.header().prefix_bytes())
        {
            return Form { want: word.0, mask: !0 };
        }
        Form { want: Word::of_tag(tag).0, mask: Word::TAG_MASK }
    }

    /// Returns the words of `line` that equal `want` in the bits of `mask`, with the kernel for this processor.
    #[inline(always)]
    pub(super) fn match_words(&self, line: &LineWords, want: u64, mask: u64) -> u8 {
        match self.avx512 {
            Some(kernel) => kernel.match_u64(shim::line(line), want, mask),
            None => Baseline.match_u64(shim::line(line), want, mask),
        }
    }

    /// Looks for `key` in the leaf of a hint.
    #[inline(always)]
    fn look<'g>(&'g self, kernel: impl Lanes, hint: Hint<'g>, key: &[u8], tag: Tag) -> Look<'g, V> {
        if hint.leaf.is_inline() {
            let prefix_bytes = hint.leaf.header().prefix_bytes();
            if let Some(word) = Word::of_key(key, prefix_bytes) {
                return self.look_inline(kernel, hint, (key, tag, word));
            }
        }
        self.look_record(kernel, hint, key, tag)
    }

    /// Looks for a key that would be `word` in an inline leaf.
    #[inline(always)]
    fn look_inline<'g>(
        &'g self,
        kernel: impl Lanes,
        hint: Hint<'g>,
        (key, tag, word): (&[u8], Tag, Word),
    ) -> Look<'g, V> {
        let leaf = hint.leaf;
        let header = leaf.header();
        let seen = header.version.begin();
        let has_prefix = header.has_short_prefix(key);
        if has_prefix {
            let lines = leaf.lines();
            let match_line =
                |line| kernel.match_word(shim::line(leaf.words_of::<V, true>(line)), word.0);
            let mut line = tag.home(lines);
            let mut hits = match_line(line);
            if hits == 0 {
                for _ in 0..leaf.meta().reach(tag, line) {
                    line = line_behind(line, lines);
                    hits = match_line(line);
                    if hits != 0 {
                        break;
                    }
                }
            }
            if hits != 0 {
                // ORDER: Acquire fence, pairs with the Release store of the word: its value is there.
                shim::fence(Acquire);
                let slot = line * 8 + hits.trailing_zeros() as usize;
                let value = leaf.value::<V>(slot);
                // The pair is one entry's if no slot was freed meanwhile (L6).
                return match header.version.end(seen) {
                    Some(now) if now.is_dead() => self.forward(leaf),
                    Some(_) => Look::Found(slot, read_inline(value)),
                    // Once more.
                    None => Look::Elsewhere(hint),
                };
            }
        }
        // An entry that was there all the time has been seen: it never moves within a leaf.
        if header.version.is_dead_now() {
            return self.forward(leaf);
        }
        // What is left of the key behind the prefix, as a slice: between those of the borders the leaf is the key's.
        let slice = word.inline_rest();
        if has_prefix && slice > header.low_slice && slice < header.high_slice {
            return Look::Absent;
        }
        self.look_beside(hint, key)
    }

    /// Looks for a key that would be in a record.
    #[inline(always)]
    fn look_record<'g>(
        &'g self,
        kernel: impl Lanes,
        hint: Hint<'g>,
        key: &[u8],
        tag: Tag,
    ) -> Look<'g, V> {
        let leaf = hint.leaf;
        let header = leaf.header();
        let want = Word::of_tag(tag).0;
        let lines = leaf.lines();
        let mut line = tag.home(lines);
        let mut reach = leaf.meta().reach(tag, line);
        loop {
            let words = shim::line(leaf.words::<V>(line));
            let mut hits = kernel.match_u64(words, want, Word::TAG_MASK);
            while hits != 0 {
                let slot = line * 8 + hits.trailing_zeros() as usize;
                hits &= hits - 1;
                let word = leaf.word::<V>(slot);
                if word.0 & Word::TAG_MASK != want {
                    continue;
                }
                let Some(unit) = word.record() else { continue };
                // What a leaf names that lives while we are pinned stays where it is. The table may lead to a dead one for a while,
                // and entries of its successor are removed meanwhile: their records could be another's by now (L8).
                if header.version.is_dead_now() {
                    return self.forward(leaf);
                }
                let record = self.memory.record::<V>(unit);
                if record.key() == key {
                    // The entry was this key's when its word was loaded, since the leaf lived then (L7).
                    return Look::Found(slot, record.value());
                }
            }
            if reach == 0 {
                break;
            }
            reach -= 1;
            line = line_behind(line, lines);
        }
        if header.version.is_dead_now() {
            return self.forward(leaf);
        }
        self.look_beside(hint, key)
    }

    /// Where to go on for a key that is not in `leaf` and may be outside of its borders.
    #[inline(never)]
    fn look_beside<'g>(&'g self, hint: Hint<'g>, key: &[u8]) -> Look<'g, V> {
        match self.memory.place(hint.leaf, key) {
            Order::Equal => Look::Absent,
            misplaced => Look::Elsewhere(self.list.beside(&self.memory, hint, misplaced)),
        }
    }

    /// The leaf that replaces a dead one.
    #[cold]
    fn forward<'g>(&'g self, leaf: Leaf<'g>) -> Look<'g, V> {
        Look::Elsewhere(Hint {
            leaf: self.list.step(&self.memory, leaf, Order::Greater),
            second: None,
        })
    }

    /// Looks for `key`, which has this form in the leaf, in a leaf whose lock the caller holds.
    #[inline(always)]
    pub(super) fn look_locked<'g>(
        &'g self,
        leaf: Leaf<'g>,
        key: &[u8],
        tag: Tag,
        form: Form,
    ) -> Option<(Slot, Word)> {
        let lines = leaf.lines();
        let mut line = tag.home(lines);
        for _ in 0..=leaf.meta().reach(tag, line) {
            let mut hits = self.match_words(leaf.words::<V>(line), form.want, form.mask);
            while hits != 0 {
                let slot = line * 8 + hits.trailing_zeros() as usize;
                hits &= hits - 1;
                let word = leaf.word::<V>(slot);
                let same =
                    word.record().is_none_or(|unit| self.memory.record::<V>(unit).key() == key);
                if same {
                    return Some((slot, word));
                }
            }
            line = line_behind(line, lines);
        }
        None
    }

    /// Asks for the record that most likely is the key's, in a leaf that is not inline.
    #[inline(always)]
    fn prefetch_record(&self, leaf: Leaf<'_>, tag: Tag) {
        let words = leaf.words_of::<V, false>(tag.home(leaf.lines()));
        let hits = self.match_words(words, Word::of_tag(tag).0, Word::TAG_MASK);
        if hits != 0 {
            // ORDER: Acquire, pairs with the Release store of the word: the record is there.
            let word = words[hits.trailing_zeros() as usize].load(Acquire);
            self.prefetch_entry(Word(word));
        }
    }

    /// Asks for the record of a word, if it has one: for its lines, as far as the word counts them, and for no others, as a
    /// scan is bounded by the lines it fetches. There is no branch on their number: of four lines, the third is left out.
    #[inline(always)]
    pub(super) fn prefetch_entry(&self, word: Word) {
        if let Some(unit) = word.record() {
            let at = self.memory.record::<V>(unit).at();
            let more_lines = word.more_lines();
            arch::prefetch(at);
            arch::prefetch(at.wrapping_add(more_lines * LINE_BYTES));
            arch::prefetch(at.wrapping_add(more_lines / 2 * LINE_BYTES));
        }
    }

    /// The key of an entry.
    #[inline(always)]
    pub(super) fn key_of<'g>(&'g self, prefix: &ShortPrefix, word: Word) -> Key<'g> {
        match word.record() {
            Some(unit) => Key::long(self.memory.record::<V>(unit).key()),
            None => prefix.key(word),
        }
    }
}

/// The search of `get`, one step at a time.
struct Get<'g, 'k, V> {
    map: &'g Wormhole<V>,
    guard: &'g Guard,
    key: &'k [u8],
    at: Step<'g>,
}

enum Step<'g> {
    Start,
    Node(Tag, Probe<'g>),
    Leaf(Tag, Hint<'g>),
    Record(Tag, Hint<'g>),
}

impl<'g, V> Walk for Get<'g, '_, V> {
    type Found = Option<Read<'g, V>>;

    #[inline(always)]
    fn step(&mut self) -> Option<Self::Found> {
        self.at = match core::mem::replace(&mut self.at, Step::Start) {
            Step::Start => {
                let (tag, probe) = self.map.probe(self.key, self.guard);
                Step::Node(tag, probe)
            }
            Step::Node(tag, probe) => match self.map.route_many(self.key, tag, probe) {
                Some(hint) => Step::Leaf(tag, hint),
                None => return Some(None),
            },
            Step::Leaf(tag, hint) if !hint.leaf.is_inline() => {
                self.map.prefetch_record(hint.leaf, tag);
                Step::Record(tag, hint)
            }
            // Most keys of an inline leaf have no record.
            Step::Leaf(tag, hint) | Step::Record(tag, hint) => {
                return Some(self.map.find(self.key, tag, hint).map(|(_, _, read)| read));
            }
        };
        None
    }
}

impl<V> Pinned<'_, V> {
    /// Returns the value of `key`.
    ///
    /// # Cost
    ///
    /// Two waits: a node of the prefix table, then header, word and value of the leaf at once. A key that is kept
    /// in a record (longer than the leaf's prefix by more than 7 bytes, or with a value over 8 bytes) costs a
    /// third. Tags of the table are in L2 as long as the map has less than some tens of millions of keys.
    ///
    /// # Concurrency
    ///
    /// Takes no lock, stores nothing, and waits for nobody. Takes effect when the entry's word is loaded.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::Wormhole;
    ///
    /// let map = Wormhole::new();
    /// let pinned = map.pin();
    /// pinned.insert(b"wombat", 1);
    /// assert_eq!(pinned.get(b"wombat").as_deref(), Some(&1));
    /// assert!(pinned.get(b"womb").is_none());
    /// ```
    ///
    /// # Paper
    ///
    /// Algorithm 2, `GET`.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<Ref<'_, V>> {
        let read = match self.map.avx512 {
            Some(kernel) => self.map.get_with(kernel, key, &self.guard),
            None => self.map.get_with(Baseline, key, &self.guard),
        };
        read.map(Ref::new)
    }

    /// Looks up all `keys` and stores the answer for `keys[i]` in `found[i]`.
    ///
    /// # Cost
    ///
    /// The line fetches of as many `get`s, up to 16 keys' at a time. Allocates nothing.
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
    /// use fanread::Wormhole;
    ///
    /// let map = Wormhole::new();
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
        let (map, guard) = (self.map, &self.guard);
        batch::drive(
            keys.len(),
            |index| Get { map, guard, key: keys[index], at: Step::Start },
            |index, read: Option<Read<'g, V>>| found[index] = read.map(Ref::new),
        );
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
        let (map, guard) = (self.map, &self.guard);
        batch::drive(
            keys.len(),
            |index| Get { map, guard, key: keys[index], at: Step::Start },
            |index, read: Option<Read<'_, V>>| found[index] = read.is_some(),
        );
    }
}

const _: () = assert!(SLOTS <= u8::MAX as usize + 1);
