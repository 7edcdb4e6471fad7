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
