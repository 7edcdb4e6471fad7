//! Views of nodes and versions: the only place where addresses become references.
//!
//! # Invariants
//!
//! * **M1** A unit in a link or a state names a node or version that was filled before it was published, by a Release store
//!   or exchange of the word that names it.
//! * **M2** A piece that a reader came to by links is not freed while he is pinned: it is retired only when no link of a
//!   node that can be reached leads to it (`docs/design/skip-list.md` says why none does), and freed when all who were
//!   pinned then have gone.
//! * **M3** Key and value of a node, and value, kind of a version, do not change. The other words are atomics.
//! * **M4** The value of a node belongs to it until its chain no longer leads there; then it is retired by itself.

#![expect(unsafe_code, reason = "views of shared memory; every block cites its invariant")]
#![expect(
    clippy::cast_ptr_alignment,
    reason = "the parts of a node begin at a multiple of 8 bytes, of 4 if they have 4"
)]

use core::marker::PhantomData;
use core::mem::{align_of, needs_drop, size_of};
use core::ptr::NonNull;

use super::key::SkipKey;
use super::layout::{First, LEVELS, Link, Older, State, Unit, Window};
use super::pieces::{Nodes, Pieces};
use crate::arch;
use crate::mem::boxed::{Boxed, boxed, unboxed};
use crate::mem::word::{self, Read, Word};
use crate::mem::{AllocError, LINE_BYTES, heap, heap::Records};
use crate::sync::epoch::Guard;
use crate::sync::shim::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

/// Keys up to this size lie in the node. Larger ones would put its links on a far line.
const KEY_BYTES: usize = 256;

/// Values up to this size lie in the node or version, if nothing has to be done to drop them.
const VALUE_BYTES: usize = 1024;

/// Links that are to lie in the line of the key. Nodes with more are few, and in near caches.
const HOT_LINKS: usize = 4;

/// How values of a type are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As a word.
    Word,
    /// As they are, in so many bytes.
    InPlace(usize),
    /// As the address of a box.
    Boxed,
}

const fn form<V>() -> Form {
    if word::is_inline::<V>() {
        Form::Word
    } else if !needs_drop::<V>()
        && size_of::<V>() <= VALUE_BYTES
        && align_of::<V>() <= align_of::<u64>()
    {
        Form::InPlace(size_of::<V>().next_multiple_of(size_of::<u64>()))
    } else {
        Form::Boxed
    }
}

const fn value_bytes<V>() -> usize {
    match form::<V>() {
        Form::Word if size_of::<V>() == 0 => 0,
        Form::Word | Form::Boxed => size_of::<Word>(),
        Form::InPlace(bytes) => bytes,
    }
}

const fn key_in_place<K>() -> bool {
    size_of::<K>() <= KEY_BYTES && align_of::<K>() <= align_of::<u64>()
}

/// A key on its way into a node.
enum StoredKey<K> {
    InPlace(K),
    /// The address of its box.
    Apart(Word),
}

impl<K> StoredKey<K> {
    /// # Errors
    ///
    /// The key, if there is no memory for its box.
    fn new(key: K) -> Result<Self, (AllocError, K)> {
        if const { key_in_place::<K>() } {
            return Ok(Self::InPlace(key));
        }
        boxed(key).map(Self::Apart)
    }

    /// The key of a node that is not made after all.
    fn take(self) -> K {
        match self {
            Self::InPlace(key) => key,
            // SAFETY: it was made in `new`, and is taken back once.
            Self::Apart(word) => unsafe { unboxed(word) },
        }
    }
}

/// Where the parts of a node lie.
struct Parts<K, V>(PhantomData<(K, V)>);

impl<K: SkipKey, V> Parts<K, V> {
    const STATE: usize = value_bytes::<V>();
    const KEY: usize = Self::STATE + size_of::<u64>();
    const WINDOW: usize = Self::KEY
        + if key_in_place::<K>() {
            size_of::<K>().next_multiple_of(size_of::<u64>())
        } else {
            size_of::<Word>()
        };
    const TOWER: usize = Self::WINDOW + if K::KEEPS_PREFIX { size_of::<Window>() } else { 0 };

