//! Iterators that own their hold on a map.

use std::sync::Arc;

/// All entries of a map, copied some at a time.
///
/// It knows where it is by the last key, so the map is not pinned between two steps, and lets go of the map at the end.
#[derive(Debug)]
pub(crate) struct Copies<M, K, V> {
    /// `None` at the end.
    map: Option<Arc<M>>,
    last: Option<K>,
    ahead: std::vec::IntoIter<(K, V)>,
}

impl<M, K: Clone, V> Copies<M, K, V> {
    pub(crate) fn of(map: &Arc<M>) -> Self {
        Self { map: Some(Arc::clone(map)), last: None, ahead: Vec::new().into_iter() }
    }

    /// The next entry; `step` copies some of those behind a key, or the first ones.
    #[inline]
    pub(crate) fn next(
        &mut self,
        step: impl FnOnce(&M, Option<&K>) -> Vec<(K, V)>,
    ) -> Option<(K, V)> {
        if self.ahead.len() == 0 {
            let copies = step(self.map.as_deref()?, self.last.as_ref());
            let Some((last, _)) = copies.last() else {
                self.map = None;
                return None;
            };
            self.last = Some(last.clone());
            self.ahead = copies.into_iter();
        }
        self.ahead.next()
    }
}
