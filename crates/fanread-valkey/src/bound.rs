//! Bounds as commands have them: `[a` and `(a` with and without the field itself, `-` and `+` below and above all fields.

use std::ops::Bound;

use crate::tree::Span;

/// One end of a span, before it is known which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edge<'a> {
    /// `-`
    Lowest,
    /// `+`
    Highest,
    /// `[field`
    Included(&'a [u8]),
    /// `(field`
    Excluded(&'a [u8]),
}

/// Reads a bound; `None` if it is none.
pub(crate) fn edge(text: &[u8]) -> Option<Edge<'_>> {
    match text {
        b"-" => Some(Edge::Lowest),
        b"+" => Some(Edge::Highest),
        [b'[', field @ ..] => Some(Edge::Included(field)),
        [b'(', field @ ..] => Some(Edge::Excluded(field)),
        _ => None,
    }
}

/// The span between two bounds; `None` if nothing is between them, whatever the map has.
pub(crate) fn span<'a>(low: Edge<'a>, high: Edge<'a>) -> Option<Span<'a>> {
    let start = match low {
        Edge::Lowest => Bound::Unbounded,
        Edge::Highest => return None,
        Edge::Included(field) => Bound::Included(field),
        Edge::Excluded(field) => Bound::Excluded(field),
    };
    let end = match high {
        Edge::Highest => Bound::Unbounded,
        Edge::Lowest => return None,
        Edge::Included(field) => Bound::Included(field),
        Edge::Excluded(field) => Bound::Excluded(field),
    };
    let inverted = match (start, end) {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (
            Bound::Included(low) | Bound::Excluded(low),
            Bound::Included(high) | Bound::Excluded(high),
        ) => low >= high,
        _ => false,
    };
    (!inverted).then_some(Span { start, end })
}

/// The first string above all that start with `prefix`; `None` if there is none.
pub(crate) fn above_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut above = prefix[..=kept].to_vec();
    above[kept] += 1;
    Some(above)
}
