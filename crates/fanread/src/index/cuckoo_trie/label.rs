//! Symbols, and what nodes say in them: children, labels, and branches, which are both.
//!
//! ```text
//! children  a bit for each of 64, and END
//! label     one to ten symbols                      | how many: 1 .. 10
//! branch    one to seven symbols, and the children behind them, nine in all | how many of each | 15
//! ```
//!
//! A branch is what a jump and a regular node would be, in one node: of the forks of long keys most have two children.
//!
//! PAPER: section 4.2 has jumps and regular nodes. Branches are not there.

use super::layout::{LABEL_SYMBOLS, Node, SYMBOL_BITS};

/// Six bits of a key, or its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Symbol(pub(super) u8);

impl Symbol {
    /// The end of a key; before all other symbols in order.
    pub(super) const END: Self = Self(64);

    #[inline(always)]
    pub(super) fn is_end(self) -> bool {
        self.0 >= 64
    }

    /// Its place among all symbols: 0 for END.
    #[inline(always)]
    pub(super) fn rank(self) -> u32 {
        if self.is_end() { 0 } else { u32::from(self.0) + 1 }
    }
}

/// The children of a regular node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Children {
    /// Bit `i` for symbol `i`.
    pub(super) bits: u64,
    /// Whether END is one of them.
    pub(super) end: bool,
}

impl Children {
    /// These two children.
    pub(super) fn pair(a: Symbol, b: Symbol) -> Self {
        Self::default().with(a).with(b)
    }

    #[inline(always)]
    pub(super) fn has(self, symbol: Symbol) -> bool {
        if symbol.is_end() { self.end } else { self.bits >> symbol.0 & 1 != 0 }
    }

    /// The same with one more.
    #[inline]
    pub(super) fn with(self, symbol: Symbol) -> Self {
        if symbol.is_end() {
            Self { end: true, ..self }
        } else {
            Self { bits: self.bits | 1 << symbol.0, ..self }
        }
    }

    /// The same without `symbol`.
    #[inline]
    pub(super) fn without(self, symbol: Symbol) -> Self {
        if symbol.is_end() {
            Self { end: false, ..self }
        } else {
            Self { bits: self.bits & !(1 << symbol.0), ..self }
        }
    }

    #[inline]
    pub(super) fn len(self) -> u32 {
        self.bits.count_ones() + u32::from(self.end)
    }

    /// The one child, if there is no other.
    pub(super) fn only(self) -> Option<Symbol> {
        (self.len() == 1).then(|| self.first()).flatten()
    }

    #[inline]
    pub(super) fn first(self) -> Option<Symbol> {
        if self.end { Some(Symbol::END) } else { lowest(self.bits) }
    }

    #[inline]
    pub(super) fn last(self) -> Option<Symbol> {
        highest(self.bits).or_else(|| self.end.then_some(Symbol::END))
    }

    /// The first child behind `symbol`.
    #[inline]
    #[cfg(test)]
    pub(super) fn after(self, symbol: Symbol) -> Option<Symbol> {
        self.behind(symbol).first()
    }

    /// The last child before `symbol`.
    #[inline]
    #[cfg(test)]
    pub(super) fn before(self, symbol: Symbol) -> Option<Symbol> {
        self.ahead_of(symbol).last()
    }

    /// The children behind `symbol`.
    #[inline]
    pub(super) fn behind(self, symbol: Symbol) -> Self {
        let bits = if symbol.is_end() {
            self.bits
        } else {
            self.bits & (!1_u64).wrapping_shl(symbol.0.into())
        };
        Self { bits, end: false }
    }

    /// The children up to `symbol`.
    #[inline]
    pub(super) fn up_to(self, symbol: Symbol) -> Self {
        if symbol.is_end() {
            return Self { bits: 0, ..self };
        }
        Self { bits: self.bits & (u64::MAX >> (63 - symbol.0)), ..self }
    }

    /// The children before `symbol`.
    #[inline]
    pub(super) fn ahead_of(self, symbol: Symbol) -> Self {
        if symbol.is_end() {
            return Self::default();
        }
        Self { bits: self.bits & ((1 << symbol.0) - 1), ..self }
    }
}

impl IntoIterator for Children {
    type Item = Symbol;
    type IntoIter = InOrder;

