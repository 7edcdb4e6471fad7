//! What who has a map of byte strings for himself can do more: change values in place, and find again what was found or written lately.
//!
//! Nobody else looks at the map then, so a record that is named by a slot of `recent.rs` is live (O4), and its value is the caller's. A
//! lookup by a slot waits for the slot's line and the record's; all else goes by the directory, as everybody's lookups do.

use super::bytes::{BytesMap, Written};
use super::raw::Record;
use super::recent::Named;
use crate::api::{InsertError, Rule};
use crate::arch::same;
use crate::sync::epoch;

/// What [`BytesMap::ask`] has found out of a key.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    hash: u64,
    named: Named,
}

impl BytesMap {
    /// Returns the value of `key`, to be changed where it is.
    ///
    /// # Cost
    ///
    /// That of [`get`](super::bytes::Pinned::get).
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::BytesMap;
    ///
    /// let mut map = BytesMap::new();
    /// map.pin().insert(b"kiwi", b"green");
    /// map.get_mut(b"kiwi").unwrap().make_ascii_uppercase();
    /// assert_eq!(map.pin().get(b"kiwi").as_deref(), Some(&b"GREEN"[..]));
    /// ```
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut [u8]> {
        Some(self.live(key, || ())?.bytes_mut())
    }

    /// Writes `value` over that of `key` where it is, and returns whether it did: if there is none, or its record has not enough
    /// room or twice as much, nothing happens.
    ///
    /// # Cost
    ///
    /// That of [`get`](super::bytes::Pinned::get). An [`insert`](super::bytes::Pinned::insert) makes a new record, and a place for it in a leaf.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::BytesMap;
    ///
    /// let mut map = BytesMap::new();
    /// map.pin().insert(b"kiwi", b"green");
    /// assert!(map.overwrite(b"kiwi", b"brown"));
    /// assert!(!map.overwrite(b"kiwi", &[b'x'; 500]) && !map.overwrite(b"plum", b"blue"));
    /// assert_eq!(map.pin().get(b"kiwi").as_deref(), Some(&b"brown"[..]));
    /// ```
    pub fn overwrite(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.live(key, || ()).is_some_and(|record| record.overwrite(value))
    }

    /// Maps `key` to a copy of `value`, and returns whether there was none: as [`overwrite`](Self::overwrite) where that is possible, else as
    /// [`try_insert`](super::bytes::Pinned::try_insert). What was right for the last key is tried first.
    ///
    /// # Errors
    ///
    /// As `try_insert`.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::BytesMap;
    ///
    /// let mut map = BytesMap::new();
    /// assert!(map.set(b"kiwi", b"green")?);
    /// assert!(!map.set(b"kiwi", b"golden")?);
    /// assert_eq!(map.pin().get(b"kiwi").as_deref(), Some(&b"golden"[..]));
    /// # Ok::<(), fanread::InsertError<()>>(())
    /// ```
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<bool, InsertError<()>> {
        if self.grows {
            // Which finds the place of a new key in one go.
            self.grows = matches!(self.pin().write(key, value, Rule::Absent)?, Written::New(_));
            if self.grows {
                return Ok(true);
            }
        }
        if self.overwrite(key, value) {
            return Ok(false);
        }
        self.grows = matches!(self.pin().write(key, value, Rule::Always)?, Written::New(_));
        Ok(self.grows)
    }

    /// Shows who has the map for himself the value of `key`, and calls `meanwhile` while the lines are on their way that the lookup waits for
    /// first.
    ///
    /// # Cost
    ///
    /// That of [`get`](super::bytes::Pinned::get). With [`keep_recent`](Self::keep_recent), what was found or written lately takes one wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::BytesMap;
    ///
    /// let mut map = BytesMap::new();
    /// map.pin().insert(b"kiwi", b"green");
    /// let mut asked = 0;
    /// assert_eq!(map.get_while(b"kiwi", || asked += 1), Some(&b"green"[..]));
    /// assert!(map.get_while(b"plum", || asked += 1).is_none());
    /// assert_eq!(asked, 2);
    /// ```
    #[inline]
    pub fn get_while(&mut self, key: &[u8], meanwhile: impl FnOnce()) -> Option<&[u8]> {
        Some(self.live(key, meanwhile)?.bytes_mut())
    }

    /// Shows who has the map for himself the value of `key`, as [`get_while`](Self::get_while) does, by what [`ask`](Self::ask) found out.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::BytesMap;
    ///
    /// let mut map = BytesMap::new();
    /// map.pin().insert(b"kiwi", b"green");
    /// let asked = map.ask(b"kiwi");
    /// assert_eq!(map.get_asked(b"kiwi", asked, || ()), Some(&b"green"[..]));
    /// // Whatever was asked for, in whatever map, an answer is right.
    /// assert!(map.get_asked(b"plum", asked, || ()).is_none());
    /// ```
    #[inline]
    pub fn get_asked(
        &mut self,
        key: &[u8],
        asked: Asked,
        meanwhile: impl FnOnce(),
    ) -> Option<&[u8]> {
        let map = &self.map;
        let record = if map.recent.names(asked.hash, asked.named) {
            // Its lines were asked for.
            let record = map.record(asked.named.number());
            meanwhile();
            if same(record.key(), key) { Some(record) } else { self.live(key, || ()) }
        } else {
            self.live(key, meanwhile)
        };
        Some(record?.bytes_mut())
    }

    /// Asks for the lines that a lookup of `key` waits for first, and says what [`get_asked`](Self::get_asked) need not find out again.
    #[inline]
    pub fn ask(&self, key: &[u8]) -> Asked {
        let hash = self.map.hash(key);
        let named = self.map.recent.named(hash).next().unwrap_or(Named::NONE);
        if named.number() != 0 {
            self.map.record(named.number()).ask(key.len());
        } else {
            self.ask_table(hash);
        }
        Asked { hash, named }
    }

    #[inline(never)]
    fn ask_table(&self, hash: u64) {
        self.map.ask_wide(hash, &epoch::pin());
    }

    /// Asks for the lines that a [`set`](Self::set) of `key` waits for first: if the last key was new, also those of a leaf.
    #[inline]
    pub fn ask_to_set(&self, key: &[u8]) {
        if !self.grows {
            self.ask(key);
            return;
        }
        let guard = epoch::pin();
        let probe = self.map.list.table.probe(key, &guard);
        self.map.ask_wide(probe.full_hash(), &guard);
        if let Some(hint) = self.map.hint(key, probe) {
            hint.leaf.ask();
        }
    }

    /// Keeps a list of what is found and written lately by who has the map for himself: he finds it again without a wait for the
    /// directory. The list has 24,576 places, or 128 KB, once the map has 131,072 entries; a smaller one has none.
    ///
    /// Each write is a store more.
    pub fn keep_recent(&mut self) {
        self.map.recent.is_kept = true;
    }

    /// The record of a key, for who has the map for himself: it stays where it is, and its value unseen by others, as long as he has.
    #[inline]
    fn live(&self, key: &[u8], meanwhile: impl FnOnce()) -> Option<Record<'_, [u8]>> {
        let map = &self.map;
        let hash = map.hash(key);
        let mut all = map.recent.named(hash);
        let Some(named) = all.next() else {
            return map.find_live(hash, key, meanwhile);
        };
        let mut record = map.record(named.number());
        record.ask(key.len());
        meanwhile();
        while !same(record.key(), key) {
            let Some(named) = all.next() else {
                return map.find_live(hash, key, || ());
            };
            record = map.record(named.number());
        }
        Some(record)
    }
}
