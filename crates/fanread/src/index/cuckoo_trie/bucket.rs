//! A bucket: five nodes in one line, read without a lock.
//!
//! ```text
//! word 0            1            2                        3        4        5        6        7
//!      | head 0, 1  | head 2, 3  | head 4, away, version  | body 0 | body 1 | body 2 | body 3 | body 4 |
//! ```
//!
//! | step of the writer | version | a reader |
//! | --- | --- | --- |
//! | | n (even) | may start |
//! | `change` begins | n + 1 | waits to start; what it has read so far is dropped |
//! | stores the bodies and heads that change | n + 1 | |
//! | `change` ends | n + 2 | may start; what it read before is dropped |
//!
//! The version is odd for some five to nine stores. Only the holder of the trie's lock writes (T6).
//!
//! Wide nodes stand in the first slots, and their second bodies in the last ones, the third one's in the last two heads
//! (T8). So up to three fit, and other nodes stand between. Where this order is to be kept, nodes change their slots in the
//! change that adds or takes one.
//!
//! Beside the version is what the bucket knows of nodes that are in their second bucket, and not here (`away.rs`).
//!
//! The loom models beside it (`bucket_models.rs`) run these functions on loom's atomics.

use core::hint::select_unpredictable;

use super::away::Away;
use super::layout::{Form, Head, Node, SLOTS};
use crate::arch::{Baseline, Lanes};
use crate::sync::backoff::Backoff;
use crate::sync::shim::{
    self, AtomicU64, LineWords,
    Ordering::{Acquire, Relaxed, Release},
    Word,
};

const WORDS: usize = 8;

/// The word that the version is in.
const VERSION_WORD: usize = 2;

/// Where the version is in its word, and so what a change adds to it. It is on top, above what the bucket knows of those that
/// are away.
const VERSION_AT: u32 = AWAY_AT + Away::BITS;
const AWAY_AT: u32 = 32;

/// The first body.
const BODIES_AT: usize = 3;

/// A line of five nodes; see the module.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Bucket<W: Word = AtomicU64> {
    words: [W; WORDS],
}

const _: () = assert!(size_of::<Bucket>() == crate::mem::LINE_BYTES && BODIES_AT + SLOTS == WORDS);

/// What a bucket's version was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Version(u32);

impl Version {
    /// The number, even.
    #[inline(always)]
    pub(super) fn number(self) -> u32 {
        self.0
    }
}

impl<W: Word> Bucket<W> {
    /// Starts a read. Waits while a change is under way.
    #[inline(always)]
    pub(super) fn begin(&self) -> Version {
        // ORDER: Acquire, pairs with the Release store in `change`: the reader sees what made this version, and whatever
        // was written before, such as the record that a leaf names.
        let version = (self.words[VERSION_WORD].load(Acquire) >> VERSION_AT) as u32;
        if version & 1 == 0 { Version(version) } else { self.begin_later() }
    }

    #[cold]
    fn begin_later(&self) -> Version {
        let mut backoff = Backoff::new();
        loop {
            // ORDER: Acquire, as in `begin`.
            let version = (self.words[VERSION_WORD].load(Acquire) >> VERSION_AT) as u32;
            if version & 1 == 0 {
                return Version(version);
            }
            backoff.wait();
        }
    }

    /// Whether everything that was read since `begin` is of one version, and still so.
    #[inline(always)]
    pub(super) fn is_still(&self, version: Version) -> bool {
        // ORDER: Acquire fence, pairs with the Release fence in `change`: if the reader saw a word of a later change, the
        // load below sees at least that change's odd version.
        W::fence(Acquire);
        (self.words[VERSION_WORD].load(Relaxed) >> VERSION_AT) as u32 == version.0
    }

    /// The head of a slot.
    #[inline(always)]
    pub(super) fn head(&self, slot: u32) -> Head {
        // Relaxed: readers validate it by the version, the lock's holder sees its own stores.
        let pair = self.words[slot as usize / 2].load(Relaxed);
        Head((pair >> (32 * (slot % 2))) as u32)
    }

    /// The body of a slot.
    #[inline(always)]
    pub(super) fn body(&self, slot: u32) -> u64 {
        // Relaxed: as in `head`.
        self.words[BODIES_AT + slot as usize].load(Relaxed)
    }

