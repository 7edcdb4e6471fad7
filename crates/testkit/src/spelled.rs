//! Operations on a map, spelled by bytes: for a fuzzer, which changes bytes and keeps what reaches new code.
//!
//! ```text
//! byte 0    which map, of MAPS
//!      1    which kind of values
//!      2    how keys are spelled
//!      3 .. operations: a byte says which, the next ones its key, its value, and whatever else it has
//! ```
//!
//! Any bytes spell something, and what is cut off counts as zeros. Keys mostly are numbers of two bytes, so that they meet
//! again; a few bytes insert or remove a whole stretch of them, so that a short input makes a map of many leaves.

use std::fs;
use std::ops::Bound;
use std::path::Path;

use crate::ops::{Op, Walk};
use crate::rng::splitmix;

/// The maps that byte 0 chooses from.
pub const MAPS: [&str; 8] = [
    "wormhole",
    "ordered_map",
    "cuckoo_trie",
    "mlp_index",
    "u64_map",
    "skip_list",
    "cceh",
    "store",
];

/// Which map some bytes are for.
#[must_use]
pub fn map_of(bytes: &[u8]) -> &'static str {
    MAPS[usize::from(bytes.first().copied().unwrap_or(0)) % MAPS.len()]
}

/// Which kind of values they ask for, of `kinds`.
#[must_use]
pub fn kind_of(bytes: &[u8], kinds: usize) -> usize {
    usize::from(bytes.get(1).copied().unwrap_or(0)) % kinds
}

/// Returns the inputs that a fuzz target once failed on.
///
/// # Panics
///
/// If there is no such target, or one cannot be read.
pub fn regressions(target: &str) -> impl Iterator<Item = Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{target}: {error}"));
    files.map(|file| fs::read(file.unwrap().path()).unwrap())
}

/// What a map takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takes {
    /// Keys of eight bytes only.
    pub numbers: bool,
    /// Insertions, removals, and questions for a key or their number only.
    pub points: bool,
}

/// How keys are spelled. The first ones have eight bytes.
const NUMBERS: [Spelling; 5] =
    [Spelling::Dense, Spelling::OneByte, Spelling::Spread, Spelling::Ends, Spelling::Eight];

const STRINGS: [Spelling; 5] =
    [Spelling::Words, Spelling::Nuls, Spelling::LongStart, Spelling::Prefixes, Spelling::Bytes];

#[derive(Clone, Copy, Debug)]
enum Spelling {
    /// Numbers one after another, across a multiple of 65,536.
    Dense,
    /// Numbers that differ from one in one byte.
    OneByte,
    /// Numbers far from each other.
    Spread,
    /// The smallest and the largest numbers.
    Ends,
    /// Any number.
    Eight,
    /// Strings of four letters, NUL and 255 among them.
    Words,
    /// Only NUL bytes.
    Nuls,
    /// A long common start.
    LongStart,
    /// Each is the beginning of longer ones.
    Prefixes,
    /// Up to 47 bytes of any kind.
    Bytes,
}

struct Reader<'a> {
    left: &'a [u8],
    spelling: Spelling,
}

/// Returns the operations that some bytes spell, for a map that takes these.
#[must_use]
pub fn ops(bytes: &[u8], takes: Takes) -> Vec<Op> {
    let which = usize::from(bytes.get(2).copied().unwrap_or(0));
    let spelling = match which % if takes.numbers { 5 } else { 10 } {
        number @ 0..5 => NUMBERS[number],
        string => STRINGS[string - 5],
    };
    let mut reader = Reader { left: bytes.get(3..).unwrap_or_default(), spelling };
    let mut ops = Vec::new();
    while !reader.left.is_empty() {
        reader.operation(takes, &mut ops);
    }
    ops
}

