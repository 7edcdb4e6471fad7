//! Twins for x86-64: in SSE2, which every such processor has, and in AVX-512 for whoever holds an [`Avx512`].
//!
//! The AVX-512 twin is assembly as a whole. So it needs no function compiled for AVX-512 around it, and can be
//! inlined into a search that was compiled for the baseline. It uses registers that only AVX-512 has (`zmm16` and
//! above), whose use does not slow down SSE code behind it.
//!
//! The vector loads are written in assembly. The words of a line are atomics that other threads store to, so
//! an ordinary vector load of them would be a data race; an assembly block is held to what it does, and a
//! 16-byte load does what two Relaxed loads of its aligned 8-byte halves do: x86-64 performs each half as one
//! access (and any split at a line's end falls between the halves).

use core::arch::asm;
use core::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_castps_si128, _mm_castsi128_ps, _mm_cmpeq_epi8, _mm_cmpeq_epi16,
    _mm_cmpeq_epi32, _mm_min_epu8, _mm_movemask_epi8, _mm_movemask_ps, _mm_packs_epi16,
    _mm_set1_epi8, _mm_set1_epi16, _mm_set1_epi32, _mm_set1_epi64x, _mm_shuffle_ps,
};
use core::sync::atomic::AtomicU64;

/// Loads words `2 * PAIR` and `2 * PAIR + 1`.
#[inline(always)]
fn pair<const PAIR: usize, const N: usize>(line: &[AtomicU64; N]) -> __m128i {
    const { assert!(2 * PAIR + 1 < N) };
    let value;
    // SAFETY: reads 16 of the bytes of `line`, as two Relaxed loads (see the file's header), and
    // writes nothing. `movdqu` needs no alignment beyond the words' own.
    unsafe {
        asm!(
            "movdqu {value}, [{line} + {at}]",
            value = out(xmm_reg) value,
            line = in(reg) line.as_ptr(),
            at = const PAIR * 16,
            options(readonly, nostack, preserves_flags),
        );
    }
    value
}

#[inline(always)]
pub(super) fn match_u16(line: &[AtomicU64; 8], tag: u16) -> u32 {
    let (a, b) = (pair::<0, _>(line), pair::<1, _>(line));
    let (c, d) = (pair::<2, _>(line), pair::<3, _>(line));
    // SAFETY: these work on registers and need SSE2 only, which every x86-64 processor has.
    unsafe {
        let want = _mm_set1_epi16(tag.cast_signed());
        // 0xFFFF and 0 stay 0xFF and 0 when packed with saturation, so a byte is left of each lane.
        let low = _mm_packs_epi16(_mm_cmpeq_epi16(a, want), _mm_cmpeq_epi16(b, want));
        let high = _mm_packs_epi16(_mm_cmpeq_epi16(c, want), _mm_cmpeq_epi16(d, want));
        _mm_movemask_epi8(low).cast_unsigned() | (_mm_movemask_epi8(high).cast_unsigned() << 16)
    }
}

/// Proof that the processor and the system support AVX-512 BW.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx512 {
    pub(crate) fn detect() -> Option<Self> {
        std::is_x86_feature_detected!("avx512bw").then_some(Self(()))
    }
}

impl super::Lanes for Avx512 {
    #[inline(always)]
    fn match_u16(self, line: &[AtomicU64; 8], tag: u16) -> u32 {
        let lanes;
        // SAFETY: `self` proves that the instructions exist. Reads the 64 bytes of `line`, as eight Relaxed loads (a
        // 64-byte load performs each aligned 8-byte part as one access), and writes nothing.
        unsafe {
            asm!(
                "vpbroadcastw zmm16, {tag:e}",
                "vpcmpeqw k1, zmm16, zmmword ptr [{line}]",
                "kmovd {lanes:e}, k1",
                tag = in(reg) tag,
                line = in(reg) line.as_ptr(),
                lanes = lateout(reg) lanes,
                out("zmm16") _,
                out("k1") _,
                options(readonly, nostack, preserves_flags),
            );
        }
        lanes
    }

    #[inline(always)]
    fn match_u64(self, line: &[AtomicU64; 8], want: u64, mask: u64) -> u8 {
        let words: u32;
        // SAFETY: as in `match_u16`.
        unsafe {
            asm!(
                "vpbroadcastq zmm16, {mask}",
                "vpbroadcastq zmm17, {want}",
                "vpandq zmm16, zmm16, zmmword ptr [{line}]",
                "vpcmpeqq k1, zmm16, zmm17",
                "kmovd {words:e}, k1",
                mask = in(reg) mask,
                want = in(reg) want,
                line = in(reg) line.as_ptr(),
                words = lateout(reg) words,
                out("zmm16") _,
                out("zmm17") _,
                out("k1") _,
                options(readonly, nostack, preserves_flags),
            );
        }
        words as u8
    }

    #[inline(always)]
    fn match_word(self, line: &[AtomicU64; 8], want: u64) -> u8 {
        let words: u32;
        // SAFETY: as in `match_u16`.
        unsafe {
            asm!(
                "vpbroadcastq zmm16, {want}",
                "vpcmpeqq k1, zmm16, zmmword ptr [{line}]",
                "kmovd {words:e}, k1",
                want = in(reg) want,
                line = in(reg) line.as_ptr(),
                words = lateout(reg) words,
                out("zmm16") _,
                out("k1") _,
                options(readonly, nostack, preserves_flags),
            );
        }
        words as u8
    }