    /// The node in a slot. If a writer is at work, it may be one that never was.
    #[inline(always)]
    pub(super) fn node(&self, slot: u32) -> Node {
        Node::decode(self.head(slot).kind(), self.body(slot), || self.second(slot))
    }

    /// The second body of the wide node in a slot.
    #[inline(always)]
    fn second(&self, slot: u32) -> u64 {
        if slot < 2 {
            return self.body(SLOTS as u32 - 1 - slot);
        }
        // Relaxed: as in `head`.
        let [high, low] = [1, VERSION_WORD].map(|word| self.words[word].load(Relaxed));
        high >> 32 << 32 | low & 0xffff_ffff
    }

    /// Whether the last two heads are no heads, but a body (T8).
    #[inline(always)]
    fn has_three(&self) -> bool {
        self.head(2).is_wide()
    }

    /// How many wide nodes there are, and which slots are free.
    #[inline(always)]
    fn census(&self) -> Census {
        let heads: [u32; SLOTS] = core::array::from_fn(|slot| self.head(slot as u32).0);
        let is_wide = |slot: usize| u32::from(Head(heads[slot]).is_wide());
        let is_free = |slot: usize| u32::from(heads[slot] == 0) << slot;
        Census {
            // They stand in the first slots.
            wides: is_wide(0) + is_wide(1) + is_wide(2),
            free: is_free(0) | is_free(1) | is_free(2) | is_free(3) | is_free(4),
        }
    }

    /// The slots that hold nodes, and their heads.
    #[inline]
    pub(super) fn nodes(&self) -> impl Iterator<Item = (u32, Head)> {
        let slots = if self.has_three() { 3 } else { SLOTS as u32 };
        (0..slots).map(|slot| (slot, self.head(slot))).filter(|(_, head)| !head.is_free())
    }

    /// Whether wide nodes and their second bodies are where they belong (T8), and nothing is left of nodes that were taken.
    pub(super) fn is_in_order(&self) -> bool {
        let crowd = self.census().crowd();
        let Crowd { wides, .. } = crowd;
        let is_second_body = |slot: usize| slot + wides.min(2) >= SLOTS;
        crowd.fits()
            && self.nodes().all(|(slot, head)| head.is_wide() == ((slot as usize) < wides))
            && (0..SLOTS).all(|slot| {
                let is_free = self.head(slot as u32).is_free() || wides == 3 && slot >= 3;
                !is_free || is_second_body(slot) || self.body(slot as u32) == 0
            })
    }

    /// What is stored of the node in a slot.
    #[inline(always)]
    pub(super) fn form(&self, slot: u32) -> Form {
        let head = self.head(slot);
        let second = head.is_wide().then(|| self.second(slot));
        Form { kind: head.kind(), body: self.body(slot), second }
    }

    /// What all slots hold. The caller holds the trie's lock.
    fn items(&self) -> Items {
        let mut items = Items { list: [Item::NONE; SLOTS], count: 0 };
        for (slot, head) in self.nodes() {
            let second = if head.is_wide() { self.second(slot) } else { 0 };
            items.push(Item { head, body: self.body(slot), second });
        }
        items
    }

    /// Adds a node of this name, if there is room; `census` is the bucket's. Others may change their slots. Returns the bucket's new
    /// version.
    ///
    /// The caller holds the trie's lock, or has not published the trie.
    #[inline(always)]
    fn add(&self, census: Census, name: u32, form: Form) -> Option<Version> {
        let head = Head::new(name, form.kind);
        let Some(second) = form.second else {
            return Some(self.change(census.free_slot()?, head, form.body));
        };
        let (wides, is_free) = (census.wides, |slot: u32| census.free >> slot & 1 != 0);
        if wides < 2 && is_free(wides) && is_free(SLOTS as u32 - 1 - wides) {
            return Some(self.write(|last| {
                // Relaxed: ordered by what `write` does around them.
                self.words[BODIES_AT + wides as usize].store(form.body, Relaxed);
                self.words[BODIES_AT + SLOTS - 1 - wides as usize].store(second, Relaxed);
                let heads = self.words[0].load(Relaxed);
                self.words[0].store(heads | u64::from(head.0) << (32 * wides), Relaxed);
                last
            }));
        }
        if !census.crowd().with(true).fits() {
            return None;
        }
        if wides == 2 && is_free(2) {
            return Some(self.write(|last| {
                // Relaxed: as above.
                self.words[BODIES_AT + 2].store(form.body, Relaxed);
                self.words[1].store(second >> 32 << 32 | u64::from(head.0), Relaxed);
                last >> AWAY_AT << AWAY_AT | second & 0xffff_ffff
            }));
        }
        let mut items = self.items();
        items.add(Item { head, body: form.body, second }).then(|| self.change_all(&items))
    }

