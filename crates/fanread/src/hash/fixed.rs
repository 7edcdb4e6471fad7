//! Functions that file formats prescribe. Their results are in files: none may ever change.
//!
//! Nothing here is keyed. Whoever makes the keys of a file can make them collide, so a reader bounds its probes and a
//! builder its searches.

/// The factor of `MurmurHash64A`.
const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;

/// The shift of `MurmurHash64A`.
const SHIFT: u32 = 47;

/// Returns `MurmurHash64A` of `bytes`, words read as little-endian numbers.
///
/// PAPER: Austin Appleby's function; `docs/formats/cuckoo-table.md` gives it with test vectors.
#[inline(always)]
pub(crate) fn murmur64a(bytes: &[u8], seed: u32) -> u64 {
    let mut hash = u64::from(seed) ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ (hash >> SHIFT)).wrapping_mul(FACTOR);
    hash ^ (hash >> SHIFT)
}

/// The polynomial of CRC-32C (Castagnoli), lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[k][b]` is what byte `b` contributes with `k` more bytes behind it.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (POLYNOMIAL * (crc & 1));
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[k - 1][byte];
            tables[k][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
}

/// The CRC-32C of bytes that come in parts; eight bytes a step, on any processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crc32c(u32);

impl Crc32c {
    /// The checksum of nothing.
    pub(crate) fn new() -> Self {
        Self(!0)
    }

    /// Adds `bytes` to what was summed.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let (words, tail) = bytes.as_chunks::<8>();
        for word in words {
            let [a, b, c, d] = self.0.to_le_bytes();
            let word = [
                word[0] ^ a,
                word[1] ^ b,
                word[2] ^ c,
                word[3] ^ d,
                word[4],
                word[5],
                word[6],
                word[7],
            ];
            self.0 = (0..8).fold(0, |crc, k| crc ^ TABLES[7 - k][usize::from(word[k])]);
        }
        for byte in tail {
            self.0 = (self.0 >> 8) ^ TABLES[0][usize::from(self.0 as u8 ^ byte)];
        }
    }

    /// Returns the checksum of all bytes so far.
    pub(crate) fn value(self) -> u32 {
        !self.0
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn murmur_gives_the_values_of_the_written_format() {
        let sequential: Vec<u8> = (0..16).collect();
        let cases: [(&[u8], [u64; 3]); 5] = [
            (b"a", [0x0717_17d2_d36b_6b11, 0x158c_faf9_d798_5c96, 0x2ea7_f595_af06_6408]),
            (b"abc", [0x9cc9_c334_98a9_5efb, 0x1843_10ed_d6b9_5ae0, 0x3142_bf87_2e35_e8dc]),
            (b"key00000", [0xad4a_aea5_5bab_4f55, 0x6898_f57e_0191_c597, 0x78dd_eaba_9e16_473e]),
            (
                b"user-key-0013",
                [0x04b6_79ed_68d6_640e, 0xe788_c63d_1188_566d, 0xc34e_7cdd_7ea8_868f],
            ),
            (&sequential, [0xe670_9e19_2441_a2f3, 0xc08e_f999_f6e3_9d24, 0x26fc_277c_1393_fb06]),
        ];
        for (key, hashes) in cases {
            let found = [0, 816_922_183, 1_633_844_366].map(|seed| murmur64a(key, seed));
            assert_eq!(found, hashes, "{key:?}");
        }
    }

    #[test]
    fn crc_gives_the_published_values_however_the_bytes_are_cut() {
        let ascending: Vec<u8> = (0..32).collect();
        let cases: [(&[u8], u32); 4] = [
            (b"", 0),
            (b"123456789", 0xe306_9283),
            (&[0; 32], 0x8a91_36aa),
            (&ascending, 0x46dd_794e),
        ];
        for (bytes, expected) in cases {
            for cut in 0..=bytes.len() {
                let mut crc = Crc32c::new();
                crc.update(&bytes[..cut]);
                crc.update(&bytes[cut..]);
                assert_eq!(crc.value(), expected, "{bytes:?} cut at {cut}");
            }
        }
    }
}