    #[inline]
    fn into_iter(self) -> InOrder {
        InOrder(self)
    }
}

/// Children in order, from either end.
#[derive(Clone, Debug)]
pub(super) struct InOrder(Children);

impl Iterator for InOrder {
    type Item = Symbol;

    #[inline]
    fn next(&mut self) -> Option<Symbol> {
        let first = self.0.first()?;
        self.0 = self.0.without(first);
        Some(first)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.0.len() as usize;
        (len, Some(len))
    }
}

impl DoubleEndedIterator for InOrder {
    #[inline]
    fn next_back(&mut self) -> Option<Symbol> {
        let last = self.0.last()?;
        self.0 = self.0.without(last);
        Some(last)
    }
}

#[inline(always)]
fn lowest(bits: u64) -> Option<Symbol> {
    (bits != 0).then(|| Symbol(bits.trailing_zeros() as u8))
}

#[inline(always)]
fn highest(bits: u64) -> Option<Symbol> {
    bits.checked_ilog2().map(|bit| Symbol(bit as u8))
}

/// One to ten symbols, none of them END.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Label(pub(super) u64);

impl Label {
    pub(super) const COUNT_MASK: u64 = 0xf;

    /// The first `count` symbols of `window`, which has them on top.
    #[inline(always)]
    pub(super) fn new(window: u64, count: usize) -> Self {
        debug_assert!((1..=LABEL_SYMBOLS).contains(&count));
        Self(window & (!0 << (64 - SYMBOL_BITS * count as u32)) | count as u64)
    }

    /// These symbols.
    pub(super) fn of(symbols: &[Symbol]) -> Self {
        let window = symbols.iter().rev().fold(0, |window, symbol| {
            debug_assert!(!symbol.is_end());
            window >> SYMBOL_BITS | u64::from(symbol.0) << (64 - SYMBOL_BITS)
        });
        Self::new(window, symbols.len())
    }

    #[inline(always)]
    pub(super) fn len(self) -> usize {
        (self.0 & Self::COUNT_MASK) as usize
    }

    /// The symbols, the first on top, zeros behind them.
    #[inline(always)]
    pub(super) fn window(self) -> u64 {
        self.0 & !Self::COUNT_MASK
    }

    /// Symbol `i`. A walk that has yet to find that a writer was there may see a count of more symbols than a label has: then it
    /// is any symbol.
    #[inline(always)]
    pub(super) fn symbol(self, i: usize) -> Symbol {
        debug_assert!(i < self.len());
        Symbol((self.0.wrapping_shl(SYMBOL_BITS * i as u32) >> (64 - SYMBOL_BITS)) as u8)
    }

    /// The symbols in order.
    pub(super) fn symbols(self) -> impl DoubleEndedIterator<Item = Symbol> {
        (0..self.len()).map(move |i| self.symbol(i))
    }

    /// How many symbols at the start are those of `window`, of which `count` are symbols.
    #[inline(always)]
    pub(super) fn matched(self, window: u64, count: usize) -> usize {
        let same = (self.0 ^ window).leading_zeros() / SYMBOL_BITS;
        (same as usize).min(self.len()).min(count)
    }

    /// The first `count` symbols.
    #[cfg(test)]
    pub(super) fn start(self, count: usize) -> Option<Self> {
        debug_assert!(count <= self.len());
        (count > 0).then(|| Self::new(self.0, count))
    }

    /// The symbols from `from` on.
    pub(super) fn rest(self, from: usize) -> Option<Self> {
        let count = self.len().checked_sub(from).filter(|count| *count > 0)?;
        Some(Self::new(self.window() << (SYMBOL_BITS * from as u32), count))
    }

    /// This label and another behind it, if both fit into one.
    pub(super) fn joined(self, behind: Self) -> Option<Self> {
        let count = self.len() + behind.len();
        let window =
            self.window() | behind.window().checked_shr(SYMBOL_BITS * self.len() as u32)?;
        (count <= LABEL_SYMBOLS).then(|| Self::new(window, count))
    }
}

/// One to seven symbols, and up to eight children behind them in order; nine symbols at most, none of them END.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Branch(pub(super) u64);

impl Branch {
    pub(super) const MARK: u64 = 15;