    /// Puts another node in the place of that in `slot`, of the same name, if there is room for it.
    ///
    /// The caller holds the trie's lock.
    #[inline]
    pub(super) fn exchange(&self, slot: u32, form: Form) -> Option<Version> {
        let old = self.head(slot);
        let head = Head::new(old.name(), form.kind);
        if form.second.is_none() && !old.is_wide() {
            return Some(self.change(slot, head, form.body));
        }
        let Some(second) = form.second else {
            return Some(self.change_wide(slot, head, form.body));
        };
        let mut items = self.items();
        items.remove(old);
        items.add(Item { head, body: form.body, second }).then(|| self.change_all(&items))
    }

    /// Frees the slot of a node. The caller holds the trie's lock.
    #[inline]
    pub(super) fn take(&self, slot: u32) -> Version {
        let old = self.head(slot);
        if !old.is_wide() {
            return self.change(slot, Head::FREE, 0);
        }
        self.change_wide(slot, Head::FREE, 0)
    }

    /// Takes away the wide node of a slot, and puts another node, or nothing, where the last of the wide nodes stood, which takes
    /// its place (T8). The caller is one of those who may call `change`.
    #[inline]
    fn change_wide(&self, slot: u32, head: Head, body: u64) -> Version {
        // One less than there are wide nodes.
        let last = usize::from(self.head(1).is_wide()) + usize::from(self.head(2).is_wide());
        let slot = slot as usize;
        let moved = (self.head(last as u32), self.body(last as u32), self.second(last as u32));
        // Relaxed, all: only the lock's holder stores here, and ordered by what `write` does around them.
        let mut heads = [self.words[0].load(Relaxed), self.words[1].load(Relaxed)];
        let mut set_head = |slot: usize, head: Head| {
            let half = 32 * (slot % 2);
            let pair = &mut heads[slot / 2];
            *pair = *pair & !(0xffff_ffff << half) | u64::from(head.0) << half;
        };
        if slot != last {
            set_head(slot, moved.0);
        }
        set_head(last, head);
        if last == 2 {
            set_head(3, Head::FREE);
        }
        self.write(|word| {
            let store = |slot: usize, body: u64| self.words[BODIES_AT + slot].store(body, Relaxed);
            if last < 2 {
                store(SLOTS - 1 - last, 0);
            }
            if slot != last {
                store(slot, moved.1);
                store(SLOTS - 1 - slot, moved.2);
            }
            store(last, body);
            self.words[0].store(heads[0], Relaxed);
            self.words[1].store(heads[1], Relaxed);
            if last == 2 { word >> AWAY_AT << AWAY_AT } else { word }
        })
    }

    /// What the bucket knows of the nodes whose first bucket it is and that are in another. It belongs together with what is
    /// read of other buckets if the trie has not changed (T9).
    #[inline(always)]
    pub(super) fn away(&self) -> Away {
        // Relaxed: as in `head`.
        let word = self.words[VERSION_WORD].load(Relaxed);
        Away((word >> AWAY_AT) as u32 & ((1 << Away::BITS) - 1))
    }

    /// Sets what the bucket knows of those that are away. The caller is one of those who may call `change`.
    #[inline]
    pub(super) fn set_away(&self, away: Away) {
        const MASK: u64 = ((1 << Away::BITS) - 1) << AWAY_AT;
        // Relaxed: only the lock's holder stores here.
        let word = self.words[VERSION_WORD].load(Relaxed);
        // ORDER: Release, pairs with the Acquire load in `begin`: the version is the same, and a reader that takes it from this
        // store sees what made it.
        self.words[VERSION_WORD].store(word & !MASK | u64::from(away.0) << AWAY_AT, Release);
    }

