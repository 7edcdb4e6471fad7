//! Keys as symbols, and the hash of every prefix of them: a *state* of 36 bits.
//!
//! | the name | its state | lowest bit |
//! | --- | --- | --- |
//! | up to five symbols, END not among them | a permutation of the symbols, their number, and the trie's round | 0 |
//! | all others | a step from the state of the name that is one symbol shorter | 1 |
//!
//! So two *short names* never have the same state, nor do a short name and another one. Whoever finds a node under the
//! state of a short name has found that name, and need not have come from the root.
//!
//! A step is a permutation for each symbol, but for the lowest bit; the chance that two of a trie's names have one state is
//! that of 35 random bits. All constants are secret and differ from map to map, so nobody can prepare keys whose states
//! collide; a trie where two do starts again in another round.
//!
//! PAPER: section 4.2, peelable hash; there the step is linear and the same for everybody, so that an attacker can fill
//! one bucket, the state is as wide as the table's index, and every state is reached by steps from the root.

use super::label::{Label, Symbol};

use super::layout::{LABEL_SYMBOLS, STATE_BITS, SYMBOL_BITS, slice_at};
use crate::arch;
use crate::hash::prefix::Seed;

/// Bits of a word below a state.
const UNUSED_BITS: u32 = 64 - STATE_BITS;

/// The lowest bit of a state: whether it was stepped to.
const STEPPED: u64 = 1 << UNUSED_BITS;

/// Bits of a word below the number of a short name.
const ABOVE_NUMBER: u32 = UNUSED_BITS + 1;

/// The most symbols of a short name: with their number and the round, they are 35 bits.
pub(super) const SHORT_NAME_SYMBOLS: usize = 5;

/// Bits of a round in a short name.
pub(super) const ROUND_BITS: u32 = 4;

const _: () = assert!(
    SHORT_NAME_SYMBOLS as u32 * SYMBOL_BITS + 1 + ROUND_BITS == 64 - ABOVE_NUMBER,
    "a short name is what a permutation holds"
);

/// The hash of a name, on top of a word: products are then modulo 2^36 by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State(pub(super) u64);

/// A name of up to five symbols, none of them END: a one, the symbols, and the round of the trie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ShortName(u64);

impl ShortName {
    /// As [`start`](Self::start).
    #[inline(always)]
    pub(super) fn new(round: u32, window: u64, count: usize) -> Self {
        Self::start(round, window, count as u32)
    }

    /// The first `count` symbols of a window.
    #[inline(always)]
    pub(super) fn start(round: u32, window: u64, count: u32) -> Self {
        debug_assert!(count <= SHORT_NAME_SYMBOLS as u32);
        // The one before the symbols stands before the window and comes down with it.
        let symbols = (1 << 63 | window >> 1).wrapping_shr(63 - SYMBOL_BITS * count);
        Self(symbols << ROUND_BITS | u64::from(round % (1 << ROUND_BITS)))
    }

    /// Whether longer names are not short.
    #[inline(always)]
    fn is_full(self) -> bool {
        self.0 >> (SHORT_NAME_SYMBOLS as u32 * SYMBOL_BITS + ROUND_BITS) != 0
    }

    /// The name that is one symbol longer, which is short too.
    #[inline(always)]
    pub(super) fn longer(self, symbol: Symbol) -> Self {
        let round = self.0 % (1 << ROUND_BITS);
        let name = self.0 - round;
        Self(name << SYMBOL_BITS | u64::from(symbol.0) << ROUND_BITS | round)
    }
}

/// The secret constants of one map's states.
#[derive(Clone, Debug)]
pub(super) struct Secret {
    /// What a symbol is multiplied by; odd, and as far up as a state.
    symbol: u64,
    first: u64,
    /// What the second product is by, as far up as a state but for the lowest bit.
    second: u64,
    /// What undoes the products by these.
    first_inverse: u64,
    second_inverse: u64,
}

/// A node's name, from which its children's states are stepped to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parent<'s> {
    secret: &'s Secret,
    state: State,
    /// What is mixed for a child is this, with so many times its symbol.
    from: u64,
    factor: u64,
    /// [`STEPPED`], or nothing if the children's names are short.
    stepped: u64,
}

impl Parent<'_> {
    /// The state of the name that is one symbol longer.
    #[inline(always)]
    pub(super) fn child(&self, symbol: Symbol) -> State {
        if symbol.is_end() {
            return self.secret.step_on(self.state, symbol);
        }
        let mixed = self.from.wrapping_add(u64::from(symbol.0).wrapping_mul(self.factor));
        State(self.secret.mix(mixed) | self.stepped)
    }
}

