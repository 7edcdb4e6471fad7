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

/// Proof that the processor and the system support AVX-512 BW, DQ and VL, which came together, and BMI1 and POPCNT, which are older.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx512 {
    pub(crate) fn detect() -> Option<Self> {
        let has_vectors = std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx512dq")
            && std::is_x86_feature_detected!("avx512vl");
        let counts =
            std::is_x86_feature_detected!("bmi1") && std::is_x86_feature_detected!("popcnt");
        (has_vectors && counts).then_some(Self(()))
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

/// In which order `vpshufb` takes the bytes of a vector to turn each word around.
static TURNED: Line = Line({
    let mut bytes = [0; 64];
    let mut at = 0;
    while at < 64 {
        // Numbers of bytes count from the beginning of each sixteen.
        bytes[at] = (at as u8 ^ 7) & 15;
        at += 1;
    }
    bytes
});

#[repr(align(64))]
struct Line([u8; 64]);

/// The instructions that look for the word of which all numbers are at `$at`.
macro_rules! find_one {
    ($at:literal) => {
        concat!(
            concat!("mov {line}, [{lines} + ", $at, "]\n"),
            concat!("mov {guard}, [{guards} + ", $at, "]\n"),
            concat!("vpbroadcastq ymm16, qword ptr [{words} + ", $at, "]\n"),
            "mov {seen}, [{guard}]\n",
            // (word | with) ^ found
            "vpternlogq ymm16, ymm17, ymmword ptr [{line}], 0x56\n",
            "vptestnmq k1, ymm16, ymm18\n",
            "kmovd {slots:e}, k1\n",
            "tzcnt {slot:e}, {slots:e}\n",
            "and {slot:e}, 3\n",
            "mov {line}, [{line} + 8 * {slot} + 32]\n",
            concat!("mov [{partners} + ", $at, "], {line}\n"),
            "xor {seen}, [{guard}]\n",
            "or {changed}, {seen}\n",
            // The carry says that there is none.
            "cmp {slots:e}, 1\n",
            "adc {absent:e}, {absent:e}\n",
        )
    };
}

impl Avx512 {
    /// Copies 64 bytes.
    ///
    /// # Safety
    ///
    /// They can be read, and those at `to` be written by nobody else.
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "proves that the instructions exist")]
    unsafe fn copy_bytes(self, from: *const u8, to: *mut u8) {
        // SAFETY: `self` proves that the instructions exist; the caller vouches for the rest.
        unsafe {
            asm!(
                "vmovdqu64 zmm16, zmmword ptr [{from}]",
                "vmovdqu64 zmmword ptr [{to}], zmm16",
                from = in(reg) from,
                to = in(reg) to,
                out("zmm16") _,
                options(nostack, preserves_flags),
            );
        }
    }
}

/// Counts the lanes of a line for which a comparison of a number with them holds.
macro_rules! count {
    ($line:expr, $number:expr, $broadcast:literal, $compare:literal) => {{
        let count: u64;
        // SAFETY: as in `match_u16`.
        unsafe {
            asm!(
                $broadcast,
                concat!($compare, " k1, zmm16, zmmword ptr [{line}]"),
                "kmovd {count:e}, k1",
                "popcnt {count:e}, {count:e}",
                number = in(reg) $number,
                line = in(reg) $line.as_ptr(),
                count = out(reg) count,
                out("zmm16") _,
                out("k1") _,
                options(readonly, nostack),
            );
        }
        count as usize
    }};
}

impl super::Eights for Avx512 {
    #[inline(always)]
    fn count_below(self, line: &[AtomicU64; 8], number: u64) -> usize {
        // Not below or the same, from the other side.
        count!(line, number, "vpbroadcastq zmm16, {number}", "vpcmpnleuq")
    }

    #[inline(always)]
    fn count_halves_below(self, line: &[AtomicU64; 8], number: u32) -> usize {
        count!(line, u64::from(number), "vpbroadcastd zmm16, {number:e}", "vpcmpnleud")
    }

    #[inline(always)]
    fn nearest<const UP: bool>(self, words: &[AtomicU64], from: u64, least: u64) -> u64 {
        let (eights, rest) = (words.len() / 8, words.len() % 8);
        let result;
        // SAFETY: as in `match_u16`: reads the words that are borrowed, whole vectors of eight and what is left, for which the
        // processor loads no more than the mask says.
        unsafe {
            asm!(
                "vpbroadcastq zmm16, {from}",
                "vpbroadcastq zmm17, {result}",
                "kmovd k1, {rest:e}",
                "test {eights}, {eights}",
                "jz 3f",
                "2:",
                "vmovdqu64 zmm18, zmmword ptr [{at}]",
                ".if {up}",
                "vpsubq zmm18, zmm18, zmm16",
                ".else",
                "vpsubq zmm18, zmm16, zmm18",
                ".endif",
                "vpminuq zmm17, zmm17, zmm18",
                "add {at}, 64",
                "dec {eights}",
                "jnz 2b",
                "3:",
                "vmovdqu64 zmm18{{k1}}{{z}}, zmmword ptr [{at}]",
                ".if {up}",
                "vpsubq zmm18, zmm18, zmm16",
                ".else",
                "vpsubq zmm18, zmm16, zmm18",
                ".endif",
                "vpminuq zmm17{{k1}}, zmm17, zmm18",
                "vextracti64x4 ymm18, zmm17, 1",
                "vpminuq ymm17, ymm17, ymm18",
                "vextracti64x2 xmm18, ymm17, 1",
                "vpminuq xmm17, xmm17, xmm18",
                "vpermilpd xmm18, xmm17, 1",
                "vpminuq xmm17, xmm17, xmm18",
                "vmovq {result}, xmm17",
                from = in(reg) from,
                at = inout(reg) words.as_ptr() => _,
                eights = inout(reg) eights => _,
                rest = in(reg) (1_u32 << rest) - 1,
                result = inout(reg) least => result,
                up = const UP as u32,
                out("zmm16") _,
                out("zmm17") _,
                out("zmm18") _,
                out("k1") _,
                options(readonly, nostack),
            );
        }
        result
    }