    /// Sets the version to 0, in a trie that nobody has seen yet.
    #[inline]
    pub(super) fn start(&self) {
        // Relaxed, both: whoever publishes the trie stores its name by Release.
        let word = self.words[VERSION_WORD].load(Relaxed);
        self.words[VERSION_WORD].store(word & ((1 << VERSION_AT) - 1), Relaxed);
    }

    /// Stores a wide node behind so many others, without a new version. The caller has not published the trie, the bucket has
    /// room, and was only filled so.
    #[inline(always)]
    pub(super) fn draw_wide(&self, wides: u32, head: Head, key: u64, second: u64) {
        debug_assert!(self.census().crowd().with(true).fits() && self.census().wides == wides);
        let at = wides as usize;
        // Relaxed, all: whoever publishes the trie stores its name by Release.
        self.words[BODIES_AT + at].store(key, Relaxed);
        if at < 2 {
            self.words[BODIES_AT + SLOTS - 1 - at].store(second, Relaxed);
            let heads = self.words[0].load(Relaxed);
            self.words[0].store(heads | u64::from(head.0) << (32 * at), Relaxed);
        } else {
            self.words[1].store(second >> 32 << 32 | u64::from(head.0), Relaxed);
            let last = self.words[VERSION_WORD].load(Relaxed);
            self.words[VERSION_WORD].store(last | second & 0xffff_ffff, Relaxed);
        }
    }

    /// The same with a node that is not wide, behind so many of its sort.
    #[inline(always)]
    pub(super) fn draw_other(&self, others: u32, head: Head, body: u64) {
        let slot = FROM_THE_MIDDLE[others as usize % SLOTS];
        debug_assert!(self.census().crowd().with(false).fits() && self.head(slot).is_free());
        // Relaxed, all: as above.
        self.words[BODIES_AT + slot as usize].store(body, Relaxed);
        let pair = &self.words[slot as usize / 2];
        pair.store(pair.load(Relaxed) | u64::from(head.0) << (32 * (slot % 2)), Relaxed);
    }

    /// Changes one slot. The caller holds the trie's lock, or has not published the trie.
    #[inline]
    fn change(&self, slot: u32, head: Head, body: u64) -> Version {
        self.write(|last| {
            let (word, half) = (slot as usize / 2, 32 * (slot % 2));
            // Relaxed: ordered by what `write` does around them.
            self.words[BODIES_AT + slot as usize].store(body, Relaxed);
            let with_head = |pair: u64| pair & !(0xffff_ffff << half) | u64::from(head.0) << half;
            if word == VERSION_WORD {
                return with_head(last);
            }
            let pair = self.words[word].load(Relaxed);
            self.words[word].store(with_head(pair), Relaxed);
            last
        })
    }

    /// Changes all slots at one moment. The caller is one of those who may call `change`.
    fn change_all(&self, items: &Items) -> Version {
        let (heads, bodies) = items.slots();
        self.write(|last| {
            // Relaxed: ordered by what `write` does around them.
            for (word, body) in self.words[BODIES_AT..].iter().zip(bodies) {
                word.store(body, Relaxed);
            }
            let pair = |slot: usize| u64::from(heads[slot + 1]) << 32 | u64::from(heads[slot]);
            self.words[0].store(pair(0), Relaxed);
            self.words[1].store(pair(2), Relaxed);
            last >> AWAY_AT << AWAY_AT | u64::from(heads[4])
        })
    }

    /// Makes a change: `stores` gets what the word with the version will be, and returns it with the head that is in it.
    #[inline(always)]
    fn write(&self, stores: impl FnOnce(u64) -> u64) -> Version {
        const STEP: u64 = 1 << VERSION_AT;
        // Relaxed: only the lock's holder stores here.
        let before = self.words[VERSION_WORD].load(Relaxed);
        debug_assert!(before & STEP == 0, "T6");
        self.words[VERSION_WORD].store(before.wrapping_add(STEP), Relaxed);
        // ORDER: Release fence, pairs with the Acquire fence in `is_still`: whoever sees one of the stores that follow
        // also sees the odd version.
        W::fence(Release);
        let last = stores(before.wrapping_add(2 * STEP));
        // ORDER: Release, pairs with the Acquire load in `begin`.
        self.words[VERSION_WORD].store(last, Release);
        Version((last >> VERSION_AT) as u32)
    }
}