impl Reader<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, left)) = self.left.split_first() else { return 0 };
        self.left = left;
        *first
    }

    fn number(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    fn key(&mut self) -> Vec<u8> {
        match self.spelling {
            Spelling::Eight => (0..8).map(|_| self.byte()).collect(),
            Spelling::Bytes => {
                let len = self.byte() % 48;
                (0..len).map(|_| self.byte()).collect()
            }
            spelling => {
                let number = self.number();
                spelling.key(number)
            }
        }
    }

    fn bound(&mut self, what: u8) -> Bound<Vec<u8>> {
        match what % 4 {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(self.key()),
            _ => Bound::Included(self.key()),
        }
    }

    /// Small ones, so that comparisons succeed.
    fn value(&mut self) -> u64 {
        self.byte().into()
    }

    fn operation(&mut self, takes: Takes, ops: &mut Vec<Op>) {
        // Those of points come first.
        let what = self.byte() % if takes.points { 20 } else { 32 };
        ops.push(match what {
            0..=6 => Op::Insert(self.key(), self.value()),
            7..=11 => Op::Remove(self.key()),
            12..=14 => Op::Get(self.key()),
            15 => Op::Len,
            16..=19 => return self.stretch(what.is_multiple_of(2), ops),
            20 => Op::Update(self.key(), self.value()),
            21 => Op::GetOrInsert(self.key(), self.value()),
            22 => Op::CompareExchange(self.key(), self.value(), self.value()),
            23 => {
                let what = self.byte();
                Op::LowerBound(self.bound(what))
            }
            24 => {
                let what = self.byte();
                Op::UpperBound(self.bound(what))
            }
            25 | 26 => {
                let what = self.byte();
                let (from, to) = (self.bound(what), self.bound(what >> 2));
                let walk = match what >> 4 & 3 {
                    0 => Walk::Forward,
                    1 => Walk::Backward,
                    _ => Walk::Both(splitmix(what.into())),
                };
                Op::Range { from, to, count: self.byte().into(), walk }
            }
            27 => Op::First,
            28 => Op::Last,
            29 => Op::PopFirst,
            30 => Op::PopLast,
            // Seldom: it undoes what came before.
            _ if self.byte() < 8 => Op::Clear,
            _ => Op::Len,
        });
    }

    /// Inserts or removes up to 64 keys whose numbers follow each other, at a distance.
    fn stretch(&mut self, inserts: bool, ops: &mut Vec<Op>) {
        let (from, shape) = (self.number(), self.byte());
        let (count, step) = (u16::from(shape % 64) + 1, u16::from(shape / 64) + 1);
        for at in 0..count {
            let key = self.spelling.key(from.wrapping_add(at * step));
            ops.push(if inserts { Op::Insert(key, at.into()) } else { Op::Remove(key) });
        }
    }
}

impl Spelling {
    fn key(self, n: u16) -> Vec<u8> {
        let number = u64::from(n);
        let number = match self {
            Self::Dense => 0xff_00 + number,
            Self::OneByte => 0x8180_7f01_00ff_fe40 ^ (number & 0xff) << (8 * (number >> 8 & 7)),
            Self::Spread | Self::Eight => splitmix(number),
            Self::Ends if n.is_multiple_of(2) => number / 2,
            Self::Ends => u64::MAX - number / 2,
            Self::Words | Self::Bytes => return word(n),
            Self::Nuls => return vec![0; usize::from(n % 512)],
            Self::LongStart => {
                return format!("{}{n:05}", "a common start/".repeat(5)).into_bytes();
            }
            Self::Prefixes => return (0..n % 512).map(|at| (at % 3) as u8).collect(),
        };
        number.to_be_bytes().to_vec()
    }
}

/// A word of four letters: the number's digits.
fn word(mut n: u16) -> Vec<u8> {
    let mut word = Vec::new();
    while n > 0 {
        word.push([0, 1, b'a', 255][usize::from((n - 1) % 4)]);
        n = (n - 1) / 4;
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn any_bytes_spell_operations_that_the_map_takes() {
        let mut rng = Rng::new(1);
        for _ in 0..2_000 {
            let len = rng.below(200);
            let bytes = rng.bytes(len);
            for op in ops(&bytes, Takes { numbers: true, points: true }) {
                match op {
                    Op::Insert(key, _) | Op::Remove(key) | Op::Get(key) => assert_eq!(key.len(), 8),
                    op => assert_eq!(op, Op::Len),
                }
            }
            let all = ops(&bytes, Takes { numbers: false, points: false });
            assert!(len <= 3 || !all.is_empty());
        }
    }

    #[test]
    fn every_operation_can_be_spelled() {
        let bytes: Vec<u8> = [0, 0, 5].into_iter().chain(Rng::new(2).bytes(20_000)).collect();
        let all = ops(&bytes, Takes { numbers: false, points: false });
        let kinds: std::collections::BTreeSet<_> = all
            .iter()
            .map(|op| format!("{op:?}").split(['(', ' ']).next().unwrap_or("").to_owned())
            .collect();
        assert_eq!(kinds.len(), 15, "{kinds:?}");
    }

    #[test]
    fn numbers_of_each_spelling_are_keys_of_their_own() {
        for spelling in NUMBERS.into_iter().chain(STRINGS) {
            let keys: std::collections::BTreeSet<_> = (0..512).map(|n| spelling.key(n)).collect();
            // Of two numbers that differ in no byte, one is the other.
            assert!(keys.len() >= 509, "{spelling:?}: {}", keys.len());
        }
    }
}