impl Secret {
    /// Makes the constants that belong to a map's seed.
    pub(super) fn new(seed: &Seed) -> Self {
        // Not the hashes alone: in tests there are seeds under which all hashes are equal.
        let word = |number: u8, fixed: u64| seed.hash(&[number, 0xc7]) ^ fixed;
        let first = word(1, 0xd192_e5f7_4a7c_15b3) | 1;
        let second = word(2, 0xa3b1_9535_4a39_b70d) | 1;
        Self {
            symbol: (word(0, 0x9e6c_63d0_876a_3f6b) | 1) << UNUSED_BITS,
            first,
            second: second << ABOVE_NUMBER,
            first_inverse: inverse(first),
            second_inverse: inverse(second),
        }
    }

    /// The state of the empty name in the `round`-th attempt to build a trie.
    pub(super) fn root(&self, round: u32) -> State {
        self.state_of(ShortName::new(round, 0, 0))
    }

    /// The state of a short name.
    #[inline(always)]
    pub(super) fn state_of(&self, name: ShortName) -> State {
        State(self.mix(name.0 << ABOVE_NUMBER))
    }

    /// The name of a state that is a short name's.
    #[inline(always)]
    fn name_of(&self, state: State) -> Option<ShortName> {
        if state.0 & STEPPED != 0 {
            return None;
        }
        Some(ShortName(self.unmix(state.0) >> ABOVE_NUMBER))
    }

    /// A one and the symbols of a state's name, if that is short.
    #[inline(always)]
    pub(super) fn short_name(&self, state: State) -> Option<u64> {
        self.name_of(state).map(|name| name.0 >> ROUND_BITS)
    }

    /// The state of a short name: a one and its symbols.
    #[inline(always)]
    pub(super) fn state_under(&self, round: u32, name: u64) -> State {
        self.state_of(ShortName(name << ROUND_BITS | u64::from(round % (1 << ROUND_BITS))))
    }

    /// The state of the name that is one symbol longer, and not short.
    #[inline(always)]
    pub(super) fn step_on(&self, state: State, symbol: Symbol) -> State {
        State(
            self.mix(state.0.wrapping_add(u64::from(symbol.0).wrapping_mul(self.symbol))) | STEPPED,
        )
    }

    /// From the state of a key's first `from` symbols to that of its first `to`, none of them END, which are not short names; tells
    /// `passed` of each on the way.
    #[inline(always)]
    pub(super) fn step_along(
        &self,
        mut state: State,
        symbols: &Symbols<'_>,
        from: usize,
        to: usize,
        mut passed: impl FnMut(usize, State),
    ) -> State {
        debug_assert!(from >= SHORT_NAME_SYMBOLS && to <= symbols.count());
        let mut level = from;
        // Each symbol's step waits for the one before it, so the two products in between are one, and what is added there is multiplied
        // before.
        let [both, by_symbol, by_step] =
            [self.second, self.symbol, STEPPED].map(|factor| factor.wrapping_mul(self.first));
        let (mut product, mut stepped) = (state.0.wrapping_mul(self.first), 0);
        while level < to {
            let mut window = symbols.window(level);
            for _ in 0..LABEL_SYMBOLS.min(to - level) {
                let symbol = (window >> (64 - SYMBOL_BITS)).wrapping_mul(by_symbol);
                let half = halved(product.wrapping_add(symbol.wrapping_add(stepped)));
                state = State(half.wrapping_mul(self.second) | STEPPED);
                (product, stepped) = (half.wrapping_mul(both), by_step);
                window <<= SYMBOL_BITS;
                level += 1;
                passed(level, state);
            }
        }
        state
    }

    /// A permutation of the upper 35 bits of a word; others are lost.
    #[inline(always)]
    fn mix(&self, x: u64) -> u64 {
        halved(x.wrapping_mul(self.first)).wrapping_mul(self.second)
    }

    /// What [`mix`](Self::mix) made this of.
    #[inline(always)]
    fn unmix(&self, x: u64) -> u64 {
        (halved(x.wrapping_mul(self.second_inverse)) << ABOVE_NUMBER)
            .wrapping_mul(self.first_inverse)
    }

    /// The parent of this state.
    #[inline(always)]
    pub(super) fn parent(&self, state: State) -> Parent<'_> {
        let (from, factor, stepped) = match self.name_of(state) {
            Some(name) if !name.is_full() => {
                let first = name.longer(Symbol(0));
                (first.0 << ABOVE_NUMBER, 1 << (ABOVE_NUMBER + ROUND_BITS), 0)
            }
            _ => (state.0, self.symbol, STEPPED),
        };
        Parent { secret: self, state, from, factor, stepped }
    }

    /// The state of the name that is one symbol longer.
    #[inline(always)]
    pub(super) fn step(&self, state: State, symbol: Symbol) -> State {
        self.parent(state).child(symbol)
    }

    /// The state of the name that is a label longer.
    #[inline]
    pub(super) fn step_all(&self, state: State, label: Label) -> State {
        label.symbols().fold(state, |state, symbol| self.step(state, symbol))
    }
}

