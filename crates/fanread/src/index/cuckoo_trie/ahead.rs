//! The names along a key's path, and the lines of those ahead, for a walk that begins at a bound.
//!
//! Unlike a search, which keeps what it has asked for (`descend.rs`), a walk reads each node from its state: it has few to read.
//!
//! PAPER: section 4.3, as for searches.

use super::descend::{ROW, ROW_BEGINS, WIDTH};
use super::layout::LABEL_SYMBOLS;
use super::state::{State, Symbols};
use super::walk::Ground;

/// Levels whose states are known at a time.
const REACH: usize = ROW * LABEL_SYMBOLS;

/// The path of a key.
pub(super) struct Ahead<'k> {
    pub(super) symbols: Symbols<'k>,
    /// The states of levels below `known` are; `next` is that of this level.
    known: usize,
    next: State,
    states: [State; REACH],
    /// Levels below this have been asked for.
    asked: usize,
    /// How many jumps as long as can be, one behind the other, led to which level.
    row: (usize, usize),
}

impl<'k> Ahead<'k> {
    pub(super) fn new(ground: &Ground<'_>, key: &'k [u8]) -> Self {
        let symbols = Symbols::new(key, ground.trie.skip_bits());
        let next = ground.root();
        Self { symbols, known: 0, next, states: [next; REACH], asked: 0, row: (0, 0) }
    }

    /// Notes that a label of so many symbols led on from a level.
    pub(super) fn pass(&mut self, level: usize, symbols: usize) {
        let before = if self.row.1 == level { self.row.0 } else { 0 };
        let row = if symbols == LABEL_SYMBOLS { before + 1 } else { 0 };
        self.row = (row, level + symbols);
    }

    /// The state of a level that is to be read; asks for it and for those behind it that paths usually have, or that a row of jumps would
    /// have.
    #[inline(always)]
    pub(super) fn ask(&mut self, ground: &Ground<'_>, level: usize) -> State {
        let (trie, levels) = (ground.trie, ground.trie.levels());
        let is_row = self.row.0 >= ROW_BEGINS && self.row.1 == level;
        // Behind the last usual level, one more.
        let usual = u64::BITS as usize - levels.leading_zeros() as usize;
        let ahead = if is_row {
            level + REACH
        } else if usual > level {
            usual.min(level + WIDTH)
        } else {
            level + 2
        };
        let ahead = ahead.min(self.symbols.count() + 2).max(level + 1);
        while self.known < ahead {
            if self.known >= level {
                self.states[self.known % REACH] = self.next;
                if is_row && (self.known - level).is_multiple_of(LABEL_SYMBOLS) {
                    trie.prefetch(trie.home(self.next));
                }
            }
            self.next = ground.secret.step(self.next, self.symbols.symbol(self.known));
            self.known += 1;
        }
        if !is_row {
            for likely in self.asked.max(level)..ahead {
                if likely == level || likely >= usual || levels >> likely & 1 != 0 {
                    trie.prefetch(trie.home(self.states[likely % REACH]));
                }
            }
            self.asked = self.asked.max(ahead);
        }
        self.states[level % REACH]
    }
}