/// Which slots of a bucket are taken, and by what.
#[derive(Clone, Copy, Debug)]
struct Census {
    /// How many wide nodes there are.
    wides: u32,
    /// The slots whose head is zero, a bit for each.
    free: u32,
}

impl Census {
    /// How many of three slots hold wide nodes, by a bit for each.
    const COUNT: [u8; 8] = [0, 1, 1, 2, 1, 2, 2, 3];

    /// The slots between the wide nodes and their second bodies, by the number of those.
    const BETWEEN: [u32; 4] = [0b11111, 0b01110, 0b00100, 0];

    /// Of some slots, the one that a node takes that is not wide.
    const CHOICE: [u8; 1 << SLOTS] = {
        let mut choice = [0; 1 << SLOTS];
        let mut slots = 1;
        while slots < choice.len() {
            let mut at = SLOTS;
            while at > 0 {
                at -= 1;
                if slots >> FROM_THE_MIDDLE[at] & 1 != 0 {
                    choice[slots] = FROM_THE_MIDDLE[at] as u8;
                }
            }
            slots += 1;
        }
        choice
    };

    /// The free slots between the wide nodes and their second bodies.
    #[inline(always)]
    fn between(self) -> u32 {
        self.free & Self::BETWEEN[self.wides as usize % 4]
    }

    /// A free slot for a node that is not wide. The first and last slots are for wide nodes.
    #[inline(always)]
    fn free_slot(self) -> Option<u32> {
        let free = self.between();
        (free != 0).then(|| Self::CHOICE[free as usize % Self::CHOICE.len()].into())
    }

    #[inline(always)]
    fn crowd(self) -> Crowd {
        // Without an instruction that counts bits.
        const ONES: u64 = {
            let (mut ones, mut slots) = (0, 0_u64);
            while slots < 1 << 4 {
                ones |= (slots.count_ones() as u64) << (4 * slots);
                slots += 1;
            }
            ones
        };
        let taken = Self::BETWEEN[self.wides as usize % 4] & !self.free;
        let others = (ONES >> (4 * (taken & 15)) & 15) as usize + (taken >> 4) as usize;
        Crowd { wides: self.wides as usize, others }
    }
}

/// Slots in the order in which nodes that are not wide take them.
const FROM_THE_MIDDLE: [u32; SLOTS] = [2, 3, 1, 4, 0];

/// How many nodes are, or would be, in a bucket.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Crowd {
    wides: usize,
    others: usize,
}

impl Crowd {
    /// With one more.
    #[inline]
    pub(super) fn with(self, is_wide: bool) -> Self {
        let Self { wides, others } = self;
        Self { wides: wides + usize::from(is_wide), others: others + usize::from(!is_wide) }
    }

    /// With one less.
    #[inline]
    pub(super) fn without(self, is_wide: bool) -> Self {
        let Self { wides, others } = self;
        Self { wides: wides - usize::from(is_wide), others: others - usize::from(!is_wide) }
    }

    /// Whether a bucket holds so many: three wide nodes, or five nodes of which wide ones count twice.
    #[inline]
    pub(super) fn fits(self) -> bool {
        2 * self.wides + self.others <= SLOTS || self.wides == 3 && self.others == 0
    }
}

/// A node of a bucket as it is stored, apart from its slot.
#[derive(Clone, Copy, Debug)]
struct Item {
    head: Head,
    body: u64,
    /// The second body of a wide node.
    second: u64,
}

impl Item {
    const NONE: Self = Self { head: Head::FREE, body: 0, second: 0 };
}

/// The nodes of a bucket, to be changed and written back at one moment.
#[derive(Clone, Copy, Debug)]
struct Items {
    list: [Item; SLOTS],
    count: usize,
}

