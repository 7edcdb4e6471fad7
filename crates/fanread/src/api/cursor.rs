//! Range arguments: bounds that are kept while a range runs.

use core::ops::Bound;

/// A bound of a range, kept while the range runs.
#[derive(Clone, Debug)]
pub(crate) enum Edge {
    Open,
    Included(Box<[u8]>),
    Excluded(Box<[u8]>),
}

impl Edge {
    pub(crate) fn of(bound: Bound<&[u8]>) -> Self {
        match bound {
            Bound::Unbounded => Self::Open,
            Bound::Included(key) => Self::Included(key.into()),
            Bound::Excluded(key) => Self::Excluded(key.into()),
        }
    }

    /// The bound that it was made of.
    pub(crate) fn bound(&self) -> Bound<&[u8]> {
        match self {
            Self::Open => Bound::Unbounded,
            Self::Included(key) => Bound::Included(key),
            Self::Excluded(key) => Bound::Excluded(key),
        }
    }

    /// The end of the keys that start with `prefix`.
    pub(crate) fn behind(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let Some(last) = end.last_mut() else { return Self::Open };
        *last += 1;
        Self::Excluded(end.into())
    }

    /// Whether a key lies behind this edge as the end of a range.
    #[inline]
    pub(crate) fn ends_before(&self, key: &[u8]) -> bool {
        match self {
            Self::Open => false,
            Self::Included(edge) => *key > **edge,
            Self::Excluded(edge) => *key >= **edge,
        }
    }

    /// Whether a key lies before this edge as the start of a range.
    #[inline]
    pub(crate) fn starts_after(&self, key: &[u8]) -> bool {
        match self {
            Self::Open => false,
            Self::Included(edge) => *key < **edge,
            Self::Excluded(edge) => *key <= **edge,
        }
    }
}

/// The keys that are below the place where a walk comes in, between two of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Below<'e> {
    pub(crate) edge: &'e [u8],
    /// Whether the edge itself is.
    with_edge: bool,
}

impl<'e> Below<'e> {
    /// Those below `edge`.
    pub(crate) fn key(edge: &'e [u8]) -> Self {
        Self { edge, with_edge: false }
    }

    /// Those below where a walk from a bound comes in, on the way up or down; `None` if it has no edge.
    #[inline(always)]
    pub(crate) fn bound<const UP: bool>(bound: Bound<&'e [u8]>) -> Option<Self> {
        // An edge that belongs to the walk is not below a walk up, and below one down.
        match bound {
            Bound::Unbounded => None,
            // Nothing is below the empty key, nor worth a comparison with it.
            Bound::Included([]) if UP => None,
            Bound::Included(edge) => Some(Self { edge, with_edge: !UP }),
            Bound::Excluded(edge) => Some(Self { edge, with_edge: UP }),
        }
    }

    #[inline(always)]
    pub(crate) fn has(self, key: &[u8]) -> bool {
        if self.with_edge { key <= self.edge } else { key < self.edge }
    }
}

/// Whether a range between these bounds is empty by itself.
pub(crate) fn inverted(start: Bound<&[u8]>, end: Bound<&[u8]>) -> bool {
    match (start, end) {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
            a >= b
        }
        _ => false,
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_walk_up_from_the_empty_key_has_no_edge() {
        assert!(Below::bound::<true>(Bound::Included(b"")).is_none());
        assert!(!Below::bound::<false>(Bound::Excluded(b"")).expect("an edge").has(b""));
        for below in [
            Below::bound::<false>(Bound::Included(b"")),
            Below::bound::<true>(Bound::Excluded(b"")),
        ] {
            let below = below.expect("an edge");
            assert!(below.has(b"") && !below.has(b"\0"));
        }
    }
}
