//! The bytes of a node and of a version, and the words in them.
//!
//! ```text
//! node     | value | state | key | window | link 0 | link 1 | ... |       in units of 8 bytes
//! version  | begin | end | first | older, kind | value |
//! ```
//!
//! * `value`: a value of at most 8 bytes that needs no dropping, as a word; a larger one that needs none, as it is; of any
//!   other type the address of a box. Absent for values without bytes.
//! * `key`: the key, or the address of a box if it is large.
//! * `window`: 4 bytes, only for keys whose bytes are elsewhere: three of them, and where they begin.
//! * `link`: 4 bytes each, as many as the tower is high; the first ones share the line of the key.
//!
//! ```text
//! window   bytes of the key (24) | where they begin (8)
//! link     unit of the next node (31 bits) | is this node removed from this level (1)
//! state    height (5) | built | swept | pruning | pending | dead | off (5) | kind (2) | stamp or link (47)
//! ```
//!
//! | kind | the newest version is | in the rest of the word |
//! | --- | --- | --- |
//! | `Inline` | the value in the node | when it began |
//! | `InlineGone` | that it is removed | when it ended |
//! | `Chain` | a version of its own, maybe a tombstone | its unit |
//! | `ChainGone` | that it is removed; when, is in the version before | the unit of that one |
//!
//! A stamp of 0 stands for one that is still to be taken (`versions.rs`).

use core::cmp::Ordering;

/// Levels of a tower, at most. Nodes have two units and more, three with keys of eight bytes, so there are at most 2^30, and half
/// of those of a level are on the next one.
pub(super) const LEVELS: usize = if cfg!(any(shuttle, miri)) { 4 } else { 28 };

/// The mark in a link: its node is removed from this level, and the link never changes again.
const MARK: u32 = 1 << 31;

/// A piece of the map's memory: a node or a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unit(core::num::NonZeroU32);

impl Unit {
    /// Names a unit of the arena; `None` if there are no names left for it.
    #[inline]
    pub(super) fn new(unit: u64) -> Option<Self> {
        let unit = u32::try_from(unit).ok().filter(|unit| unit & MARK == 0)?;
        core::num::NonZeroU32::new(unit).map(Self)
    }

    #[inline(always)]
    pub(super) fn get(self) -> u32 {
        self.0.get()
    }
}

/// What stands in a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Link(pub(super) u32);

impl Link {
    pub(super) const END: Self = Self(0);

    #[inline(always)]
    pub(super) fn to(unit: Option<Unit>) -> Self {
        Self(unit.map_or(0, Unit::get))
    }

    #[inline(always)]
    pub(super) fn is_marked(self) -> bool {
        self.0 & MARK != 0
    }

    #[inline(always)]
    pub(super) fn marked(self) -> Self {
        Self(self.0 | MARK)
    }

    /// The next node, whether the link is marked or not.
    #[inline(always)]
    pub(super) fn unit(self) -> Option<Unit> {
        core::num::NonZeroU32::new(self.0 & !MARK).map(Unit)
    }

    #[inline(always)]
    pub(super) fn unmarked(self) -> Self {
        Self(self.0 & !MARK)
    }
}

/// What a node keeps of a key whose bytes are elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window(pub(super) u32);

impl Window {
    const BYTES: usize = 3;

    /// The window that begins at `from`, or where the last one does that can be named.
    #[inline(always)]
    pub(super) fn new(from: usize, word: impl Fn(usize) -> u64) -> Self {
        let from = from.min(0xff);
        Self((word(from) >> 40) as u32 * 0x100 + from as u32)
    }

    /// Where it begins.
    #[inline(always)]
    pub(super) fn from(self) -> usize {
        (self.0 & 0xff) as usize
    }

    /// How its bytes compare with the first ones of a word, and how many are the same.
    #[inline(always)]
    pub(super) fn compare(self, word: u64) -> (Ordering, usize) {
        let (own, other) = (self.0 >> 8, (word >> 40) as u32);
        let same = ((own ^ other) << 8).leading_zeros() as usize / 8;
        (own.cmp(&other), same.min(Self::BYTES))
    }
}

/// What stands in the link of a version to the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Older {
    /// There is none, or nobody needs it.
    Nothing,
    /// The value in the node.
    Inline,
    /// A version.
    Version(Unit),
}

impl Older {
    #[inline]
    pub(super) fn word(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Inline => MARK,
            Self::Version(unit) => unit.get(),
        }
    }

    #[inline]
    pub(super) fn of(word: u32) -> Self {
        if word == MARK {
            return Self::Inline;
        }
        Link(word).unit().map_or(Self::Nothing, Self::Version)
    }
}

/// When a write took place: the number of snapshots before it. 0 if that is still to be decided.
pub(super) type Stamp = u64;