impl Items {
    fn push(&mut self, item: Item) {
        self.list[self.count] = item;
        self.count += 1;
    }

    /// Adds a node, if there is room.
    fn add(&mut self, item: Item) -> bool {
        let list = &self.list[..self.count];
        let crowd = list.iter().fold(Crowd::default().with(item.head.is_wide()), |crowd, item| {
            crowd.with(item.head.is_wide())
        });
        let fits = crowd.fits();
        if fits {
            self.push(item);
        }
        fits
    }

    /// Takes away the node of this head.
    fn remove(&mut self, head: Head) {
        if let Some(at) = self.list[..self.count].iter().position(|item| item.head == head) {
            self.count -= 1;
            self.list[at] = self.list[self.count];
            self.list[self.count] = Item::NONE;
        }
    }

    /// Heads and bodies of all slots (T8).
    fn slots(&self) -> ([u32; SLOTS], [u64; SLOTS]) {
        let (mut heads, mut bodies) = ([0; SLOTS], [0; SLOTS]);
        let list = &self.list[..self.count];
        let mut wides = 0;
        for item in list.iter().filter(|item| item.head.is_wide()) {
            (heads[wides], bodies[wides]) = (item.head.0, item.body);
            if wides < 2 {
                bodies[SLOTS - 1 - wides] = item.second;
            } else {
                (heads[3], heads[4]) = ((item.second >> 32) as u32, item.second as u32);
            }
            wides += 1;
        }
        let between = |slot: &&u32| (wides..SLOTS - wides.min(2)).contains(&(**slot as usize));
        let others = list.iter().filter(|item| !item.head.is_wide());
        for (item, slot) in others.zip(FROM_THE_MIDDLE.iter().filter(between)) {
            (heads[*slot as usize], bodies[*slot as usize]) = (item.head.0, item.body);
        }
        (heads, bodies)
    }
}

impl Bucket {
    /// Adds a node of this name, if there is room. Others may change their slots. Returns the bucket's new version.
    ///
    /// The caller holds the trie's lock, or has not published the trie.
    #[inline]
    pub(super) fn put(&self, name: u32, form: Form) -> Option<Version> {
        self.add(self.quick_census(), name, form)
    }

    /// How many wide nodes there are, in the first slots, and the slots of the other nodes, a bit for each.
    #[inline(always)]
    pub(super) fn sorts(&self) -> (u32, u32) {
        let Census { wides, free } = self.quick_census();
        (wides, Census::BETWEEN[wides as usize % 4] & !free)
    }

    /// The second body of the wide node in a slot.
    #[inline(always)]
    pub(super) fn second_of(&self, slot: u32) -> u64 {
        self.second(slot)
    }

    /// How many nodes there are.
    #[inline]
    pub(super) fn crowd(&self) -> Crowd {
        self.quick_census().crowd()
    }

    /// The same as `census`, by the kernels that find heads.
    #[inline(always)]
    fn quick_census(&self) -> Census {
        let line: &LineWords = &self.words;
        let free = Baseline.match_u32(shim::line(line), Head::FREE.0, !0);
        let wides = Baseline.match_u32(shim::line(line), Head::WIDE, Head::WIDE);
        // They stand in the first slots; behind three of them, what looks like heads is a body.
        let wides = Census::COUNT[(wides & WIDE_SLOTS) as usize].into();
        Census { wides, free }
    }

    /// The slots, a bit for each, of the node of this name: one at most, but in a torn read.
    #[inline(always)]
    pub(super) fn slots_of<L: Lanes>(&self, lanes: L, name: u32) -> u32 {
        let line: &LineWords = &self.words;
        let slots = lanes.match_u32(shim::line(line), name, Head::NAME_MASK);
        // As in `find`.
        slots & select_unpredictable(self.has_three(), WIDE_SLOTS, !0)
    }

    /// The slot of the node of this name.
    #[inline(always)]
    fn find<L: Lanes>(&self, lanes: L, name: u32) -> Option<u32> {
        let line: &LineWords = &self.words;
        let found = lanes.match_u32(shim::line(line), name, Head::NAME_MASK);
        // A torn read may find two. What looks like a head in the last two slots may be a body.
        let slot = (found != 0).then(|| found.trailing_zeros())?;
        (slot < 3 || !self.has_three()).then_some(slot)
    }
}

