//! A map as the server saves it: a number, how many entries, then for each of them two strings, field and value, in order.
//!
//! The server frames numbers and strings and guards the whole by a checksum; `RESTORE` takes such bytes from anybody, so nothing
//! of them is believed: a count reserves no memory, order is checked, and so are lengths. `docs/formats/module.md` has the bytes.

use std::ops::Deref;

use crate::large::Large;
use crate::small::{MAX_ENTRIES, Small};
use crate::tree::{MAX_FIELD_BYTES, MAX_VALUE_BYTES, Span, Tree};

/// The version of the format, which the server keeps beside each map.
pub(crate) const VERSION: u32 = 1;

/// Where a map is saved to.
pub(crate) trait Sink {
    /// Writes a number.
    fn number(&mut self, number: u64);
    /// Writes a string.
    fn string(&mut self, string: &[u8]);
}

/// Where a map is loaded from.
pub(crate) trait Source {
    /// What strings come as.
    type Text: Deref<Target = [u8]>;
    /// Reads a number; `None` if there is none.
    fn number(&mut self) -> Option<u64>;
    /// Reads a string; `None` if there is none.
    fn string(&mut self) -> Option<Self::Text>;
}

/// Saves a map.
pub(crate) fn save(tree: &Tree, to: &mut impl Sink) {
    to.number(tree.len() as u64);
    tree.walk(Span::ALL, false, |field, value| {
        to.string(field);
        to.string(value);
        std::ops::ControlFlow::Continue(())
    });
}

/// Loads a map; `None` if what is there is none, or if there is no memory for it.
pub(crate) fn load(from: &mut impl Source) -> Option<Tree> {
    let count = from.number()?;
    if count == 0 {
        // A key without entries does not exist.
        return None;
    }
    let mut entries = Entries { from, left: count, last: None };
    let mut small = Small::default();
    let ahead = loop {
        if entries.left == 0 {
            return Some(Tree::Small(small));
        }
        let (field, value) = entries.read()?;
        if small.len() == MAX_ENTRIES || !small.has_room(&field, &value) {
            break (field, value);
        }
        small.set(&field, &value);
    };
    // What has been read, as owned strings, then the rest as it comes.
    let mut broken = false;
    let rest = std::iter::from_fn(|| {
        if entries.left == 0 {
            return None;
        }
        let entry = entries.read();
        broken |= entry.is_none();
        entry
    });
    let read = small.iter().map(|(field, value)| (Text::Lent(field), Text::Lent(value)));
    let ahead = std::iter::once((Text::Own(ahead.0), Text::Own(ahead.1)));
    let rest = rest.map(|(field, value)| (Text::Own(field), Text::Own(value)));
    let large = Large::from_sorted(read.chain(ahead).chain(rest)).ok()?;
    (!broken).then(|| Tree::Large(Box::new(large)))
}

/// A string of a small map, or one that the source gave.
enum Text<'a, T> {
    Lent(&'a [u8]),
    Own(T),
}

impl<T: Deref<Target = [u8]>> AsRef<[u8]> for Text<'_, T> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Own(text) => text,
        }
    }
}

/// Entries of a source, each of them checked.
struct Entries<'a, S: Source> {
    from: &'a mut S,
    left: u64,
    last: Option<Vec<u8>>,
}

impl<S: Source> Entries<'_, S> {
    fn read(&mut self) -> Option<(S::Text, S::Text)> {
        let field = self.from.string()?;
        let value = self.from.string()?;
        let ascends = self.last.as_ref().is_none_or(|last| last.as_slice() < &*field);
        if field.len() > MAX_FIELD_BYTES || value.len() > MAX_VALUE_BYTES || !ascends {
            return None;
        }
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(&field);
        self.left -= 1;
        Some((field, value))
    }
}