/// The largest stamp: a map that makes a million snapshots a second gets there after four years.
pub(super) const LAST_STAMP: Stamp = (1 << (64 - REST)) - 1;

const HEIGHT: u64 = 31;
/// The node is on all its levels, or its maker has given up: he will not link it any more.
pub(super) const BUILT: u64 = 1 << 5;
/// Who took the node out has done so.
pub(super) const SWEPT: u64 = 1 << 6;
/// Somebody is taking versions out of the chain.
pub(super) const PRUNING: u64 = 1 << 7;
/// The node is on a list of those to look at when a snapshot goes.
pub(super) const PENDING: u64 = 1 << 8;
/// The node is to be taken out; it holds no value for anybody, and never will.
pub(super) const DEAD: u64 = 1 << 9;
/// Where the count is of levels that the node is off for good, with one more for its remover.
const OFF: u32 = 10;
const KIND: u32 = 15;
const REST: u32 = 17;
/// The bit of the kinds of which the rest is a unit.
const CHAIN: u64 = 2 << KIND;

const _: () = assert!(
    (LEVELS as u64) < HEIGHT,
    "and the count of levels that a node is off goes one further"
);
const _: () = assert!(64 - REST >= 32, "the rest holds a unit");

/// What the newest version of a key is; see the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Newest {
    /// The value in the node, which began then.
    Inline(Stamp),
    /// Removed then, and the value before was the one in the node.
    InlineGone(Stamp),
    /// This version.
    Chain(Unit),
    /// Removed, when `end` of this version says.
    ChainGone(Unit),
}

/// The state of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct State(pub(super) u64);

impl core::fmt::Debug for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?} flags {:#x} height {}", self.newest(), self.0 >> 5 & 31, self.height())
    }
}

impl State {
    /// The state of a new node whose value has no stamp yet.
    #[inline]
    pub(super) fn new(height: usize) -> Self {
        debug_assert!((1..=LEVELS).contains(&height));
        Self(height as u64 | if height == 1 { BUILT } else { 0 })
    }

    #[inline(always)]
    pub(super) fn height(self) -> usize {
        (self.0 & HEIGHT) as usize
    }

    /// How many levels the node is off; one more if its remover has done his part.
    #[inline]
    pub(super) fn off(self) -> usize {
        (self.0 >> OFF & HEIGHT) as usize
    }

    /// The state with more of these.
    #[inline]
    pub(super) fn with_off(self, more: usize) -> Self {
        debug_assert!(self.off() + more <= self.height() + 1);
        Self(self.0 + ((more as u64) << OFF))
    }

    /// Whether the node has been linked on the level above one, and is there unless its link says otherwise.
    #[inline(always)]
    pub(super) fn is_linked_above(self, level: usize) -> bool {
        self.has(BUILT) && self.height() > level + 1
    }

    #[inline(always)]
    pub(super) fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    #[inline(always)]
    pub(super) fn newest(self) -> Newest {
        let rest = self.0 >> REST;
        let unit = || Unit::new(rest).expect("a chain begins with a version");
        match self.0 >> KIND & 3 {
            0 => Newest::Inline(rest),
            1 => Newest::InlineGone(rest),
            2 => Newest::Chain(unit()),
            _ => Newest::ChainGone(unit()),
        }
    }

    /// Whether the newest version is the value in the node, and its stamp is decided.
    #[inline(always)]
    pub(super) fn is_plain(self) -> bool {
        self.0 & 3 << KIND == 0 && self.0 >> REST != 0
    }

    /// The version that the chain begins with, if there is one.
    #[inline(always)]
    pub(super) fn chain(self) -> Option<Unit> {
        if self.has(CHAIN) { Unit::new(self.0 >> REST) } else { None }
    }

    /// The same flags with another newest version.
    #[inline(always)]
    pub(super) fn with(self, newest: Newest) -> Self {
        let flags = self.0 & ((1 << KIND) - 1);
        let (kind, rest) = match newest {
            Newest::Inline(stamp) => (0, stamp),
            Newest::InlineGone(stamp) => (1, stamp),
            Newest::Chain(unit) => (2, unit.get().into()),
            Newest::ChainGone(unit) => (3, unit.get().into()),
        };
        debug_assert!(rest <= LAST_STAMP);
        Self(flags | kind << KIND | rest << REST)
    }
}

/// What `first` of a version says of the value in the node: when it began, or, if it was removed before the oldest version
/// came, when it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum First {
    Began(Stamp),
    Ended(Stamp),
}

impl First {
    #[inline]
    pub(super) fn word(self) -> u64 {
        match self {
            Self::Began(stamp) => stamp << 1,
            Self::Ended(stamp) => stamp << 1 | 1,
        }
    }

    #[inline]
    pub(super) fn of(word: u64) -> Self {
        if word & 1 == 0 { Self::Began(word >> 1) } else { Self::Ended(word >> 1) }
    }
}
