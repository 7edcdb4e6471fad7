//! The sorted order of a key set: what a scan must return.

use crate::keyset::KeySet;

/// The keys of a set in byte order, by index.
#[derive(Debug)]
pub struct Order {
    by_rank: Vec<u32>,
    rank_of: Vec<u32>,
}

impl Order {
    /// Sorts all keys of `keys`, present and absent.
    pub fn of(keys: &KeySet) -> Self {
        let mut refs: Vec<(u64, u32)> =
            (0..keys.len()).map(|i| (first_eight(keys.key(i)), i as u32)).collect();
        refs.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| keys.key(a.1 as usize).cmp(keys.key(b.1 as usize)))
        });
        Self::from_ranks(refs.into_iter().map(|(_, index)| index).collect())
    }

    pub(crate) fn from_ranks(by_rank: Vec<u32>) -> Self {
        let mut rank_of = vec![0; by_rank.len()];
        for (rank, &index) in by_rank.iter().enumerate() {
            rank_of[index as usize] = rank as u32;
        }
        Self { by_rank, rank_of }
    }

    /// Returns the indexes of the keys, smallest key first.
    pub fn by_rank(&self) -> &[u32] {
        &self.by_rank
    }

    /// Returns how many keys are smaller than the key `index`.
    pub fn rank_of(&self, index: usize) -> usize {
        self.rank_of[index] as usize
    }
}

/// Returns the first eight bytes as a number that sorts like them, zeros behind a short key.
fn first_eight(key: &[u8]) -> u64 {
    let mut word = [0; 8];
    let n = key.len().min(8);
    word[..n].copy_from_slice(&key[..n]);
    u64::from_be_bytes(word)
}
