//! Records of byte strings: a key and its value in words of the medium.
//!
//! ```text
//! word 0          lengths       of the key in bits 0 to 23, of the value in 24 to 63, in bytes
//!      1 ..       key           eight bytes a word, zeros behind the last one
//!      .. end     value         the same, from a word of its own
//! ```
//!
//! A record is written once, before anything names it, and not changed while something does, or while a reader may still
//! be at it. What a word names need not be a record at all: the file may be damaged, or the word be read while it is being
//! changed. So whoever reads one looks whether it ends within the medium, and a damaged one is only wrong.

use super::layout::{Spelling, padded};
use crate::persist::medium::{LINE_WORDS, Medium, WordAt};
use crate::sync::shim::Ordering::Relaxed;

/// The longest key, in bytes.
pub const MAX_KEY_BYTES: usize = (1 << KEY_BITS) - 1;

/// The bits of the lengths that are the key's.
const KEY_BITS: u32 = 24;

/// The longest value that the lengths have room for.
pub(super) const MAX_VALUE_BYTES: usize = (1 << (64 - KEY_BITS)) - 1;

/// A record, and where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    at: WordAt,
    key_bytes: usize,
    value_bytes: usize,
}

impl Record {
    /// A record of these lengths, if there may be such.
    pub(super) fn new(at: WordAt, key_bytes: usize, value_bytes: usize) -> Option<Self> {
        let fits = key_bytes <= MAX_KEY_BYTES && value_bytes <= MAX_VALUE_BYTES;
        fits.then_some(Self { at, key_bytes, value_bytes })
    }

    /// Reads the lengths of what a word names; `None` if it does not end within the medium.
    #[inline]
    pub(super) fn of<M: Medium>(medium: &M, named: u64) -> Option<Self> {
        let end = medium.lines() * LINE_WORDS;
        let at = usize::try_from(named).ok().filter(|at| *at < end)?;
        // Relaxed, here and below: whoever names a record has published it.
        let lengths = medium.load(WordAt(at), Relaxed);
        let key_bytes = lengths as usize & MAX_KEY_BYTES;
        let record =
            Self { at: WordAt(at), key_bytes, value_bytes: (lengths >> KEY_BITS) as usize };
        (record.words() <= end - at).then_some(record)
    }

    /// How many words it takes.
    pub(super) fn words(self) -> usize {
        1 + self.key_bytes.div_ceil(8) + self.value_bytes.div_ceil(8)
    }

    /// The word that names it.
    pub(super) fn name(self) -> u64 {
        self.at.0 as u64
    }

    /// Writes it, and flushes its lines.
    pub(super) fn write<M: Medium>(self, medium: &M, key: &[u8], value: &[u8]) {
        let lengths = self.key_bytes as u64 | (self.value_bytes as u64) << KEY_BITS;
        let words = [lengths].into_iter();
        let words = words.chain(words_of(key)).chain(words_of(value));
        let last = self.at.0 + self.words() - 1;
        for (at, word) in (self.at.0..).map(WordAt).zip(words) {
            // Relaxed: named after the next fence.
            medium.store(at, word, Relaxed);
            if at.index() + 1 == LINE_WORDS || at.0 == last {
                medium.flush(at.line());
            }
        }
    }

    /// Whether this is its key.
    #[inline]
    pub(super) fn has_key<M: Medium>(self, medium: &M, key: &[u8]) -> bool {
        let mut words = (self.at.0 + 1..).map(WordAt).zip(words_of(key));
        self.key_bytes == key.len() && words.all(|(at, word)| medium.load(at, Relaxed) == word)
    }

    /// Appends the key to `out`.
    pub(super) fn read_key<M: Medium>(self, medium: &M, out: &mut Vec<u8>) {
        copy(medium, self.at.plus(1), self.key_bytes, out);
    }

    /// Appends the value to `out`.
    #[inline]
    pub(super) fn read_value<M: Medium>(self, medium: &M, out: &mut Vec<u8>) {
        copy(medium, self.at.plus(1 + self.key_bytes.div_ceil(8)), self.value_bytes, out);
    }

    /// The hash of its key.
    pub(super) fn hash<M: Medium>(self, medium: &M, spelling: &Spelling) -> u64 {
        let mut key = Vec::new();
        self.read_key(medium, &mut key);
        spelling.hash_bytes(&key)
    }
}

/// Byte strings as words, with zeros behind the last one.
#[inline]
fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (words, rest) = bytes.as_chunks();
    let rest = (!rest.is_empty()).then(|| padded(rest));
    words.iter().map(|word| u64::from_le_bytes(*word)).chain(rest)
}

fn copy<M: Medium>(medium: &M, from: WordAt, bytes: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + bytes.next_multiple_of(8), 0);
    let words = out[start..].as_chunks_mut().0;
    for (word, at) in words.iter_mut().zip((from.0..).map(WordAt)) {
        *word = medium.load(at, Relaxed).to_le_bytes();
    }
    out.truncate(start + bytes);
}
