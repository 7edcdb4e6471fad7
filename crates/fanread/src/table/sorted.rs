//! All entries of a table in the order in which they are placed, wherever their bytes are.
//!
//! Values come first, by key, then deletions, by key: that is `RocksDB`'s order. An entry's place in it is its number.

use super::BuildError;

/// Records of one length, end to end, by key.
#[derive(Clone, Copy)]
pub(super) struct List<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) record_bytes: usize,
    pub(super) key_bytes: usize,
}

impl<'a> List<'a> {
    fn len(&self) -> usize {
        self.bytes.len() / self.record_bytes
    }

    #[inline]
    fn record(&self, index: usize) -> &'a [u8] {
        &self.bytes[index * self.record_bytes..][..self.record_bytes]
    }

    #[inline]
    fn key(&self, index: usize) -> &'a [u8] {
        &self.bytes[index * self.record_bytes..][..self.key_bytes]
    }
}

/// All entries by number.
pub(super) struct Sorted<'a> {
    /// Values and deletions; one of them may be without entries.
    lists: [List<'a>; 2],
    /// How many values there are: the number of the first deletion.
    split: usize,
    len: usize,
}

impl<'a> Sorted<'a> {
    /// Takes values and deletions; keys are of one length.
    pub(super) fn new(lists: [List<'a>; 2]) -> Self {
        let split = lists[0].len();
        Self { lists, split, len: split + lists[1].len() }
    }

    /// Returns a record that an entry has in the file, as far as it goes: deletions have no value.
    #[inline]
    pub(super) fn record(&self, number: usize) -> &'a [u8] {
        let [values, deletions] = &self.lists;
        match number.checked_sub(self.split) {
            None => values.record(number),
            Some(index) => deletions.record(index),
        }
    }

    #[inline]
    pub(super) fn key(&self, number: usize) -> &'a [u8] {
        let [values, deletions] = &self.lists;
        match number.checked_sub(self.split) {
            None => values.key(number),
            Some(index) => deletions.key(index),
        }
    }

    /// Returns the keys of both lists in order.
    fn keys(&self) -> impl Iterator<Item = &'a [u8]> {
        let (mut value, mut deletion) = (0, self.split);
        core::iter::from_fn(move || {
            let from_values = match (value < self.split, deletion < self.len) {
                (false, false) => return None,
                (true, true) => self.key(value) <= self.key(deletion),
                (is_value, _) => is_value,
            };
            let next = if from_values { &mut value } else { &mut deletion };
            *next += 1;
            Some(self.key(*next - 1))
        })
    }

    /// Refuses a key that is there twice.
    pub(super) fn refuse_duplicates(&self) -> Result<(), BuildError> {
        let mut before = None;
        for key in self.keys() {
            if before == Some(key) {
                return Err(BuildError::DuplicateKey { key: key.into() });
            }
            before = Some(key);
        }
        Ok(())
    }

    /// Returns a key that no entry has, the one that the format's builder finds if it finds one.
    pub(super) fn unused_key(&self) -> Option<Vec<u8>> {
        let ends = |at: fn(&List<'_>) -> usize| {
            let lists = self.lists.iter().filter(|list| list.len() > 0);
            lists.map(move |list| list.key(at(list)))
        };
        let smallest = ends(|_| 0).min()?;
        let largest = ends(|list| list.len() - 1).max()?;
        let mut key = smallest.to_vec();
        for at in (0..key.len()).rev() {
            key[at] = key[at].wrapping_sub(1);
            if *key < *smallest {
                return Some(key);
            }
        }
        let mut key = largest.to_vec();
        for at in (0..key.len()).rev() {
            key[at] = key[at].wrapping_add(1);
            if *key > *largest {
                return Some(key);
            }
        }
        // The format's builder gives up here, but there may be a gap.
        let mut next: Option<Vec<u8>> = None;
        for key in self.keys() {
            if next.as_ref().is_some_and(|next| **next < *key) {
                return next;
            }
            next = successor(key);
        }
        None
    }
}

/// Returns the next key of the same length.
fn successor(key: &[u8]) -> Option<Vec<u8>> {
    let at = key.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut next = key.to_vec();
    next[at] += 1;
    next[at + 1..].fill(0);
    Some(next)
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    type Keys<'a> = &'a [&'a [u8]];

    /// Entries that are keys and nothing else.
    struct Held {
        lists: [Vec<u8>; 2],
        key_bytes: usize,
    }

    impl Held {
        fn new(values: Keys<'_>, deletions: Keys<'_>) -> Self {
            let key_bytes = values.first().or(deletions.first()).map_or(1, |key| key.len());
            Self { lists: [values.concat(), deletions.concat()], key_bytes }
        }

        fn sorted(&self) -> Sorted<'_> {
            let (record_bytes, key_bytes) = (self.key_bytes, self.key_bytes);
            Sorted::new(self.lists.each_ref().map(|bytes| List { bytes, record_bytes, key_bytes }))
        }
    }

    #[test]
    fn the_unused_key_is_the_one_of_the_format() {
        let unused =
            |values: Keys<'_>, deletions| Held::new(values, deletions).sorted().unused_key();
        assert_eq!(unused(&[b"b", b"c"], &[]).unwrap(), b"a");
        assert_eq!(unused(&[b"b\0", b"c\0"], &[]).unwrap(), b"a\xff");
        assert_eq!(unused(&[&[0, 0, 0, 0], &[0, 0xff, 0xff, 0xff]], &[]).unwrap(), [1, 0, 0, 0]);
        // No byte to spare at either end: the gap in between.
        assert_eq!(unused(&[&[0], &[1], &[3], &[0xff]], &[]).unwrap(), [2]);
        let all: Vec<[u8; 1]> = (0..=255).map(|byte| [byte]).collect();
        assert_eq!(unused(&all.iter().map(|key| &key[..]).collect::<Vec<_>>(), &[]), None);
        // Deletions are keys as well.
        assert_eq!(unused(&[&[0]], &[&[1], &[0xff]]).unwrap(), [2]);
        assert_eq!(unused(&[], &[b"b"]).unwrap(), b"a");
    }

    #[test]
    fn values_have_the_lower_numbers_and_keys_are_in_order() {
        let held = Held::new(&[b"b", b"d"], &[b"a", b"c"]);
        let sorted = held.sorted();
        assert_eq!([0, 1, 2, 3].map(|number| sorted.key(number)), [b"b", b"d", b"a", b"c"]);
        assert!(sorted.keys().eq([b"a", b"b", b"c", b"d"]));
        sorted.refuse_duplicates().unwrap();
    }

    #[test]
    fn a_key_that_is_there_twice_is_named() {
        let cases: [(Keys<'_>, Keys<'_>); 3] =
            [(&[b"a", b"b", b"b"], &[]), (&[], &[b"b", b"b", b"c"]), (&[b"a", b"b"], &[b"b"])];
        for (values, deletions) in cases {
            let refused = Held::new(values, deletions).sorted().refuse_duplicates();
            assert!(matches!(refused, Err(BuildError::DuplicateKey { key }) if *key == *b"b"));
        }
    }
}