/// The upper 35 bits of a word as a number, the upper half of it added to the lower one; twice, it is what it was.
#[inline(always)]
fn halved(x: u64) -> u64 {
    let number = x >> ABOVE_NUMBER;
    number ^ number >> ((64 - ABOVE_NUMBER).div_ceil(2))
}

/// What undoes a product by this odd number.
fn inverse(odd: u64) -> u64 {
    (0..6).fold(odd, |x, _| x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x))))
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

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// The symbols of a key, bit by bit.
    fn plain(key: &[u8], skip_bits: usize) -> Vec<Symbol> {
        let bits: Vec<u8> =
            key.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
        let six =
            |bits: &[u8]| (0..6).fold(0, |six, i| six * 2 + bits.get(i).copied().unwrap_or(0));
        let rest = bits.get(skip_bits..).unwrap_or(&[]);
        rest.chunks(6).map(|bits| Symbol(six(bits))).chain([Symbol::END]).collect()
    }

    fn keys() -> Vec<Vec<u8>> {
        let mut keys = vec![vec![], vec![0], vec![0, 0], vec![255], vec![0; 40], vec![255; 11]];
        for len in 1..30_u64 {
            let byte = |i: u64| crate::hash::mix::stream(len, i) as u8;
            let key: Vec<u8> = (0..len).map(byte).collect();
            keys.push([&key[..], &[0]].concat());
            keys.push([&key[..], &[0, 0, 1]].concat());
            keys.push([&key[..len as usize / 2], &[7; 9]].concat());
            keys.push(key);
        }
        keys.sort();
        keys.dedup();
        keys
    }

    #[test]
    fn symbols_are_the_bits_of_a_key_by_six() {
        for key in keys() {
            for skip in 0..=8 * key.len() {
                let (symbols, model) = (Symbols::new(&key, skip as u32), plain(&key, skip));
                assert_eq!(symbols.count() + 1, model.len(), "{key:?} {skip}");
                let zeros = |i: usize| match model.get(i) {
                    Some(symbol) if !symbol.is_end() => *symbol,
                    _ => Symbol(0),
                };
                for (i, symbol) in model.iter().enumerate() {
                    assert_eq!(symbols.symbol(i), *symbol, "{key:?} {skip} {i}");
                    let window: Vec<_> = (i..i + LABEL_SYMBOLS).map(zeros).collect();
                    let expected = Label::of(&window);
                    assert_eq!(Label::new(symbols.window(i), LABEL_SYMBOLS), expected);
                    assert_eq!(Label::new(symbols.nine(i), 9), Label::of(&window[..9]));
                }
                assert!(symbols.symbol(model.len() + 3).is_end());
            }
        }
    }

    #[test]
    fn symbols_order_keys_as_bytes_do() {
        for pair in keys().windows(2) {
            for skip in [0, 3, 8] {
                let [a, b] = [0, 1].map(|i| plain(&pair[i], skip));
                if pair.iter().any(|key| key.is_empty() || skip > 0 && key[0] != pair[0][0]) {
                    continue;
                }
                let ranks = |symbols: &[Symbol]| -> Vec<u32> {
                    symbols.iter().map(|symbol| symbol.rank()).collect()
                };
                assert!(ranks(&a) < ranks(&b), "{pair:?} {skip}");
            }
        }
    }

    #[test]
    fn common_symbols_are_counted_to_the_first_that_differs() {
        let keys = keys();
        for a in &keys {
            for b in &keys {
                let [x, y] = [a, b].map(|key| plain(key, 0));
                let model = x.iter().zip(&y).take_while(|(x, y)| x == y && !x.is_end()).count();
                let [x, y] = [a, b].map(|key| Symbols::new(key, 0));
                assert_eq!(x.common(&y), model, "{a:?} {b:?}");
                let same = arch::common_prefix(a, b) * 8;
                for skip in [3, 8, 13].into_iter().filter(|skip| *skip <= same) {
                    let [x, y] = [a, b].map(|key| plain(key, skip));
                    let model = x.iter().zip(&y).take_while(|(x, y)| x == y && !x.is_end()).count();
                    let [x, y] = [a, b].map(|key| Symbols::new(key, skip as u32));
                    assert_eq!(x.common(&y), model, "{a:?} {b:?} {skip}");
                }
            }
        }
    }

    #[test]
    fn a_step_loses_only_the_lowest_bit() {
        for seed in testkit::seeds() {
            let secret = Secret::new(&Seed::fixed(seed));
            for round in 0..16 {
                let mut state = secret.root(round);
                for symbol in (0..=64).map(Symbol) {
                    let next = secret.step_on(state, symbol);
                    assert_eq!(next.0 % (2 * STEPPED), STEPPED);
                    let undone = [0, STEPPED].map(|lost| {
                        let mixed = secret.unmix(next.0 ^ STEPPED);
                        let mixed = mixed.wrapping_add(secret.first_inverse.wrapping_mul(lost));
                        let added = u64::from(symbol.0).wrapping_mul(secret.symbol);
                        State(mixed.wrapping_sub(added))
                    });
                    assert!(undone.contains(&state));
                    state = next;
                }
                let symbols: HashSet<u64> =
                    (0..=64).map(|symbol| secret.step(state, Symbol(symbol)).0).collect();
                assert!(symbols.len() > 63);
            }
        }
    }

    #[test]
    fn many_steps_at_once_are_as_many_steps() {
        for key in keys() {
            let secret = Secret::new(&Seed::fixed(key.len() as u64));
            let symbols = Symbols::new(&key, 3);
            let mut states = vec![secret.root(1)];
            for level in 0..symbols.count() {
                states.push(secret.step(states[level], symbols.symbol(level)));
            }
            for from in SHORT_NAME_SYMBOLS..states.len() {
                for to in from..states.len() {
                    let mut passed = vec![states[from]];
                    let note = |level, state| {
                        assert_eq!(level, from + passed.len());
                        passed.push(state);
                    };
                    let last = secret.step_along(states[from], &symbols, from, to, note);
                    assert_eq!(last, states[to]);
                    assert_eq!(passed, states[from..=to]);
                }
            }
        }
    }

    #[test]
    fn short_names_have_states_of_their_own() {
        for seed in testkit::seeds() {
            let secret = Secret::new(&Seed::fixed(seed));
            let mut rng = testkit::Rng::new(seed);
            let mut states = HashSet::new();
            for round in 0..16 {
                let mut names = vec![ShortName::new(round, 0, 0)];
                let root = names[0];
                names.extend((0..64).map(|symbol| root.longer(Symbol(symbol))));
                for _ in 0..1000 {
                    let window = rng.next_u64();
                    let all =
                        (0..=SHORT_NAME_SYMBOLS).map(|len| ShortName::new(round, window, len));
                    let mut state = secret.root(round);
                    for (len, name) in all.enumerate() {
                        assert_eq!(secret.state_of(name), state);
                        assert_eq!(secret.name_of(state), Some(name));
                        let symbol = Symbol((window << (6 * len) >> 58) as u8);
                        let next = secret.step(state, symbol);
                        let is_short = len < SHORT_NAME_SYMBOLS;
                        assert_eq!(secret.name_of(next), is_short.then(|| name.longer(symbol)));
                        assert!(secret.name_of(secret.step(state, Symbol::END)).is_none());
                        state = next;
                    }
                    names.extend(
                        (2..=SHORT_NAME_SYMBOLS).map(|len| ShortName::new(round, window, len)),
                    );
                }
                names.sort_by_key(|name| name.0);
                names.dedup();
                for name in names {
                    assert!(states.insert(secret.state_of(name).0), "{name:?}");
                    assert_eq!(secret.state_of(name).0 % (2 * STEPPED), 0);
                }
            }
        }
    }

    #[test]
    fn states_of_regular_names_are_spread_evenly() {
        let secret = Secret::new(&Seed::fixed(7));
        // A dense tree of three levels, and a row of the same symbol.
        let mut states = vec![secret.root(0)];
        for _ in 0..3 {
            states = states
                .iter()
                .flat_map(|state| (0..64).map(|symbol| secret.step(*state, Symbol(symbol))))
                .collect();
        }
        let mut row = secret.root(1);
        for _ in 0..states.len() {
            row = secret.step(row, Symbol(0));
            states.push(row);
        }
        for shift in [64 - 10, UNUSED_BITS + 8, UNUSED_BITS] {
            let mut counts = [0_u32; 1024];
            for state in &states {
                counts[(state.0 >> shift) as usize % 1024] += 1;
            }
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(*least > 512 - 120 && *most < 512 + 120, "{shift}: {least}..{most}");
        }
    }

    #[test]
    fn a_label_is_a_step_for_each_symbol() {
        let secret = Secret::new(&Seed::fixed(8));
        let symbols = [3, 0, 63].map(Symbol);
        let one_by_one =
            symbols.iter().fold(secret.root(0), |state, symbol| secret.step(state, *symbol));
        assert_eq!(secret.step_all(secret.root(0), Label::of(&symbols)), one_by_one);
        assert_ne!(secret.root(0), secret.root(1));
    }
}