    fn units(height: usize) -> u64 {
        (Self::TOWER + height * size_of::<u32>()).div_ceil(Nodes::UNIT_BYTES) as u64
    }

    /// What a search reads of a node: what it compares, and the first links.
    const HOT: usize = if K::KEEPS_PREFIX { Self::WINDOW } else { Self::KEY };

    /// Whether what a search reads of a node lies in one line, if the node begins at a unit.
    fn is_good(unit: u64, height: usize) -> bool {
        let hot = unit as usize * Nodes::UNIT_BYTES + Self::HOT;
        let bytes = Self::TOWER - Self::HOT + height.min(HOT_LINKS) * size_of::<u32>();
        bytes > LINE_BYTES || hot % LINE_BYTES + bytes <= LINE_BYTES
    }
}

/// Where the parts of a version lie.
const BEGIN: usize = 0;
const END: usize = 8;
const FIRST: usize = 16;
const OLDER: usize = 24;
const KIND: usize = 28;
const VALUE: usize = 32;

pub(super) fn version_units<V>() -> u64 {
    ((VALUE + value_bytes::<V>()) / Records::UNIT_BYTES) as u64
}

/// A value on its way into a node or a version.
struct Slot<V> {
    at: *mut u8,
    values: PhantomData<V>,
}

impl<V> Clone for Slot<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Slot<V> {}

impl<V> Slot<V> {
    /// Moves a value in.
    ///
    /// # Errors
    ///
    /// The value, if there is no memory for its box.
    ///
    /// # Safety
    ///
    /// `at` has `value_bytes::<V>()` bytes, aligned to 8, that are the caller's.
    #[inline(always)]
    unsafe fn fill(self, value: V) -> Result<(), (AllocError, V)> {
        // SAFETY: the bytes are the caller's and fit the form.
        unsafe {
            match const { form::<V>() } {
                Form::Word => {
                    if size_of::<V>() > 0 {
                        self.at.cast::<Word>().write(word::pack(value));
                    }
                }
                Form::InPlace(_) => self.at.cast::<V>().write(value),
                Form::Boxed => self.at.cast::<Word>().write(boxed(value)?),
            }
        }
        Ok(())
    }

    /// The value as a word: packed if it is inline, else its address.
    ///
    /// # Safety
    ///
    /// The slot was filled, and is not written to any more.
    #[inline(always)]
    unsafe fn word(self) -> Word {
        match const { form::<V>() } {
            Form::Word if size_of::<V>() == 0 => core::ptr::null_mut(),
            Form::InPlace(_) => self.at.cast(),
            // SAFETY: filled with a word.
            Form::Word | Form::Boxed => unsafe { self.at.cast::<Word>().read() },
        }
    }

    /// Moves the value out.
    ///
    /// # Safety
    ///
    /// The slot was filled, is the caller's, and is not read any more.
    unsafe fn take(self) -> V {
        // SAFETY: filled, and moved out once; a packed word holds the bytes of a `V`.
        unsafe {
            let word = self.word();
            match const { form::<V>() } {
                Form::Word => core::ptr::from_ref(&word).cast::<V>().read(),
                Form::InPlace(_) => self.at.cast::<V>().read(),
                Form::Boxed => unboxed(word),
            }
        }
    }
}

/// The links of a node, or of the map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tower<'g> {
    base: NonNull<AtomicU32>,
    height: usize,
    lives: PhantomData<&'g AtomicU32>,
}

impl<'g> Tower<'g> {
    #[inline(always)]
    pub(super) fn of(links: &'g [AtomicU32; LEVELS]) -> Self {
        Self { base: NonNull::from(links).cast(), height: LEVELS, lives: PhantomData }
    }

    /// The link on a level, which the tower has.
    #[inline(always)]
    pub(super) fn at(self, level: usize) -> Place<'g> {
        debug_assert!(level < self.height, "{level} of {}", self.height);
        // SAFETY: searches come to a node by a link of a level, and go on on this level or below; others ask for its height.
        // So the level is inside the tower, whose links are atomics (M3) that live for 'g (M2).
        Place(unsafe { self.base.add(level).as_ref() })
    }
}

