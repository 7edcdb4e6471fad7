//! A set of keys: one run of bytes, and where each key starts.
//!
//! ```text
//! bytes   | key 0 | key 1 | ...            | key n-1 |  on 2 MB pages
//! spans   | start << 16 | length | ...               |  only if lengths differ
//!         <--- present: in the map ---><-- absent --->
//! ```
//!
//! # Invariants
//!
//! * **K1** No key occurs twice; the tail that is kept out of the map makes queries that miss.
//! * **K2** No key is longer than [`MAX_KEY_BYTES`].
//!
//! The tests of `dataset` check K1 for every set.

use std::io::{self, Read, Write};

use crate::arena::Arena;
use crate::order::Order;
use crate::rng::{Rng, mix64};

/// The longest key that a byte-string map of ours takes.
pub const MAX_KEY_BYTES: usize = 65_535;

/// Says that bytes were written by [`KeySet::save`], and the version of its layout.
const MAGIC: u64 = u64::from_le_bytes(*b"fanrdks1");

/// Different keys, most of them for the map, the rest for queries that miss.
#[derive(Debug)]
pub struct KeySet {
    bytes: Arena,
    /// `start << 16 | length` of each key; empty where all lengths are `fixed`.
    spans: Vec<u64>,
    fixed: usize,
    len: usize,
    present: usize,
    longest: usize,
    is_u64: bool,
}

impl KeySet {
    /// Makes an empty set whose keys are all `length` bytes long.
    pub(crate) fn fixed(length: usize, keys: usize) -> io::Result<Self> {
        Ok(Self {
            bytes: Arena::with_capacity(length * keys)?,
            spans: Vec::new(),
            fixed: length,
            len: 0,
            present: 0,
            longest: length,
            is_u64: length == 8,
        })
    }

    /// Makes an empty set of keys of any length, about `bytes` in all.
    pub(crate) fn variable(keys: usize, bytes: usize) -> io::Result<Self> {
        Ok(Self {
            bytes: Arena::with_capacity(bytes)?,
            spans: Vec::with_capacity(keys),
            fixed: 0,
            len: 0,
            present: 0,
            longest: 0,
            is_u64: false,
        })
    }

    /// Appends a key that is not in the set.
    pub(crate) fn push(&mut self, key: &[u8]) -> io::Result<()> {
        debug_assert!(key.len() <= MAX_KEY_BYTES);
        if self.fixed == 0 {
            self.spans.push((self.bytes.len() as u64) << 16 | key.len() as u64);
            self.longest = self.longest.max(key.len());
        } else {
            debug_assert_eq!(key.len(), self.fixed);
        }
        self.bytes.push(key)?;
        self.len += 1;
        self.present = self.len;
        Ok(())
    }

    /// Puts the keys in random order, in memory too: a load then reads them front to back.
    pub(crate) fn shuffle(&mut self, seed: u64) -> io::Result<()> {
        let mut rng = Rng::new(seed ^ 0x005b_f1e0);
        let fixed = self.fixed;
        for i in (1..self.len).rev() {
            let j = rng.index(i + 1);
            if fixed == 0 {
                self.spans.swap(i, j);
            } else if i != j {
                let (low, high) = self.bytes.bytes_mut().split_at_mut(i * fixed);
                low[j * fixed..][..fixed].swap_with_slice(&mut high[..fixed]);
            }
        }
        if fixed == 0 {
            let mut moved = Arena::with_capacity(self.bytes.len())?;
            for span in &mut self.spans {
                let key =
                    &self.bytes.bytes()[(*span >> 16) as usize..][..(*span & 0xffff) as usize];
                *span = (moved.len() as u64) << 16 | key.len() as u64;
                moved.push(key)?;
            }
            self.bytes = moved;
        }
        Ok(())
    }

    /// Keeps the last keys out of the map, `absent` of them.
    pub(crate) fn keep_out(&mut self, absent: usize) {
        self.present = self.len - absent.min(self.len);
    }

    /// Returns a key; those from [`present`](Self::present) on are not for the map.
    #[inline]
    pub fn key(&self, index: usize) -> &[u8] {
        if self.fixed != 0 {
            &self.bytes.bytes()[index * self.fixed..][..self.fixed]
        } else {
            let span = self.spans[index];
            &self.bytes.bytes()[(span >> 16) as usize..][..(span & 0xffff) as usize]
        }
    }

    /// Returns how many keys are for the map.
    pub fn present(&self) -> usize {
        self.present
    }

    /// Returns how many keys are kept out of the map.
    pub fn absent(&self) -> usize {
        self.len - self.present
    }