    #[inline(always)]
    fn match_u32(self, line: &[AtomicU64; 8], want: u32, mask: u32) -> u32 {
        let lanes: u32;
        // SAFETY: as in `match_u16`. All lanes are compared: a shorter register would need AVX-512 VL as well.
        unsafe {
            asm!(
                "vpbroadcastd zmm16, {mask:e}",
                "vpbroadcastd zmm17, {want:e}",
                "vpandd zmm16, zmm16, zmmword ptr [{line}]",
                "vpcmpeqd k1, zmm16, zmm17",
                "kmovd {lanes:e}, k1",
                mask = in(reg) mask,
                want = in(reg) want,
                line = in(reg) line.as_ptr(),
                lanes = lateout(reg) lanes,
                out("zmm16") _,
                out("zmm17") _,
                out("k1") _,
                options(readonly, nostack, preserves_flags),
            );
        }
        lanes & HEADS
    }
}

/// The lanes that `match_u32` compares.
const HEADS: u32 = 0b1_1111;

#[inline(always)]
pub(super) fn match_u32(line: &[AtomicU64; 8], want: u32, mask: u32) -> u32 {
    let (low, high) = (pair::<0, _>(line), pair::<1, _>(line));
    // SAFETY: as in `match_u16`.
    unsafe {
        let want = _mm_set1_epi32(want.cast_signed());
        let mask = _mm_set1_epi32(mask.cast_signed());
        let low = _mm_castsi128_ps(_mm_cmpeq_epi32(_mm_and_si128(low, mask), want));
        let high = _mm_castsi128_ps(_mm_cmpeq_epi32(_mm_and_si128(high, mask), want));
        let (low, high) = (_mm_movemask_ps(low), _mm_movemask_ps(high));
        (low.cast_unsigned() | (high.cast_unsigned() << 4)) & HEADS
    }
}

#[inline(always)]
pub(super) fn match_u64(line: &[AtomicU64; 8], want: u64, mask: u64) -> u8 {
    let low = match_pairs(pair::<0, _>(line), pair::<1, _>(line), want, mask);
    let high = match_pairs(pair::<2, _>(line), pair::<3, _>(line), want, mask);
    low | (high << 4)
}

#[inline(always)]
pub(super) fn match_four(words: &[AtomicU64; 4], want: u64, mask: u64) -> u8 {
    match_pairs(pair::<0, _>(words), pair::<1, _>(words), want, mask)
}

#[inline(always)]
pub(super) fn match_low_halves(words: &[AtomicU64; 4], want: u32) -> u32 {
    let (x, y) = (pair::<0, _>(words), pair::<1, _>(words));
    // SAFETY: as in `match_u16`.
    unsafe {
        let low = _mm_shuffle_ps::<0b10_00_10_00>(_mm_castsi128_ps(x), _mm_castsi128_ps(y));
        let same = _mm_cmpeq_epi32(_mm_castps_si128(low), _mm_set1_epi32(want.cast_signed()));
        _mm_movemask_ps(_mm_castsi128_ps(same)).cast_unsigned()
    }
}

/// `match_u64` for the four words in `x` and `y`.
#[inline(always)]
fn match_pairs(x: __m128i, y: __m128i, want: u64, mask: u64) -> u8 {
    // SAFETY: as in `match_u16`.
    unsafe {
        let want = _mm_set1_epi64x(want.cast_signed());
        let mask = _mm_set1_epi64x(mask.cast_signed());
        // SSE2 compares 32-bit halves: gather the low halves of four words, and the high ones, and join them.
        let x = _mm_castsi128_ps(_mm_cmpeq_epi32(_mm_and_si128(x, mask), want));
        let y = _mm_castsi128_ps(_mm_cmpeq_epi32(_mm_and_si128(y, mask), want));
        let low = _mm_castps_si128(_mm_shuffle_ps::<0b10_00_10_00>(x, y));
        let high = _mm_castps_si128(_mm_shuffle_ps::<0b11_01_11_01>(x, y));
        _mm_movemask_ps(_mm_castsi128_ps(_mm_and_si128(low, high))) as u8
    }
}

#[inline(always)]
pub(super) fn match_bytes(line: &[AtomicU64; 8], byte: u8) -> (u32, u32) {
    let found = pair::<0, _>(line);
    // SAFETY: as in `match_u16`.
    unsafe {
        let want = _mm_set1_epi8(byte.cast_signed());
        let at_most = _mm_cmpeq_epi8(_mm_min_epu8(found, want), found);
        let equal = _mm_cmpeq_epi8(found, want);
        (_mm_movemask_epi8(at_most).cast_unsigned(), _mm_movemask_epi8(equal).cast_unsigned())
    }
}

#[inline(always)]
pub(super) fn match_sixteen(words: &[AtomicU64; 2], byte: u8) -> u32 {
    let found = pair::<0, _>(words);
    // SAFETY: as in `match_u16`.
    unsafe {
        let equal = _mm_cmpeq_epi8(found, _mm_set1_epi8(byte.cast_signed()));
        _mm_movemask_epi8(equal).cast_unsigned()
    }
}