/// A link that others may change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'g>(&'g AtomicU32);

impl Place<'_> {
    #[inline(always)]
    pub(super) fn load(self) -> Link {
        // ORDER: Acquire, pairs with the Release in `exchange` and `set`: the node it names is filled (M1).
        Link(self.0.load(Acquire))
    }

    /// Stores a link of a node that nobody else writes to: it is not published, or not on this level and not marked.
    #[inline(always)]
    pub(super) fn set(self, link: Link) {
        // ORDER: Release, pairs with `load`, where a map is loaded that nobody else knows.
        self.0.store(link.0, Release);
    }

    /// Replaces a link.
    #[inline(always)]
    pub(super) fn exchange(self, old: Link, new: Link) -> bool {
        // ORDER: Release, pairs with `load`. SeqCst, with the count of snapshots: who publishes a node and then reads that
        // count reads the one of every snapshot that does not see the node (`versions.rs`).
        self.0.compare_exchange_weak(old.0, new.0, SeqCst, Relaxed).is_ok()
    }
}

/// A node.
#[derive(Debug)]
pub(super) struct Node<'g, K, V> {
    at: NonNull<u8>,
    unit: Unit,
    lives: PhantomData<(&'g K, &'g V)>,
}

impl<K, V> Clone for Node<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Node<'_, K, V> {}

impl<'g, K: SkipKey, V> Node<'g, K, V> {
    #[inline(always)]
    pub(super) fn unit(self) -> Unit {
        self.unit
    }

    #[inline(always)]
    fn state_word(self) -> &'g AtomicU64 {
        // SAFETY: inside the node (`Parts`), aligned, an atomic (M3), and alive for 'g (M2).
        unsafe { self.at.add(Parts::<K, V>::STATE).cast().as_ref() }
    }

    #[inline(always)]
    pub(super) fn state(self) -> State {
        // ORDER: Acquire, pairs with the Release in `exchange`: the version it names is filled (M1), and who knows a stamp
        // knows the snapshots before it.
        State(self.state_word().load(Acquire))
    }

    /// Replaces the state.
    #[inline(always)]
    pub(super) fn exchange(self, old: State, new: State) -> bool {
        // ORDER: Release, pairs with `state`. SeqCst, as in `Place::exchange`.
        self.state_word().compare_exchange_weak(old.0, new.0, SeqCst, Relaxed).is_ok()
    }

    /// Sets a flag of the state; returns what it was.
    #[inline]
    pub(super) fn raise(self, flag: u64) -> State {
        self.change(|state| State(state.0 | flag))
    }

    /// Counts levels that the node is off; returns what the state is then.
    pub(super) fn count_off(self, levels: usize) -> State {
        self.change(|state| state.with_off(levels)).with_off(levels)
    }

    /// Takes a flag out of the state; returns what it was.
    #[inline]
    pub(super) fn lower(self, flag: u64) -> State {
        self.change(|state| State(state.0 & !flag))
    }

    fn change(self, change: impl Fn(State) -> State) -> State {
        loop {
            let state = self.state();
            if self.exchange(state, change(state)) {
                return state;
            }
        }
    }

    #[inline(always)]
    pub(super) fn tower(self) -> Tower<'g> {
        // SAFETY: the tower begins inside the node, aligned to 4.
        let base = unsafe { self.at.add(Parts::<K, V>::TOWER).cast() };
        Tower { base, height: LEVELS, lives: PhantomData }
    }

    #[inline(always)]
    pub(super) fn key(self) -> &'g K {
        // SAFETY: written by `create_node`, unchanged since (M3), alive for 'g (M2).
        unsafe {
            let at = self.at.add(Parts::<K, V>::KEY);
            if const { key_in_place::<K>() } {
                at.cast::<K>().as_ref()
            } else {
                &*at.cast::<*const K>().read()
            }
        }
    }

    /// What the node keeps of the key, if it keeps anything.
    #[inline(always)]
    pub(super) fn window(self) -> Window {
        if !K::KEEPS_PREFIX {
            return Window(0);
        }
        // Relaxed: each one that was ever stored shows the key.
        Window(self.window_word().load(Relaxed))
    }

    #[inline(always)]
    fn window_word(self) -> &'g AtomicU32 {
        debug_assert!(K::KEEPS_PREFIX);
        // SAFETY: inside a node of keys that keep a prefix (`Parts`), aligned to 4, an atomic (M3), and alive for 'g (M2).
        unsafe { self.at.add(Parts::<K, V>::WINDOW).cast().as_ref() }
    }

    /// Lets the window begin elsewhere.
    #[inline]
    pub(super) fn move_window(self, from: usize) {
        if K::KEEPS_PREFIX {
            let window = Window::new(from, |at| self.key().word(at));
            // Relaxed: as above.
            self.window_word().store(window.0, Relaxed);
        }
    }

    #[inline(always)]
    fn slot(self) -> Slot<V> {
        Slot { at: self.at.as_ptr(), values: PhantomData }
    }

    /// The value in the node.
    #[inline(always)]
    pub(super) fn value(self) -> Read<'g, V> {
        // SAFETY: filled by `create_node`, unchanged since (M3), alive for 'g (M2, M4).
        unsafe { Read::new(self.slot().word()) }
    }

    /// What is to become of the value in the node once nobody is to find it any more.
    pub(super) fn value_garbage(self) -> Option<Boxed<V>> {
        let boxed = const { matches!(form::<V>(), Form::Boxed) };
        // SAFETY: as in `value`.
        boxed.then(|| unsafe { Boxed::new(self.slot().word()) })
    }

    /// Asks for what is behind the node's own lines: of the key, and of the value if it is in a box.
    #[inline]
    pub(super) fn ask_behind(self) {
        if K::KEEPS_PREFIX {
            self.key().ask();
        }
        if const { matches!(form::<V>(), Form::Boxed) } {
            // SAFETY: as in `value`.
            arch::prefetch(unsafe { self.slot().word() }.cast::<u8>());
        }
    }
}

