//! Linear probing in one array, which is rehashed as a whole when it is nearly full.
//!
//! PAPER: 002, section 6: the static table that CCEH is compared with, rehashed at a load of 95 %.

use workload::subject::Subject;

use crate::exclusive::{Plain, Reader, Writer};
use crate::form::{Form, Word};

/// Slots of an empty table; the paper's tables begin with room for 2048 records.
const FIRST_SLOTS: usize = 2048;

/// How many of 100 slots may be in use.
const FULL_PERCENT: usize = 95;

/// An odd number with no pattern in its bits.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A key and its value; key 0 is none.
type Slot = (u64, u64);

/// A table of one array, for numbers.
#[derive(Debug)]
pub struct LinearProbing {
    slots: Box<[Slot]>,
    /// How many slots are in use.
    used: usize,
    /// The value of key 0.
    zero: Option<u64>,
}

impl LinearProbing {
    /// The slot where the search for a key begins.
    #[inline]
    fn home(&self, key: u64) -> usize {
        let product = u128::from(key ^ FACTOR) * u128::from(FACTOR);
        (product as u64 ^ (product >> 64) as u64) as usize & (self.slots.len() - 1)
    }

    /// The slot of a key, or the free one where it would be.
    #[inline]
    fn slot(&self, key: u64) -> usize {
        let mut at = self.home(key);
        while self.slots[at].0 != key && self.slots[at].0 != 0 {
            at = self.behind(at);
        }
        at
    }

    #[inline]
    fn behind(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    /// Moves all entries to an array of twice the size.
    #[cold]
    fn rehash(&mut self) {
        let larger = vec![(0, 0); 2 * self.slots.len()].into();
        let old = std::mem::replace(&mut self.slots, larger);
        for entry in old.into_iter().filter(|(key, _)| *key != 0) {
            let at = self.slot(entry.0);
            self.slots[at] = entry;
        }
    }

    /// The place of a key's value, if it is there.
    #[inline]
    fn value_mut(&mut self, key: u64) -> Option<&mut u64> {
        if key == 0 {
            return self.zero.as_mut();
        }
        let at = self.slot(key);
        let (found, value) = &mut self.slots[at];
        (*found == key).then_some(value)
    }
}

impl Plain for LinearProbing {
    #[inline]
    fn put(&mut self, key: &[u8], value: u64) -> bool {
        let key = Word::make(key);
        if key == 0 {
            return self.zero.replace(value).is_none();
        }
        if (self.used + 1) * 100 > self.slots.len() * FULL_PERCENT {
            self.rehash();
        }
        let at = self.slot(key);
        let is_new = self.slots[at].0 == 0;
        self.used += usize::from(is_new);
        self.slots[at] = (key, value);
        is_new
    }

    #[inline]
    fn change(&mut self, key: &[u8], value: u64) -> bool {
        self.value_mut(Word::make(key)).map(|place| *place = value).is_some()
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        let key = Word::make(key);
        if key == 0 {
            return self.zero.take().is_some();
        }
        let mut free = self.slot(key);
        if self.slots[free].0 != key {
            return false;
        }
        self.used -= 1;
        // Entries behind come forward if the free slot lies between their home and them.
        let mut at = free;
        loop {
            at = self.behind(at);
            let entry = self.slots[at];
            if entry.0 == 0 {
                self.slots[free] = (0, 0);
                return true;
            }
            let mask = self.slots.len() - 1;
            let distance = |from: usize| at.wrapping_sub(from) & mask;
            if distance(self.home(entry.0)) >= distance(free) {
                self.slots[free] = entry;
                free = at;
            }
        }
    }

    #[inline]
    fn find(&self, key: &[u8]) -> Option<u64> {
        let key = Word::make(key);
        if key == 0 {
            return self.zero;
        }
        let (found, value) = self.slots[self.slot(key)];
        (found == key).then_some(value)
    }

    fn walk(&self, _: &[u8], _: usize, _: impl FnMut(&[u8], u64)) {
        unreachable!("a hash table has no order")
    }
}

impl Subject for LinearProbing {
    const NAME: &'static str = "linear-probing";
    const ORDERED: bool = false;
    const SHARED_WRITES: bool = false;
    const MAX_KEY_BYTES: usize = 8;

    type Owned<'a> = Writer<'a, Self>;
    type Shared<'a> = Reader<'a, Self>;

    fn new() -> Self {
        Self { slots: vec![(0, 0); FIRST_SLOTS].into(), used: 0, zero: None }
    }

    fn own(&mut self) -> Writer<'_, Self> {
        Writer(self)
    }

    fn share(&self) -> Reader<'_, Self> {
        Reader(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nearly_full_table_is_rehashed_and_loses_nothing() {
        let mut table = LinearProbing::new();
        let key = |n: u64| n.to_be_bytes();
        for n in 0..10_000 {
            assert!(table.put(&key(n), !n));
            assert!(table.used * 100 <= table.slots.len() * FULL_PERCENT);
        }
        assert_eq!((table.used, table.slots.len()), (9_999, 16_384));
        for n in (0..10_000).step_by(2) {
            assert!(table.delete(&key(n)) && !table.delete(&key(n)));
        }
        for n in 0..10_100 {
            let there = (n % 2 == 1 && n < 10_000).then_some(!n);
            assert_eq!(table.find(&key(n)), there, "{n}");
        }
        assert_eq!(table.used, 5_000);
    }
}
