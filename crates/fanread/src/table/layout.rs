//! Where things are in a table file: buckets, blocks of buckets, and the properties that say how many there are.
//!
//! ```text
//! 0                                          data_bytes
//! +--------+--------+-- ... --+--------+----------+------------+------------+--------+
//! |bucket 0|bucket 1|         |T + B-2 |          | properties | meta-index | footer |
//! +--------+--------+-- ... --+--------+----------+------------+------------+--------+
//!     |                                                                       53 bytes
//!     +-- user key (U bytes), [sequence * 256 + kind (8 bytes)], value (V bytes)
//! ```
//!
//! Hash number `i` of a key names the first bucket of the key's block number `i`: `B` buckets in a row. Blocks never wrap
//! round; the last `B - 1` buckets are there for blocks that begin near the end.
//!
//! # Invariants
//!
//! * **T1** `bucket_bytes = U + 8 * has_sequences + V`, at least 1, and no number of this struct overflows a `usize`.
//! * **T2** There are `T + B - 1` buckets, at most `u32::MAX`; `T`, `B` and the number of hash functions are at least 1,
//!   the latter at most [`MAX_HASHES`]. Without `modulo`, `T` is a power of two.
//! * **T3** With `identity_first`, user keys have at least 8 bytes.
//! * **T4** `block(i, key)` lies inside the buckets.
//!
//! [`Layout::new`] refuses numbers that break T1 to T3; the tests below cover T4.

use core::ops::Range;

use crate::hash::fixed::murmur64a;

/// Bytes of the number behind a user key that holds sequence and kind.
pub(super) const TRAILER_BYTES: usize = 8;

/// The most hash functions a table can have. The format's builder stops there, and a reader probes no further.
pub(super) const MAX_HASHES: u32 = 64;

/// Bits of a trailer that hold the kind, the low ones; the others hold the sequence.
pub(super) const KIND_BITS: u32 = 8;

/// The largest sequence.
pub(super) const MAX_SEQUENCE: u64 = u64::MAX >> KIND_BITS;

/// What distances the seeds of consecutive hash functions.
const SEED_STEP: u32 = 816_922_183;

/// The kind of an entry, in the low byte of its trailer.
pub(super) const KIND_DELETION: u8 = 0;
/// See [`KIND_DELETION`].
pub(super) const KIND_VALUE: u8 = 1;

/// The numbers that shape a table; see the module for their invariants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// U.
    pub(super) user_key_bytes: usize,
    /// V.
    pub(super) value_bytes: usize,
    /// B.
    pub(super) block_buckets: usize,
    /// T.
    pub(super) table_buckets: u64,
    /// How many hash functions keys were placed with.
    pub(super) hashes: u32,
    /// Whether sequence and kind follow each user key.
    pub(super) has_sequences: bool,
    /// Whether a hash is divided by T; otherwise its low bits are taken.
    pub(super) modulo: bool,
    /// Whether hash number 0 is the key's first eight bytes.
    pub(super) identity_first: bool,
    /// `(2^64 - 1) / T`, see `reduce`.
    reciprocal: u64,
}

/// A number of a layout that breaks an invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    UserKeyBytes,
    ValueBytes,
    BlockBuckets,
    TableBuckets,
    Hashes,
    IdentityFirst,
}

/// The numbers a layout is made from, as they are in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) user_key_bytes: u64,
    pub(super) value_bytes: u64,
    pub(super) block_buckets: u64,
    pub(super) table_buckets: u64,
    pub(super) hashes: u64,
    pub(super) has_sequences: bool,
    pub(super) modulo: bool,
    pub(super) identity_first: bool,
}

