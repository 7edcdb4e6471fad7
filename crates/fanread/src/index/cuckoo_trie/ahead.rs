//! The names along a key's path, and the lines of those ahead, for a walk that begins at a bound.
//!
//! Unlike a search, which keeps what it has asked for (`descend.rs`), a walk reads each node from its state: it has few to read.
//!
//! PAPER: section 4.3, as for searches.

use super::descend::{ROW, ROW_BEGINS, WIDTH};
use super::layout::LABEL_SYMBOLS;
use super::state::{State, Symbols};
use super::walk::Ground;

const _: () = assert!(WIDTH < LABEL_SYMBOLS, "a row begins behind all that was asked for");

/// The path of a key.
pub(super) struct Ahead<'k> {
    pub(super) symbols: Symbols<'k>,
    /// Levels below `known` have been asked for; `next` is the state of that level.
    known: usize,
    next: State,
    states: [State; WIDTH],
    /// How many jumps as long as can be, one behind the other, led to which level.
    led: (usize, usize),
    /// Along a row of such jumps: where it began, the last level that was asked for, and the states from the one that is read on.
    row: (usize, usize),
    jumps: [State; ROW],
}

impl<'k> Ahead<'k> {
    pub(super) fn new(ground: &Ground<'_>, key: &'k [u8]) -> Self {
        let symbols = Symbols::new(key, ground.trie.skip_bits());
        let next = ground.root();
        let (states, jumps) = ([next; WIDTH], [next; ROW]);
        Self { symbols, known: 0, next, states, led: (0, 0), row: (0, 0), jumps }
    }

    /// Notes that a label of so many symbols led on from a level.
    pub(super) fn pass(&mut self, level: usize, symbols: usize) {
        let before = if self.led.1 == level { self.led.0 } else { 0 };
        let count = if symbols == LABEL_SYMBOLS { before + 1 } else { 0 };
        self.led = (count, level + symbols);
    }

    /// The state of a level that is to be read; asks for it and for those behind it that paths usually have, or that a row of jumps would
    /// have.
    #[inline(always)]
    pub(super) fn ask(&mut self, ground: &Ground<'_>, level: usize) -> State {
        if self.led.0 >= ROW_BEGINS && self.led.1 == level {
            return self.ask_row(ground, level);
        }
        let (trie, levels) = (ground.trie, ground.trie.levels());
        // Behind the last usual level, one more.
        let usual = u64::BITS as usize - levels.leading_zeros() as usize;
        let ahead = if usual > level { usual.min(level + WIDTH) } else { level + 2 };
        while self.known < ahead.min(self.symbols.count() + 2).max(level + 1) {
            let known = self.known;
            if known >= level {
                self.states[known % WIDTH] = self.next;
                if known == level || known >= usual || levels >> known & 1 != 0 {
                    trie.prefetch(trie.home(self.next));
                }
            }
            self.step(ground);
        }
        self.states[level % WIDTH]
    }

    /// The same along a row of jumps, for as long as it may go on.
    #[inline(never)]
    fn ask_row(&mut self, ground: &Ground<'_>, level: usize) -> State {
        let Self { symbols, .. } = *self;
        if self.led.0 == ROW_BEGINS {
            // A label is longer than what was asked for before it.
            while self.known < level {
                self.step(ground);
            }
            self.row = (level, level);
            self.jumps[0] = self.next;
            ground.trie.prefetch(ground.trie.home(self.jumps[0]));
        }
        let (start, last) = &mut self.row;
        let place = |level: usize| (level - *start) / LABEL_SYMBOLS % ROW;
        while *last + LABEL_SYMBOLS <= symbols.count() && *last < level + (ROW - 1) * LABEL_SYMBOLS
        {
            let state = self.jumps[place(*last)];
            let behind = *last + LABEL_SYMBOLS;
            let state = ground.secret.step_along(state, &symbols, *last, behind, |_, _| ());
            ground.trie.prefetch(ground.trie.home(state));
            self.jumps[place(behind)] = state;
            *last = behind;
        }
        // What is behind the row is asked for from here on.
        (self.known, self.next) = (level, self.jumps[place(level)]);
        self.next
    }

    /// Goes on to the next state.
    #[inline(always)]
    fn step(&mut self, ground: &Ground<'_>) {
        self.next = ground.secret.step(self.next, self.symbols.symbol(self.known));
        self.known += 1;
    }
}
