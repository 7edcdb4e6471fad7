//! The value of a key: a map in one of two encodings, as the server's own types have them.
//!
//! *Small* maps are a piece of bytes (`small.rs`), so that millions of them take little more than their content; *large* ones are
//! an index (`large.rs`). A map becomes large when it no longer fits, and stays so.

use std::ops::{Bound, ControlFlow};

use fanread::bytes_map::Asked;

use crate::large::Large;
use crate::small::Small;

/// Longest field of a map, which is the longest key of a `BytesMap`.
pub(crate) const MAX_FIELD_BYTES: usize = fanread::ordered_map::MAX_KEY_BYTES;

/// Longest value of a map.
pub(crate) const MAX_VALUE_BYTES: usize = u32::MAX as usize;

/// There was no memory for an entry; the map is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoMemory;

/// Part of the order of fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span<'a> {
    /// Where it starts.
    pub start: Bound<&'a [u8]>,
    /// Where it ends.
    pub end: Bound<&'a [u8]>,
}

impl Span<'_> {
    /// All fields.
    pub(crate) const ALL: Self = Self { start: Bound::Unbounded, end: Bound::Unbounded };

    /// Whether it starts above a field.
    pub(crate) fn is_above(&self, field: &[u8]) -> bool {
        match self.start {
            Bound::Included(start) => field < start,
            Bound::Excluded(start) => field <= start,
            Bound::Unbounded => false,
        }
    }

    /// Whether it ends below a field.
    pub(crate) fn is_below(&self, field: &[u8]) -> bool {
        match self.end {
            Bound::Included(end) => field > end,
            Bound::Excluded(end) => field >= end,
            Bound::Unbounded => false,
        }
    }
}

/// A map from fields to values.
pub(crate) enum Tree {
    /// Few entries.
    Small(Small),
    /// Many, or long ones.
    Large(Box<Large>),
}

impl Tree {
    pub(crate) fn new() -> Self {
        Self::Small(Small::default())
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Small(small) => small.len(),
            Self::Large(large) => large.len(),
        }
    }

    /// The name of the encoding.
    pub(crate) fn encoding(&self) -> &'static str {
        match self {
            Self::Small(_) => "packed",
            Self::Large(_) => "ordered-map",
        }
    }

    /// Bytes of memory, itself included.
    pub(crate) fn memory_bytes(&self) -> usize {
        crate::size::of(size_of::<Self>())
            + match self {
                Self::Small(small) => small.heap_bytes(),
                Self::Large(large) => crate::size::of(size_of::<Large>()) + large.heap_bytes(),
            }
    }

    /// How many steps it takes to free it.
    pub(crate) fn free_effort(&self) -> usize {
        match self {
            Self::Small(_) => 1,
            Self::Large(large) => large.len(),
        }
    }

    /// Shows the value of a field to `look`.
    pub(crate) fn get<R>(&self, field: &[u8], look: impl FnOnce(Option<&[u8]>) -> R) -> R {
        match self {
            Self::Small(small) => look(small.get(field)),
            Self::Large(large) => large.get(field, look),
        }
    }

    /// As `get`, and calls `meanwhile` while what the lookup waits for first is on its way.
    #[inline]
    pub(crate) fn get_while<R>(
        &mut self,
        field: &[u8],
        asked: Option<Asked>,
        meanwhile: impl FnOnce(),
        look: impl FnOnce(Option<&[u8]>) -> R,
    ) -> R {
        match self {
            Self::Small(small) => {
                meanwhile();
                look(small.get(field))
            }
            Self::Large(large) => large.get_while(field, asked, meanwhile, look),
        }
    }

    /// Asks for what a lookup of a field waits for first.
    #[inline]
    pub(crate) fn ask(&self, field: &[u8]) -> Option<Asked> {
        match self {
            Self::Small(_) => None,
            Self::Large(large) => Some(large.ask(field)),
        }
    }

    /// The same before an entry is set.
    pub(crate) fn ask_to_set(&self, field: &[u8]) {
        if let Self::Large(large) = self {
            large.ask_to_set(field);
        }
    }

    /// Whether there is such a field.
    pub(crate) fn has(&self, field: &[u8]) -> bool {
        self.get(field, |value| value.is_some())
    }

    /// Looks up fields and gives `found` each answer in order.
    pub(crate) fn get_each<'a>(
        &self,
        fields: impl Iterator<Item = &'a [u8]>,
        mut found: impl FnMut(Option<&[u8]>),
    ) {
        match self {
            Self::Small(small) => fields.for_each(|field| found(small.get(field))),
            Self::Large(large) => large.get_each(fields, found),
        }
    }

    /// Sets an entry, whose field and value have lengths that were checked; returns whether the field is new.
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8]) -> Result<bool, NoMemory> {
        match self {
            Self::Small(small) if small.has_room(field, value) => Ok(small.set(field, value)),
            Self::Small(small) => {
                let mut large = Large::from_sorted(small.iter())?;
                let new = large.set(field, value)?;
                *self = Self::Large(Box::new(large));
                Ok(new)
            }
            Self::Large(large) => large.set(field, value),
        }
    }

    /// Removes an entry; returns whether there was one.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        match self {
            Self::Small(small) => small.remove(field),
            Self::Large(large) => large.remove(field),
        }
    }

    /// Shows the entries of a span to `visit` in order, or from the last one if `reverse`, until it breaks.
    pub(crate) fn walk(
        &self,
        span: Span<'_>,
        reverse: bool,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        match self {
            Self::Small(small) if reverse => {
                let entries: Vec<_> = small.range(span).collect();
                let _ended =
                    entries.into_iter().rev().try_for_each(|(field, value)| visit(field, value));
            }
            Self::Small(small) => {
                let _ended = small.range(span).try_for_each(|(field, value)| visit(field, value));
            }
            Self::Large(large) => large.walk(span, reverse, &mut visit),
        }
    }

    /// Shows entries that chance picks to `visit`, each of them any, until it breaks; none if there are none. `below` gives a
    /// number below another.
    pub(crate) fn draw(
        &self,
        mut below: impl FnMut(usize) -> usize,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        match self {
            Self::Small(small) => {
                let entries: Vec<_> = small.iter().collect();
                while !entries.is_empty() {
                    let (field, value) = entries[below(entries.len())];
                    if visit(field, value).is_break() {
                        break;
                    }
                }
            }
            Self::Large(large) => large.draw(below, &mut visit),
        }
    }

    /// How many entries a span has.
    pub(crate) fn count(&self, span: Span<'_>) -> usize {
        if span == Span::ALL {
            return self.len();
        }
        let mut count = 0;
        self.walk(span, false, |_, _| {
            count += 1;
            ControlFlow::Continue(())
        });
        count
    }

    /// The fields of a span's first entries, at most `limit`, or of its last ones if `reverse`.
    pub(crate) fn fields(&self, span: Span<'_>, reverse: bool, limit: usize) -> Vec<Box<[u8]>> {
        let mut fields = Vec::new();
        if limit > 0 {
            self.walk(span, reverse, |field, _| {
                fields.push(field.into());
                if fields.len() < limit {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
        }
        fields
    }

    /// A map with the same entries.
    pub(crate) fn copy(&self) -> Result<Self, NoMemory> {
        Ok(match self {
            Self::Small(small) => Self::Small(small.clone()),
            Self::Large(large) => Self::Large(Box::new(large.copy()?)),
        })
    }
}
