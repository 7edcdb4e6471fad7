//! A small map: its entries in one sorted piece of bytes.
//!
//! ```text
//! length of field | field | length of value | value | length of field | ...
//! ```
//!
//! Lengths take a byte up to 127, and two up to 16,383. A search goes through the entries from the first one, a change moves
//! those behind it: both are bounded by [`MAX_BYTES`].
//!
//! # Invariants
//!
//! * **S1** The bytes are whole entries, as many as `entries` says.
//! * **S2** Fields ascend strictly.
//! * **S3** There are at most `MAX_ENTRIES` entries and `MAX_BYTES` bytes.

use std::ops::Range;

use crate::tree::Span;

/// Most entries of a small map: as many as the server's own small hashes have by default. More, and a lookup takes longer than in
/// a large map; fewer, and maps of some dozens of entries pay for a structure that they do not need.
pub(crate) const MAX_ENTRIES: usize = 128;

/// Most bytes of a small map: a change moves half of them, which still is less than a command costs.
pub(crate) const MAX_BYTES: usize = 4 << 10;

const _: () = assert!(MAX_BYTES <= 0x3fff, "lengths take at most two bytes");

/// A small map.
#[derive(Clone, Default)]
pub(crate) struct Small {
    bytes: Vec<u8>,
    entries: u16,
}

/// Where an entry is.
struct Place {
    entry: Range<usize>,
    value: Range<usize>,
}

impl Small {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.entries)
    }

    /// Bytes of memory beside the map itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        crate::size::of(self.bytes.capacity())
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.find(field).ok().map(|place| &self.bytes[place.value])
    }

    /// Whether the map stays small with this entry; if not, it is unchanged when `set` is not called.
    pub(crate) fn has_room(&self, field: &[u8], value: &[u8]) -> bool {
        let more = entry_bytes(field, value);
        if self.len() < MAX_ENTRIES && self.bytes.len() + more <= MAX_BYTES {
            return true;
        }
        match self.find(field) {
            Ok(place) => self.bytes.len() - place.entry.len() + more <= MAX_BYTES,
            Err(_) => false,
        }
    }

    /// Sets an entry for which there [is room](Self::has_room); returns whether its field is new.
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        let found = self.find(field);
        let (old, new) = match found {
            Ok(place) => (place.entry, false),
            Err(at) => (at..at, true),
        };
        let more = entry_bytes(field, value);
        self.resize(old.clone(), more);
        let mut at = old.start;
        for part in [field, value] {
            at += write_len(&mut self.bytes[at..], part.len());
            self.bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.entries += u16::from(new);
        debug_assert!(self.len() <= MAX_ENTRIES && self.bytes.len() <= MAX_BYTES, "S3");
        new
    }

    /// Removes an entry; returns whether there was one.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        let Ok(place) = self.find(field) else { return false };
        self.resize(place.entry, 0);
        self.entries -= 1;
        true
    }

    /// Gives `old` another length, and the map the capacity that it needs.
    fn resize(&mut self, old: Range<usize>, new: usize) {
        let (before, end) = (self.bytes.len(), old.start + new);
        let after = before - old.len() + new;
        if after > before {
            self.bytes.reserve_exact(after - before);
            self.bytes.resize(after, 0);
        }
        self.bytes.copy_within(old.end..before, end);
        if after < before {
            self.bytes.truncate(after);
            self.bytes.shrink_to_fit();
        }
    }

    /// Finds the field, or where it would be.
    fn find(&self, field: &[u8]) -> Result<Place, usize> {
        let mut at = 0;
        while at < self.bytes.len() {
            let (found, value) = read_entry(&self.bytes, at);
            let end = value.end;
            match self.bytes[found].cmp(field) {
                std::cmp::Ordering::Less => at = end,
                std::cmp::Ordering::Equal => return Ok(Place { entry: at..end, value }),
                std::cmp::Ordering::Greater => break,
            }
        }
        Err(at)
    }

    /// All entries in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut at = 0;
        std::iter::from_fn(move || {
            (at < self.bytes.len()).then(|| {
                let (field, value) = read_entry(&self.bytes, at);
                at = value.end;
                (&self.bytes[field], &self.bytes[value])
            })
        })
    }

    /// The entries of a span in order.
    pub(crate) fn range<'a>(
        &'a self,
        span: Span<'a>,
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.iter()
            .skip_while(move |(field, _)| span.is_above(field))
            .take_while(move |(field, _)| !span.is_below(field))
    }
}

fn len_bytes(len: usize) -> usize {
    if len < 0x80 { 1 } else { 2 }
}

fn entry_bytes(field: &[u8], value: &[u8]) -> usize {
    len_bytes(field.len()) + field.len() + len_bytes(value.len()) + value.len()
}

fn write_len(to: &mut [u8], len: usize) -> usize {
    debug_assert!(len <= MAX_BYTES);
    if len < 0x80 {
        to[0] = len as u8;
        1
    } else {
        to[0] = 0x80 | (len >> 8) as u8;
        to[1] = len as u8;
        2
    }
}

/// The bytes behind a length, and where they end.
fn read_part(bytes: &[u8], at: usize) -> Range<usize> {
    let first = bytes[at];
    let (start, len) = if first < 0x80 {
        (at + 1, usize::from(first))
    } else {
        (at + 2, usize::from(first & 0x7f) << 8 | usize::from(bytes[at + 1]))
    };
    start..start + len
}

fn read_entry(bytes: &[u8], at: usize) -> (Range<usize>, Range<usize>) {
    let field = read_part(bytes, at);
    let value = read_part(bytes, field.end);
    (field, value)
}