    #[inline(always)]
    fn copy_line(self, line: &[AtomicU64; 8], to: &mut [u64; 8]) {
        // SAFETY: both have 64 bytes; each part of 8 is loaded by one access (see `match_u16`).
        unsafe { self.copy_bytes(line.as_ptr().cast(), to.as_mut_ptr().cast()) };
    }

    #[inline(always)]
    fn copy<T: Copy>(self, from: &[T; 8], to: &mut [T; 8]) {
        const { assert!(size_of::<T>() == 8) };
        // SAFETY: both have 64 bytes.
        unsafe { self.copy_bytes(from.as_ptr().cast(), to.as_mut_ptr().cast()) };
    }

    #[inline(always)]
    fn scramble(
        self,
        numbers: &[u64; 8],
        (sums, factors): (&[u64; 3], &[u64; 3]),
        hashes: &mut [u64; 8],
    ) {
        // SAFETY: `self` proves that the instructions exist. Reads the words that are borrowed, and writes the 64 bytes of `hashes`,
        // which is the caller's alone.
        unsafe {
            asm!(
                "vmovdqu64 zmm16, zmmword ptr [{numbers}]",
                "vpxorq zmm16, zmm16, qword ptr [{sums}]{{1to8}}",
                "vpmullq zmm16, zmm16, qword ptr [{factors}]{{1to8}}",
                "vpshufb zmm16, zmm16, zmmword ptr [{turned}]",
                "vpxorq zmm16, zmm16, qword ptr [{sums} + 8]{{1to8}}",
                "vpmullq zmm16, zmm16, qword ptr [{factors} + 8]{{1to8}}",
                "vpshufb zmm16, zmm16, zmmword ptr [{turned}]",
                "vpxorq zmm16, zmm16, qword ptr [{sums} + 16]{{1to8}}",
                "vpmullq zmm16, zmm16, qword ptr [{factors} + 16]{{1to8}}",
                "vmovdqu64 zmmword ptr [{hashes}], zmm16",
                numbers = in(reg) numbers.as_ptr(),
                sums = in(reg) sums.as_ptr(),
                factors = in(reg) factors.as_ptr(),
                turned = in(reg) TURNED.0.as_ptr(),
                hashes = in(reg) hashes.as_mut_ptr(),
                out("zmm16") _,
                options(nostack, preserves_flags),
            );
        }
    }

    #[inline(always)]
    fn find(
        self,
        wanted: super::Wanted<'_>,
        at: super::Shelves<'_>,
        partners: &mut [*mut (); 8],
    ) -> super::Finds {
        let (absent, changed): (u64, u64);
        // SAFETY: `self` proves that the instructions exist. Reads words that are borrowed: of a line the first 32 bytes, as four
        // loads of 8, and one of the four words behind them, as a slot is 0 to 3; writes the 64 bytes of `partners`, which is the
        // caller's alone. The processor does loads in their order, and the compiler moves none of its own past the block, which may
        // write for all it knows.
        unsafe {
            asm!(
                "vpbroadcastq ymm17, {slots}",
                "vpbroadcastq ymm18, {slot}",
                "xor {changed:e}, {changed:e}",
                "xor {absent:e}, {absent:e}",
                find_one!(56),
                find_one!(48),
                find_one!(40),
                find_one!(32),
                find_one!(24),
                find_one!(16),
                find_one!(8),
                find_one!(0),
                words = in(reg) wanted.words.as_ptr(),
                lines = in(reg) at.lines.as_ptr(),
                guards = in(reg) at.guards.as_ptr(),
                partners = in(reg) partners.as_mut_ptr(),
                line = out(reg) _,
                guard = out(reg) _,
                seen = out(reg) _,
                // What is in two registers is needed before the first word is looked for.
                slots = inout(reg) wanted.with => _,
                slot = inout(reg) wanted.mask => _,
                changed = out(reg) changed,
                absent = out(reg) absent,
                out("zmm16") _,
                out("zmm17") _,
                out("zmm18") _,
                out("k1") _,
                options(nostack),
            );
        }
        super::Finds { absent, changed }
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