    /// Symbols of both sorts.
    const SYMBOLS: usize = 9;

    /// How many there are of each, the children less one.
    const LEN_AT: u32 = 7;
    const MORE_AT: u32 = 4;
    const MOST: u64 = 7;

    /// How many symbols before these children are part of the same node, of a row of so many: the others are jumps.
    #[inline]
    pub(super) fn symbols(row: usize, children: Children) -> usize {
        if children.end { 0 } else { Self::symbols_before(row, children.len() as usize) }
    }

    /// The same for so many children, none of which is END.
    #[inline]
    pub(super) fn symbols_before(row: usize, count: usize) -> usize {
        let room = Self::SYMBOLS.saturating_sub(count).min(Self::MOST as usize);
        let symbols = row % LABEL_SYMBOLS;
        if count <= Self::MOST as usize + 1 && symbols <= room { symbols } else { 0 }
    }

    /// This label and these children behind it, if they fit into one node.
    pub(super) fn new(label: Label, children: Children) -> Option<Self> {
        let len = label.len();
        if len >= LABEL_SYMBOLS || Self::symbols(len, children) != len {
            return None;
        }
        let (mut symbols, mut at) = (label.window(), len as u32);
        for symbol in children {
            symbols |= u64::from(symbol.0) << (64 - SYMBOL_BITS) >> (SYMBOL_BITS * at);
            at += 1;
        }
        let more = u64::from(children.len()) - 1;
        Some(Self(symbols | (len as u64) << Self::LEN_AT | more << Self::MORE_AT | Self::MARK))
    }

    /// The node of this label and these children, with a label of no symbols or more.
    pub(super) fn behind(label: Option<Label>, children: Children) -> Option<Node> {
        match label {
            Some(label) => Self::new(label, children).map(Node::Branch),
            None => Some(Node::Regular(children)),
        }
    }

    /// Symbols of the label.
    #[inline(always)]
    pub(super) fn len(self) -> usize {
        (self.0 >> Self::LEN_AT & Self::MOST) as usize
    }

    /// How many children there are.
    #[inline(always)]
    fn count(self) -> u32 {
        (self.0 >> Self::MORE_AT & Self::MOST) as u32 + 1
    }

    /// The label.
    #[inline(always)]
    pub(super) fn label(self) -> Label {
        let len = self.len();
        Label(self.0 & !(u64::MAX >> (SYMBOL_BITS * len as u32)) | len as u64)
    }

    /// The children. A walk that has yet to find that a writer was there may see more symbols than there are: then they are any.
    #[inline(always)]
    pub(super) fn children(self) -> Children {
        let mut symbols = self.0 << (SYMBOL_BITS * self.len() as u32);
        let mut bits = 0;
        for _ in 0..self.count() {
            bits |= 1 << (symbols >> (64 - SYMBOL_BITS));
            symbols <<= SYMBOL_BITS;
        }
        Children { bits, end: false }
    }

    /// Whether this is one of the children.
    #[inline(always)]
    pub(super) fn has(self, symbol: Symbol) -> bool {
        // A bit for each of the symbols that are on top of the word.
        const ONES: u64 = 0x0410_4104_1041_0410 & !0x3ff;
        const HIGHS: u64 = ONES << (SYMBOL_BITS - 1);
        if symbol.is_end() {
            return false;
        }
        let other = (self.0 & !0x3ff) ^ (ONES * u64::from(symbol.0));
        // The highest bit of each that differs: from the lower ones by a carry, or there before.
        let differs = ((other & !HIGHS) + (HIGHS - ONES)) | other;
        let from = u64::MAX >> (SYMBOL_BITS * self.len() as u32);
        let to = u64::MAX.checked_shr(SYMBOL_BITS * (self.len() as u32 + self.count()));
        !differs & HIGHS & from & !to.unwrap_or(0) != 0
    }

    /// The same label before some of the children.
    pub(super) fn with(self, fewer: Children) -> Self {
        Self::new(self.label(), fewer).expect("fewer children fit too")
    }

    /// The same children behind the symbols from `from` on.
    pub(super) fn rest(self, from: usize) -> Node {
        let rest = Self::behind(self.label().rest(from), self.children());
        rest.expect("a shorter label fits too")
    }
}