impl Layout {
    /// Makes the layout of `shape`, or names the number that cannot be.
    pub(super) fn new(shape: &Shape) -> Result<Self, Refused> {
        let &Shape { user_key_bytes, value_bytes, block_buckets, table_buckets, hashes, .. } =
            shape;
        let small = |number: u64, refused| {
            // RocksDB holds both lengths in 32 bits.
            u32::try_from(number).map(|number| number as usize).map_err(|_| refused)
        };
        let user_key_bytes = small(user_key_bytes, Refused::UserKeyBytes)?;
        let value_bytes = small(value_bytes, Refused::ValueBytes)?;
        if user_key_bytes == 0 {
            return Err(Refused::UserKeyBytes);
        }
        if block_buckets == 0 || block_buckets > u64::from(u32::MAX) {
            return Err(Refused::BlockBuckets);
        }
        let buckets = table_buckets.saturating_add(block_buckets - 1);
        let power_of_two = shape.modulo || table_buckets.is_power_of_two();
        if table_buckets == 0 || buckets > u64::from(u32::MAX) || !power_of_two {
            return Err(Refused::TableBuckets);
        }
        if hashes == 0 || hashes > u64::from(MAX_HASHES) {
            return Err(Refused::Hashes);
        }
        if shape.identity_first && user_key_bytes < 8 {
            return Err(Refused::IdentityFirst);
        }
        // In 64 bits: sums of two lengths fit, their product with the buckets may not, nor either of them a `usize`.
        let trailer_bytes = if shape.has_sequences { TRAILER_BYTES as u64 } else { 0 };
        let bucket_bytes = shape.user_key_bytes + trailer_bytes + shape.value_bytes;
        let data_bytes = buckets.checked_mul(bucket_bytes);
        if data_bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(Refused::TableBuckets);
        }
        Ok(Self {
            user_key_bytes,
            value_bytes,
            block_buckets: block_buckets as usize,
            table_buckets,
            hashes: hashes as u32,
            has_sequences: shape.has_sequences,
            modulo: shape.modulo,
            identity_first: shape.identity_first,
            reciprocal: u64::MAX / table_buckets,
        })
    }

    /// Returns how many bytes of a bucket are its key: K.
    #[inline]
    pub(super) fn key_bytes(&self) -> usize {
        self.user_key_bytes + if self.has_sequences { TRAILER_BYTES } else { 0 }
    }

    /// Returns how many bytes a bucket has.
    #[inline]
    pub(super) fn bucket_bytes(&self) -> usize {
        self.key_bytes() + self.value_bytes
    }

    /// Returns how many buckets there are: T + B - 1.
    #[inline]
    pub(super) fn buckets(&self) -> usize {
        self.table_buckets as usize + self.block_buckets - 1
    }

    /// Returns how many bytes all buckets have.
    #[inline]
    pub(super) fn data_bytes(&self) -> usize {
        self.buckets() * self.bucket_bytes()
    }

    /// Returns the bytes of bucket `bucket`.
    #[inline]
    pub(super) fn bucket<'a>(&self, data: &'a [u8], bucket: usize) -> &'a [u8] {
        let at = bucket * self.bucket_bytes();
        &data[at..at + self.bucket_bytes()]
    }

    /// Returns the first bucket of block number `number` of `user_key`.
    #[inline(always)]
    pub(super) fn block_at(&self, number: u32, user_key: &[u8]) -> usize {
        let hash = match user_key.first_chunk::<8>() {
            Some(first) if number == 0 && self.identity_first => u64::from_le_bytes(*first),
            _ => murmur64a(user_key, SEED_STEP.wrapping_mul(number)),
        };
        self.reduce(hash)
    }

    /// Returns block number `number` of `user_key`.
    #[inline(always)]
    pub(super) fn block(&self, number: u32, user_key: &[u8]) -> Range<usize> {
        let at = self.block_at(number, user_key);
        at..at + self.block_buckets
    }

    /// Returns a number below T.
    #[inline(always)]
    fn reduce(&self, hash: u64) -> usize {
        let size = self.table_buckets;
        if !self.modulo {
            return (hash & (size - 1)) as usize;
        }
        // A division takes several times as long as a multiplication on many processors. The reciprocal is less than
        // 1 + 1/T below 2^64 / T, so the quotient is at most 2 too small and the rest below 3 T, far from overflow.
        let quotient = ((u128::from(hash) * u128::from(self.reciprocal)) >> 64) as u64;
        let mut rest = hash - quotient * size;
        for _ in 0..2 {
            if rest >= size {
                rest -= size;
            }
        }
        rest as usize
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        user_key_bytes: 8,
        value_bytes: 4,
        block_buckets: 5,
        table_buckets: 1111,
        hashes: 2,
        has_sequences: false,
        modulo: true,
        identity_first: false,
    };

    #[test]
    fn the_example_of_the_written_format() {
        let layout = Layout::new(&SHAPE).unwrap();
        assert_eq!(layout.block(0, b"key00000"), 947..952);
        assert_eq!(layout.buckets(), 1115);
        assert_eq!(layout.data_bytes(), 1115 * 12);
    }

    #[test]
    fn a_remainder_is_the_remainder() {
        let sizes = [1, 2, 3, 5, 1111, 1 << 20, (1 << 31) - 1, u64::from(u32::MAX) - 4];
        for table_buckets in sizes {
            let layout = Layout::new(&Shape { table_buckets, ..SHAPE }).unwrap();
            for i in 0..1000_u64 {
                let edge = (u64::MAX / table_buckets).wrapping_mul(table_buckets);
                for hash in
                    [i, !i, i << 54, i.wrapping_mul(0x9e37_79b9_7f4a_7c15), edge.wrapping_sub(i)]
                {
                    assert_eq!(
                        layout.reduce(hash) as u64,
                        hash % table_buckets,
                        "{hash} {table_buckets}"
                    );
                }
            }
        }
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        let max = u64::from(u32::MAX);
        let cases = [
            (Shape { user_key_bytes: 0, ..SHAPE }, Refused::UserKeyBytes),
            (Shape { user_key_bytes: max + 1, ..SHAPE }, Refused::UserKeyBytes),
            (Shape { value_bytes: max + 1, ..SHAPE }, Refused::ValueBytes),
            (Shape { block_buckets: 0, ..SHAPE }, Refused::BlockBuckets),
            (Shape { block_buckets: max + 1, ..SHAPE }, Refused::BlockBuckets),
            (Shape { table_buckets: 0, ..SHAPE }, Refused::TableBuckets),
            (Shape { table_buckets: max - 3, ..SHAPE }, Refused::TableBuckets),
            (Shape { table_buckets: u64::MAX, ..SHAPE }, Refused::TableBuckets),
            (Shape { table_buckets: 1000, modulo: false, ..SHAPE }, Refused::TableBuckets),
            (Shape { user_key_bytes: max, table_buckets: max - 4, ..SHAPE }, Refused::TableBuckets),
            (Shape { hashes: 0, ..SHAPE }, Refused::Hashes),
            (Shape { hashes: 65, ..SHAPE }, Refused::Hashes),
            (Shape { user_key_bytes: 7, identity_first: true, ..SHAPE }, Refused::IdentityFirst),
        ];
        for (shape, refused) in cases {
            assert_eq!(Layout::new(&shape), Err(refused), "{shape:?}");
        }
        assert!(Layout::new(&Shape { table_buckets: 1024, modulo: false, ..SHAPE }).is_ok());
        assert!(Layout::new(&Shape { table_buckets: max - 4, ..SHAPE }).is_ok());
    }

    #[test]
    fn identity_takes_the_first_eight_bytes_for_hash_0_only() {
        let shape = Shape { table_buckets: 1 << 16, modulo: false, identity_first: true, ..SHAPE };
        let layout = Layout::new(&shape).unwrap();
        let key = 0x1234_5678_u64.to_le_bytes();
        assert_eq!(layout.block_at(0, &key), 0x5678);
        let plain = Layout::new(&Shape { identity_first: false, ..shape }).unwrap();
        assert_eq!(layout.block_at(1, &key), plain.block_at(1, &key));
        assert_ne!(plain.block_at(0, &key), 0x5678);
    }
}