/// A bit for each of the slots where a wide node may stand.
const WIDE_SLOTS: u32 = 0b111;

impl Bucket {
    /// The slots, a bit for each, whose bodies are this key: where its short leaf is, if that is here.
    #[inline(always)]
    pub(super) fn find_key<L: Lanes>(&self, lanes: L, key: u64) -> u32 {
        let line: &LineWords = &self.words;
        u32::from(lanes.match_word(shim::line(line), key)) >> BODIES_AT & WIDE_SLOTS
    }

    /// The value of the first of the short leaves that [`find_key`](Self::find_key) has found, and whether it is such a leaf. If
    /// there is none, whatever is there.
    ///
    /// Without a branch on the slot, which is nobody's guess.
    #[inline(always)]
    pub(super) fn value_in(&self, slots: u32) -> (u64, bool) {
        let slot = (slots | 1 << 2).trailing_zeros();
        let third =
            select_unpredictable(slot == 2, self.second(2), self.body(SLOTS as u32 - 1 - slot));
        (third, self.head(slot).is_short())
    }
}

/// A matcher of heads in one memory model.
pub(super) trait Find<W: Word>: Copy {
    /// The slot of the node of this name.
    fn find(self, bucket: &Bucket<W>, name: u32) -> Option<u32>;
}

impl<L: Lanes> Find<AtomicU64> for L {
    #[inline(always)]
    fn find(self, bucket: &Bucket, name: u32) -> Option<u32> {
        bucket.find(self, name)
    }
}

/// A node that was read: what it said, and where.
#[derive(Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "tests and models look into it"))]
pub(super) struct Hit<'g, W: Word = AtomicU64> {
    pub(super) node: Node,
    pub(super) slot: u32,
    pub(super) seen: Seen<'g, W>,
}

/// A bucket, and its version when something was read from it.
#[derive(Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "tests and models look into it"))]
pub(super) struct Seen<'g, W: Word = AtomicU64> {
    bucket: &'g Bucket<W>,
    version: Version,
}

impl<W: Word> Clone for Hit<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Word> Copy for Hit<'_, W> {}

impl<W: Word> Clone for Seen<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Word> Copy for Seen<'_, W> {}

#[cfg(test)]
impl<W: Word> Seen<'_, W> {
    /// Whether the bucket has not changed since: after all loads before this call, the node still said the same.
    #[inline(always)]
    pub(super) fn is_still(self) -> bool {
        self.bucket.is_still(self.version)
    }
}

/// Reads a node that is in one of two buckets, or in neither. What it returns was so at one moment of the call.
#[inline(always)]
pub(super) fn find_in_pair<'g, W: Word, F: Find<W>>(
    find: F,
    first: &'g Bucket<W>,
    second: &'g Bucket<W>,
    tag: u32,
) -> Option<Hit<'g, W>> {
    loop {
        let version = first.begin();
        if let Some(slot) = find.find(first, Head::first(tag)) {
            if let Some(hit) = hit(first, version, slot) {
                return Some(hit);
            }
            continue;
        }
        let other = second.begin();
        if let Some(slot) = find.find(second, Head::second(tag)) {
            if let Some(hit) = hit(second, other, slot) {
                return Some(hit);
            }
            continue;
        }
        // A node that moves is copied before it is cleared. So one that was not in the second bucket when that was read
        // was not there at all, or in the first, which has changed since then.
        if second.is_still(other) && first.is_still(version) {
            return None;
        }
    }
}

/// The node in `slot`, if the bucket has not changed.
#[inline(always)]
fn hit<W: Word>(bucket: &Bucket<W>, version: Version, slot: u32) -> Option<Hit<'_, W>> {
    let node = bucket.node(slot);
    bucket.is_still(version).then_some(Hit { node, slot, seen: Seen { bucket, version } })
}

#[cfg(all(test, not(loom), not(shuttle)))]
#[path = "bucket_tests.rs"]
pub(super) mod tests;

#[cfg(all(test, loom))]
#[path = "bucket_models.rs"]
mod loom_models;