/// A version of a value, or a tombstone.
#[derive(Debug)]
pub(super) struct Version<'g, V> {
    at: NonNull<u8>,
    unit: Unit,
    lives: PhantomData<&'g V>,
}

impl<V> Clone for Version<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Version<'_, V> {}

impl<'g, V> Version<'g, V> {
    #[inline]
    pub(super) fn unit(self) -> Unit {
        self.unit
    }

    #[inline(always)]
    fn word(self, at: usize) -> &'g AtomicU64 {
        debug_assert!(matches!(at, BEGIN | END | FIRST));
        // SAFETY: one of three words inside the version, aligned, an atomic (M3), and alive for 'g (M2).
        unsafe { self.at.add(at).cast().as_ref() }
    }

    /// When it began; 0 if that is to be decided.
    #[inline(always)]
    pub(super) fn begin(self) -> &'g AtomicU64 {
        self.word(BEGIN)
    }

    /// When it was removed; 0 if it was not, or that is to be decided.
    #[inline(always)]
    pub(super) fn end(self) -> &'g AtomicU64 {
        self.word(END)
    }

    /// About the value in the node; of use where this is the last version before that one.
    #[inline]
    pub(super) fn first(self) -> First {
        // Relaxed: written before the version was published.
        First::of(self.word(FIRST).load(Relaxed))
    }

    #[inline(always)]
    fn older_word(self) -> &'g AtomicU32 {
        // SAFETY: as in `word`.
        unsafe { self.at.add(OLDER).cast().as_ref() }
    }

    #[inline]
    pub(super) fn older(self) -> Older {
        // ORDER: Acquire, pairs with the Release store in `set_older`: the version it names is filled (M1).
        Older::of(self.older_word().load(Acquire))
    }

    /// Replaces what comes before this version. The caller has the node's `PRUNING` flag, or has not published the version.
    #[inline]
    pub(super) fn set_older(self, older: Older) {
        // ORDER: Release, pairs with `older`.
        self.older_word().store(older.word(), Release);
    }

    /// Whether it has no value.
    #[inline(always)]
    pub(super) fn is_tombstone(self) -> bool {
        // SAFETY: written by `create_version`, unchanged since (M3).
        unsafe { self.at.add(KIND).cast::<u32>().read() != 0 }
    }

    #[inline(always)]
    fn slot(self) -> Slot<V> {
        Slot { at: self.at.as_ptr().wrapping_add(VALUE), values: PhantomData }
    }

    /// The value; not of a tombstone.
    #[inline(always)]
    pub(super) fn value(self) -> Read<'g, V> {
        debug_assert!(!self.is_tombstone());
        // SAFETY: not a tombstone, so filled by `create_version`; unchanged since (M3), alive for 'g (M2).
        unsafe { Read::new(self.slot().word()) }
    }

    /// Says what is before it, of a version that is not published.
    #[inline]
    pub(super) fn put_before(self, older: Older, first: First) {
        // Relaxed: published with the version.
        self.word(FIRST).store(first.word(), Relaxed);
        self.set_older(older);
    }
}