    /// Returns how many keys there are in all.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Tells whether there is no key at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Tells whether every key is a big-endian 64-bit number.
    pub fn is_u64(&self) -> bool {
        self.is_u64
    }

    /// Returns the length of the longest key.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Returns the bytes of all keys that are for the map.
    pub fn present_bytes(&self) -> u64 {
        if self.fixed != 0 {
            return (self.present * self.fixed) as u64;
        }
        self.spans[..self.present].iter().map(|span| span & 0xffff).sum()
    }

    /// Writes the set, and the order of its keys if there is one.
    ///
    /// # Errors
    ///
    /// Those of writing.
    pub fn save(&self, out: &mut dyn Write, order: Option<&Order>) -> io::Result<()> {
        let ranks = order.map_or(&[][..], Order::by_rank);
        let head = [
            MAGIC,
            self.bytes.len() as u64,
            self.spans.len() as u64,
            self.fixed as u64,
            self.len as u64,
            self.present as u64,
            self.longest as u64,
            u64::from(self.is_u64),
            ranks.len() as u64,
        ];
        out.write_all(bytemuck::cast_slice(&head))?;
        out.write_all(self.bytes.bytes())?;
        out.write_all(bytemuck::cast_slice(&self.spans))?;
        out.write_all(bytemuck::cast_slice(ranks))?;
        out.flush()
    }

    /// Reads back what [`save`](Self::save) wrote on this machine.
    ///
    /// # Errors
    ///
    /// Those of reading, and `InvalidData` if it is not a saved set.
    pub fn load(input: &mut dyn Read) -> io::Result<(Self, Option<Order>)> {
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "not a saved key set");
        let mut head = [0u64; 9];
        input.read_exact(bytemuck::cast_slice_mut(&mut head))?;
        let [magic, bytes, spans, fixed, len, present, longest, is_u64, ranks] = head;
        if magic != MAGIC || present > len || (fixed == 0 && spans != len) {
            return Err(bad());
        }
        let mut set = Self::fixed(0, 0)?;
        set.bytes = Arena::with_capacity(bytes as usize)?;
        input.read_exact(set.bytes.extend_zeroed(bytes as usize)?)?;
        set.spans = vec![0; spans as usize];
        input.read_exact(bytemuck::cast_slice_mut(&mut set.spans))?;
        (set.fixed, set.len, set.present) = (fixed as usize, len as usize, present as usize);
        (set.longest, set.is_u64) = (longest as usize, is_u64 != 0);
        if ranks == 0 {
            return Ok((set, None));
        }
        let mut by_rank = vec![0u32; ranks as usize];
        input.read_exact(bytemuck::cast_slice_mut(&mut by_rank))?;
        Ok((set, Some(Order::from_ranks(by_rank))))
    }
}

/// Hashes a key, to find repeated ones.
pub(crate) fn hash_of(key: &[u8]) -> u64 {
    let mut chunks = key.chunks_exact(8);
    let mut hash = 0x243f_6a88_85a3_08d3 ^ key.len() as u64;
    for chunk in &mut chunks {
        hash = mix64(hash ^ u64::from_le_bytes(chunk.try_into().expect("chunks of eight")));
    }
    let mut last = [0; 8];
    last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    mix64(hash ^ u64::from_le_bytes(last))
}

/// The hashes of the keys seen so far: an open-addressing table of words.
///
/// Two keys with one hash count as repeated. That drops one key in 10^5 sets of 10^7 keys.
#[derive(Debug)]
pub(crate) struct Seen {
    table: Vec<u64>,
    len: usize,
}

impl Seen {
    /// Makes a table for about `keys` keys.
    pub(crate) fn new(keys: usize) -> Self {
        Self { table: vec![0; (keys * 2).next_power_of_two().max(1024)], len: 0 }
    }

    /// Adds a hash and tells whether it is new.
    pub(crate) fn add(&mut self, hash: u64) -> bool {
        if self.len * 3 > self.table.len() * 2 {
            let larger = vec![0; self.table.len() * 2];
            for hash in std::mem::replace(&mut self.table, larger).into_iter().filter(|&h| h != 0) {
                self.place(hash);
            }
        }
        let new = self.place(hash.max(1));
        self.len += usize::from(new);
        new
    }

    fn place(&mut self, hash: u64) -> bool {
        let mask = self.table.len() - 1;
        let mut at = hash as usize & mask;
        while self.table[at] != 0 {
            if self.table[at] == hash {
                return false;
            }
            at = (at + 1) & mask;
        }
        self.table[at] = hash;
        true
    }
}
