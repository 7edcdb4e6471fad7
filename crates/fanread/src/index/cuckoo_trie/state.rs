//! Keys as symbols, and the hash of every prefix of them: a *state*, stepped once for each symbol.
//!
//! A step is a permutation of the 36-bit states for each symbol, so different names of one parent have different
//! states, and different parents' children too under one symbol. Its constants are secret and differ from map to map, so
//! nobody can prepare keys whose states collide; a trie where two do starts again from another root.
//!
//! PAPER: section 4.2, peelable hash; there the step is linear and the same for everybody, so that an attacker can fill
//! one bucket, and the state is as wide as the table's index.

use super::layout::{Label, STATE_BITS, SYMBOL_BITS, Symbol, slice_at};
use crate::arch;
use crate::hash::prefix::Seed;

/// Bits of a word below a state.
const UNUSED_BITS: u32 = 64 - STATE_BITS;

/// The hash of a name, on top of a word: products are then modulo 2^36 by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State(pub(super) u64);

/// The secret constants of one map's states.
#[derive(Clone, Debug)]
pub(super) struct Secret {
    /// What a symbol is multiplied by; odd, and as far up as a state.
    symbol: u64,
    first: u64,
    second: u64,
    roots: u64,
}

impl Secret {
    /// Makes the constants that belong to a map's seed.
    pub(super) fn new(seed: &Seed) -> Self {
        // Not the hashes alone: in tests there are seeds under which all hashes are equal.
        let word = |number: u8, fixed: u64| seed.hash(&[number, 0xc7]) ^ fixed;
        Self {
            symbol: (word(0, 0x9e6c_63d0_876a_3f6b) | 1) << UNUSED_BITS,
            first: word(1, 0xd192_e5f7_4a7c_15b3) | 1,
            second: word(2, 0xa3b1_9535_4a39_b70d) | 1,
            roots: word(3, 0x1d8e_4e27_c47d_124f),
        }
    }

    /// The state of the empty name in the `round`-th attempt to build a trie.
    pub(super) fn root(&self, round: u32) -> State {
        let mixed = crate::hash::mix::stream(self.roots, round.into());
        State(mixed >> UNUSED_BITS << UNUSED_BITS)
    }

    /// The state of the name that is one symbol longer.
    #[inline(always)]
    pub(super) fn step(&self, state: State, symbol: Symbol) -> State {
        let mut x = state.0 ^ u64::from(symbol.0).wrapping_mul(self.symbol);
        x = x.wrapping_mul(self.first);
        // The upper half of the state into its lower half.
        x ^= x >> (64 - STATE_BITS / 2) << UNUSED_BITS;
        State(x.wrapping_mul(self.second))
    }

    /// The state of the name that is a label longer.
    #[inline]
    pub(super) fn step_all(&self, state: State, label: Label) -> State {
        label.symbols().fold(state, |state, symbol| self.step(state, symbol))
    }
}

/// A key as symbols of six bits behind its first `skip_bits`, then END.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbols<'k> {
    key: &'k [u8],
    skip_bits: usize,
    count: usize,
}

impl<'k> Symbols<'k> {
    #[inline(always)]
    pub(super) fn new(key: &'k [u8], skip_bits: u32) -> Self {
        let skip_bits = skip_bits as usize;
        let count = (8 * key.len()).saturating_sub(skip_bits).div_ceil(SYMBOL_BITS as usize);
        Self { key, skip_bits, count }
    }

    /// The key.
    #[inline(always)]
    pub(super) fn key(&self) -> &'k [u8] {
        self.key
    }

    /// How many symbols there are before END.
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Symbol `i`; END behind the last one.
    #[inline(always)]
    pub(super) fn symbol(&self, i: usize) -> Symbol {
        if i < self.count {
            Symbol((self.nine(i) >> (64 - SYMBOL_BITS)) as u8)
        } else {
            Symbol::END
        }
    }

    /// At least nine symbols from `i` on, the first on top; zeros behind the last one.
    #[inline(always)]
    pub(super) fn nine(&self, i: usize) -> u64 {
        let bit = self.skip_bits + i * SYMBOL_BITS as usize;
        slice_at(self.key, bit / 8) << (bit % 8)
    }

    /// Ten symbols and a part of the next from `i` on, the first on top; zeros behind the last one.
    #[inline(always)]
    pub(super) fn window(&self, i: usize) -> u64 {
        let bit = self.skip_bits + i * SYMBOL_BITS as usize;
        let ninth = u64::from(self.key.get(bit / 8 + 8).copied().unwrap_or(0));
        slice_at(self.key, bit / 8) << (bit % 8) | ninth >> (8 - bit % 8)
    }

    /// How many symbols are left from `i` on, without END.
    #[inline(always)]
    pub(super) fn left(&self, i: usize) -> usize {
        self.count.saturating_sub(i)
    }

    /// The label of `count` symbols from `i` on.
    pub(super) fn label(&self, i: usize, count: usize) -> Label {
        debug_assert!(count <= self.left(i));
        Label::new(self.window(i), count)
    }

    /// How many symbols at the start two keys share, END not counted. Both are symbols behind the same bits.
    pub(super) fn common(&self, other: &Self) -> usize {
        debug_assert!(self.skip_bits == other.skip_bits);
        let (a, b) = (self.key, other.key);
        let bytes = arch::common_prefix(a, b);
        // Where one key ends, zeros follow: a symbol that goes beyond the end is in the byte behind it.
        let byte = |key: &[u8]| key.get(bytes).copied().unwrap_or(0);
        let bits = 8 * bytes + (byte(a) ^ byte(b)).leading_zeros() as usize;
        let symbols = bits.saturating_sub(self.skip_bits) / SYMBOL_BITS as usize;
        symbols.min(self.count).min(other.count)
    }
}