/// Something that readers may find, and that is replaced as a whole.
#[derive(Debug)]
pub(super) struct Posted<T>(AtomicPtr<T>);

impl<T> Posted<T> {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }

    #[inline(always)]
    pub(super) fn get<'g>(&self, _pinned: &'g Guard) -> Option<&'g T> {
        // ORDER: Acquire, pairs with the Release store in `replace`.
        let posted = self.0.load(Acquire);
        // SAFETY: null, or what was current after the guard was made and is retired when it is replaced.
        unsafe { posted.as_ref() }
    }

    /// Posts something else and returns what was there, which readers may still have. The caller excludes others who do.
    pub(super) fn replace(&self, new: Option<Box<T>>) -> Option<Box<T>> {
        // Relaxed: nobody else stores here.
        let old = self.0.load(Relaxed);
        // ORDER: Release, pairs with `get`.
        self.0.store(new.map_or(core::ptr::null_mut(), Box::into_raw), Release);
        // SAFETY: not null, so it came from `Box::into_raw`, and it is taken back once, here.
        NonNull::new(old).map(|old| unsafe { Box::from_raw(old.as_ptr()) })
    }
}

impl<T> Drop for Posted<T> {
    fn drop(&mut self) {
        drop(self.replace(None));
    }
}

/// The memory of a map's nodes and versions.
pub(super) struct Memory<K, V> {
    nodes: Nodes,
    versions: Records,
    types: PhantomData<(K, V)>,
}

// SAFETY: it holds keys and values that threads drop and take, and refer to, as the bounds say.
unsafe impl<K: Send, V: Send> Send for Memory<K, V> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, V: Send + Sync> Sync for Memory<K, V> {}

impl<K, V> Memory<K, V> {
    pub(super) const fn new() -> Self {
        Self { nodes: Nodes::new(), versions: Records::new(), types: PhantomData }
    }

    /// Bytes of nodes, those that were handed out.
    pub(super) fn used_bytes(&self) -> usize {
        self.nodes.used_bytes()
    }

    /// Bytes that nodes and versions take in memory.
    pub(super) fn resident_bytes(&self) -> usize {
        self.nodes.resident_bytes() + self.versions.resident_bytes()
    }
}

impl<K: SkipKey, V> Memory<K, V> {
    /// The node that a link names.
    #[inline(always)]
    pub(super) fn node(&self, unit: Unit) -> Node<'_, K, V> {
        let at = self.nodes.at(unit.get().into());
        debug_assert!(!at.is_null());
        // SAFETY: the unit was handed out (M1), so it has an address.
        Node { at: unsafe { NonNull::new_unchecked(at) }, unit, lives: PhantomData }
    }

    /// The version that a state or a version names.
    #[inline]
    pub(super) fn version(&self, unit: Unit) -> Version<'_, V> {
        let at = self.versions.at(unit.get().into());
        debug_assert!(!at.is_null());
        // SAFETY: as above.
        Version { at: unsafe { NonNull::new_unchecked(at) }, unit, lives: PhantomData }
    }

    /// Asks for the lines of a node that a scan reads, or a search that ends there.
    #[inline(always)]
    pub(super) fn ask(&self, unit: Unit) {
        self.ask_link(Link::to(Some(unit)));
    }

    /// As [`ask`](Self::ask), of the node that a link without a mark leads to; that of an end asks for nothing of use.
    #[inline(always)]
    pub(super) fn ask_link(&self, link: Link) {
        let at = self.nodes.at(link.0.into());
        // From the value to the first links; one line, mostly.
        arch::prefetch(at);
        if const { Parts::<K, V>::STATE >= LINE_BYTES } {
            arch::prefetch(at.wrapping_add(Parts::<K, V>::STATE));
        }
        arch::prefetch(at.wrapping_add(Parts::<K, V>::TOWER + 4));
    }

    /// Asks for the line of a node that a search compares.
    #[inline(always)]
    pub(super) fn ask_key(&self, unit: Unit) {
        let at = self.nodes.at(unit.get().into());
        arch::prefetch(at.wrapping_add(if K::KEEPS_PREFIX {
            Parts::<K, V>::WINDOW
        } else {
            Parts::<K, V>::KEY
        }));
    }

    /// The same of the node that a link leads to, one of many; that of an end asks for nothing of use.
    #[inline(always)]
    pub(super) fn ask_key_of(&self, link: Link) {
        debug_assert!(!K::KEEPS_PREFIX && !link.is_marked());
        arch::prefetch_many(self.nodes.at(link.0.into()).wrapping_add(Parts::<K, V>::KEY));
    }

    /// Asks for what stands before the key of a node.
    #[inline(always)]
    pub(super) fn ask_value(&self, unit: Unit) {
        arch::prefetch(self.nodes.at(unit.get().into()));
    }

    /// Asks for the lines of the key and the link on a level of a node.
    #[inline]
    pub(super) fn ask_tall(&self, unit: Unit, level: usize) {
        self.ask_key(unit);
        let at = self.nodes.at(unit.get().into());
        arch::prefetch(at.wrapping_add(Parts::<K, V>::TOWER + level * size_of::<u32>()));
    }

    /// Asks for the line of a version.
    #[inline]
    pub(super) fn ask_version(&self, unit: Unit) {
        arch::prefetch(self.versions.at(unit.get().into()));
    }

    /// How many units a node of a height takes.
    #[inline]
    pub(super) fn node_units(height: usize) -> u64 {
        Parts::<K, V>::units(height)
    }

    /// Makes a node of a height that is not published; its links are ends. `window` is of the key, if nodes keep one.
    ///
    /// # Errors
    ///
    /// Key and value, if there is no memory.
    pub(super) fn create_node(
        &self,
        pieces: &mut Pieces,
        height: usize,
        window: Window,
        key: K,
        value: V,
    ) -> Result<Node<'_, K, V>, (AllocError, K, V)> {
        let units = Parts::<K, V>::units(height);
        let is_good = |unit| Parts::<K, V>::is_good(unit, height);
        let unit = match pieces.take(&self.nodes, units, is_good) {
            Ok(unit) => unit,
            Err(error) => return Err((error, key, value)),
        };
        let key = match StoredKey::new(key) {
            Ok(key) => key,
            Err((error, key)) => {
                pieces.put(unit, units);
                return Err((error, key, value));
            }
        };
        let node = self.node(unit);
        // SAFETY: the piece is fresh (H1) and has room for all parts (`units`), each of which is aligned to 8, window and
        // links to 4. Nobody else knows it.
        unsafe {
            if let Err((error, value)) = node.slot().fill(value) {
                pieces.put(unit, units);
                return Err((error, key.take(), value));
            }
            let at = node.at;
            if K::KEEPS_PREFIX {
                at.add(Parts::<K, V>::WINDOW).cast().write(AtomicU32::new(window.0));
            }
            let place = at.add(Parts::<K, V>::KEY);
            match key {
                StoredKey::InPlace(key) => place.cast::<K>().write(key),
                StoredKey::Apart(word) => place.cast::<*mut K>().write(word.cast()),
            }
            at.add(Parts::<K, V>::STATE)
                .cast::<AtomicU64>()
                .write(AtomicU64::new(State::new(height).0));
            let tower = at.add(Parts::<K, V>::TOWER).cast::<AtomicU32>();
            for level in 0..height {
                tower.add(level).write(AtomicU32::new(Link::END.0));
            }
        }
        Ok(node)
    }

    /// Makes a version that is not published, or a tombstone if there is no value.
    ///
    /// # Errors
    ///
    /// The value, if there is no memory.
    pub(super) fn create_version(
        &self,
        heap: &mut heap::Shard,
        value: Option<V>,
    ) -> Result<Version<'_, V>, (AllocError, Option<V>)> {
        let units = version_units::<V>();
        let unit = match self.allocate(heap, units) {
            Ok(unit) => unit,
            Err(error) => return Err((error, value)),
        };
        let version = self.version(unit);
        let tombstone = value.is_none();
        // SAFETY: the piece is fresh (H1) and has room for all parts (`version_units`), each of which is aligned.
        unsafe {
            if let Some(value) = value
                && let Err((error, value)) = version.slot().fill(value)
            {
                heap.free(&self.versions, unit.get().into(), units);
                return Err((error, Some(value)));
            }
            for at in [BEGIN, END, FIRST] {
                version.at.add(at).cast::<AtomicU64>().write(AtomicU64::new(0));
            }
            version.at.add(OLDER).cast::<AtomicU32>().write(AtomicU32::new(0));
            version.at.add(KIND).cast::<u32>().write(tombstone.into());
        }
        Ok(version)
    }

    fn allocate(&self, heap: &mut heap::Shard, units: u64) -> Result<Unit, AllocError> {
        let unit = heap.allocate(&self.versions, units)?;
        Unit::new(unit).ok_or(AllocError { bytes: units as usize * Records::UNIT_BYTES })
    }

    /// Takes key and value out of a node that was never published, or that nobody knows any more; `None` for a value that
    /// is no longer there. What `free_node` gives back then is the node's memory.
    pub(super) fn empty_node(&self, unit: Unit, has_value: bool) -> (K, Option<V>) {
        let node = self.node(unit);
        // SAFETY: the caller has the node for itself, and empties it once.
        unsafe {
            let at = node.at.add(Parts::<K, V>::KEY);
            let key = if const { key_in_place::<K>() } {
                at.cast::<K>().read()
            } else {
                *Box::from_raw(at.cast::<*mut K>().read())
            };
            (key, has_value.then(|| node.slot().take()))
        }
    }

    /// Takes the value out of a version that was never published, or that nobody knows any more.
    pub(super) fn empty_version(&self, unit: Unit) -> Option<V> {
        let version = self.version(unit);
        // SAFETY: the caller has the version for itself, and empties it once.
        (!version.is_tombstone()).then(|| unsafe { version.slot().take() })
    }

    /// Gives back the memory of an empty node.
    pub(super) fn free_node(&self, pieces: &mut Pieces, unit: Unit) {
        pieces.put(unit, Parts::<K, V>::units(self.node(unit).state().height()));
    }

    /// Gives back the memory of an empty version.
    pub(super) fn free_version(&self, heap: &mut heap::Shard, unit: Unit) {
        heap.free(&self.versions, unit.get().into(), version_units::<V>());
    }

    /// Whether dropping keys or values does anything.
    pub(super) const fn drops() -> bool {
        needs_drop::<K>()
            || needs_drop::<V>()
            || !key_in_place::<K>()
            || matches!(form::<V>(), Form::Boxed)
    }

    /// Bytes of the box of a value; 0 if it has none.
    pub(super) const fn box_bytes() -> usize {
        if matches!(form::<V>(), Form::Boxed) { size_of::<V>() } else { 0 }
    }
}
