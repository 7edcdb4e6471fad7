//! Kernels for lines of tagged numbers, each of which has a partner: a search in two or four lines without a branch.
//!
//! ```text
//! word     0        1       2      3      4      5      6      7
//!      +-------+--------+------+------+------+------+------+------+
//!      |       |  tags  |    numbers         |     partners       |
//!      +-------+--------+------+------+------+------+------+------+
//!          a tag is a byte: the lowest one of word 1 is that of word 2, whose partner is word 5
//! ```
//!
//! A number that is *of* an interval has the wanted tag and is not before the interval's start, nor more than its length behind it.
//!
//! The plain twins in the tests say what a kernel returns for words at rest; callers have other ways where there is no kernel.

use core::sync::atomic::AtomicU64;

/// Which numbers are wanted: those of a tag, in intervals of a length.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Wanted {
    /// The tag.
    pub(crate) tag: u64,
    /// How far the last number of an interval is from the first.
    pub(crate) length: u64,
}

/// The first of the numbers that were wanted, and how many there were.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct First {
    /// The number and its partner; anything, if there is none.
    pub(crate) number: u64,
    pub(crate) partner: *mut (),
    /// Not 0 if there is any number of the first interval, be it before the place to begin.
    pub(crate) any: u32,
    /// Not 0 if there is one from that place on.
    pub(crate) near: u32,
    /// Not 0 if there is one of the second interval.
    pub(crate) far: u32,
}

/// The kernels; see the module. All are loads of whole words, each word being loaded once at most, and stores to what is handed over
/// for that.
pub(crate) trait Tagged: Copy {
    /// Finds the first of some numbers, on the way up or down: those of the interval that begins at `starts[0]`, in the first two
    /// lines, from `from` on; and those of the one that begins at `starts[1]`, which come behind these, in the other two.
    fn first<const UP: bool>(
        self,
        wanted: &Wanted,
        lines: ([&[AtomicU64; 8]; 2], [&[AtomicU64; 8]; 2]),
        starts: [u64; 2],
        from: u64,
    ) -> First;

    /// Stores the numbers of an interval in two lines, and their partners, the first ones first; returns how many there are. If
    /// there are more than three, what is stored is of no use. The second line is left out unless `has_second`.
    fn gather<const UP: bool>(
        self,
        wanted: &Wanted,
        lines: [&[AtomicU64; 8]; 2],
        has_second: bool,
        start: u64,
        numbers: &mut [u64; 4],
        partners: &mut [*mut (); 4],
    ) -> usize;

    /// Whether there is a number of an interval in a line.
    fn has(self, wanted: &Wanted, line: &[AtomicU64; 8], start: u64) -> bool;
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan)))))]
impl Tagged for super::Avx512 {
    fn first<const UP: bool>(
        self,
        _wanted: &Wanted,
        _lines: ([&[AtomicU64; 8]; 2], [&[AtomicU64; 8]; 2]),
        _starts: [u64; 2],
        _from: u64,
    ) -> First {
        match self {}
    }

    fn gather<const UP: bool>(
        self,
        _wanted: &Wanted,
        _lines: [&[AtomicU64; 8]; 2],
        _has_second: bool,
        _start: u64,
        _numbers: &mut [u64; 4],
        _partners: &mut [*mut (); 4],
    ) -> usize {
        match self {}
    }

    fn has(self, _wanted: &Wanted, _line: &[AtomicU64; 8], _start: u64) -> bool {
        match self {}
    }
}

#[cfg(all(target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan))))]
impl Tagged for super::Avx512 {
    #[inline(always)]
    fn first<const UP: bool>(
        self,
        wanted: &Wanted,
        (near, far): ([&[AtomicU64; 8]; 2], [&[AtomicU64; 8]; 2]),
        starts: [u64; 2],
        from: u64,
    ) -> First {
        let (number, partner, any, near_any, far_any);
        // SAFETY: `self` proves that the instructions exist. Reads words of lines that are borrowed, as loads of aligned words of 8
        // bytes (a vector load performs each such part by one access) or parts of them, and writes nothing. The compiler moves no load
        // past the block, which may write for all it knows; the processor does loads in their order.
        unsafe {
            core::arch::asm!(
                // Words 1 to 4 of a line are a half, so that numbers are in places 1 to 3.
                "vmovdqu64 ymm16, ymmword ptr [{a} + 8]",
                "vinserti64x4 zmm16, zmm16, ymmword ptr [{b} + 8], 1",
                "vmovdqu64 ymm17, ymmword ptr [{c} + 8]",
                "vinserti64x4 zmm17, zmm17, ymmword ptr [{d} + 8], 1",
                // A tag to each place; 0 to the first of each half.
                "vmovd xmm18, dword ptr [{a} + 8]",
                "vpinsrd xmm18, xmm18, dword ptr [{b} + 8], 1",
                "vpslld xmm18, xmm18, 8",
                "vpmovzxbq zmm18, xmm18",
                "vmovd xmm19, dword ptr [{c} + 8]",
                "vpinsrd xmm19, xmm19, dword ptr [{d} + 8], 1",
                "vpslld xmm19, xmm19, 8",
                "vpmovzxbq zmm19, xmm19",
                "vpbroadcastq zmm20, qword ptr [{wanted}]",
                "vpcmpeqq k1, zmm18, zmm20",
                "vpcmpeqq k2, zmm19, zmm20",
                // Those of the intervals.
                "vpbroadcastq zmm20, qword ptr [{wanted} + 8]",
                "vpbroadcastq zmm18, {start}",
                "vpsubq zmm18, zmm16, zmm18",
                "vpcmpleuq k1{{k1}}, zmm18, zmm20",
                "vpbroadcastq zmm19, {next}",
                "vpsubq zmm19, zmm17, zmm19",
                "vpcmpleuq k2{{k2}}, zmm19, zmm20",
                // And behind the place to begin.
                "vpbroadcastq zmm20, {from}",
                ".if {up}",
                "vpcmpnltuq k3{{k1}}, zmm16, zmm20",
                "vpternlogd zmm18, zmm18, zmm18, 255",
                "vmovdqa64 zmm18{{k2}}, zmm17",
                "vpminuq zmm18{{k3}}, zmm18, zmm16",
                "vextracti64x4 ymm19, zmm18, 1",
                "vpminuq ymm18, ymm18, ymm19",
                "vextracti64x2 xmm19, ymm18, 1",
                "vpminuq xmm18, xmm18, xmm19",
                "vpshufd xmm19, xmm18, 0x4e",
                "vpminuq xmm18, xmm18, xmm19",
                ".else",
                "vpcmpleuq k3{{k1}}, zmm16, zmm20",
                "vmovdqa64 zmm18{{k2}}{{z}}, zmm17",
                "vpmaxuq zmm18{{k3}}, zmm18, zmm16",
                "vextracti64x4 ymm19, zmm18, 1",
                "vpmaxuq ymm18, ymm18, ymm19",
                "vextracti64x2 xmm19, ymm18, 1",
                "vpmaxuq xmm18, xmm18, xmm19",
                "vpshufd xmm19, xmm18, 0x4e",
                "vpmaxuq xmm18, xmm18, xmm19",
                ".endif",
                // Its partner, which lies as it does.
                "vpbroadcastq zmm19, xmm18",
                "vmovdqu64 ymm20, ymmword ptr [{a} + 32]",
                "vinserti64x4 zmm20, zmm20, ymmword ptr [{b} + 32], 1",
                "vmovdqu64 ymm21, ymmword ptr [{c} + 32]",
                "vinserti64x4 zmm21, zmm21, ymmword ptr [{d} + 32], 1",
                "kmovd {any:e}, k1",
                "kmovd {near:e}, k3",
                "kmovd {far:e}, k2",
                "vpcmpeqq k3{{k3}}, zmm16, zmm19",
                "vpcmpeqq k2{{k2}}, zmm17, zmm19",
                "vpcompressq zmm20{{k3}}{{z}}, zmm20",
                "vpcompressq zmm21{{k2}}{{z}}, zmm21",
                "vporq xmm20, xmm20, xmm21",
                "vmovq {partner}, xmm20",
                "vmovq {number}, xmm18",
                a = in(reg) near[0].as_ptr(),
                b = in(reg) near[1].as_ptr(),
                c = in(reg) far[0].as_ptr(),
                d = in(reg) far[1].as_ptr(),
                wanted = in(reg) core::ptr::from_ref(wanted),
                start = in(reg) starts[0],
                next = in(reg) starts[1],
                from = in(reg) from,
                any = lateout(reg) any,
                near = lateout(reg) near_any,
                far = lateout(reg) far_any,
                partner = lateout(reg) partner,
                number = lateout(reg) number,
                up = const UP as u32,
                out("zmm16") _,
                out("zmm17") _,
                out("zmm18") _,
                out("zmm19") _,
                out("zmm20") _,
                out("zmm21") _,
                out("k1") _,
                out("k2") _,
                out("k3") _,
                options(nostack, preserves_flags),
            );
        }
        First { number, partner, any, near: near_any, far: far_any }
    }

    #[inline(always)]
    fn gather<const UP: bool>(
        self,
        wanted: &Wanted,
        lines: [&[AtomicU64; 8]; 2],
        has_second: bool,
        start: u64,
        numbers: &mut [u64; 4],
        partners: &mut [*mut (); 4],
    ) -> usize {
        let count: u64;
        // SAFETY: as in `first`; writes the four words of `numbers` and those of `partners`, which are the caller's alone.
        unsafe {
            core::arch::asm!(
                // As in `first`.
                "vmovdqu64 ymm16, ymmword ptr [{a} + 8]",
                "vinserti64x4 zmm16, zmm16, ymmword ptr [{b} + 8], 1",
                "vmovdqu64 ymm17, ymmword ptr [{a} + 32]",
                "vinserti64x4 zmm17, zmm17, ymmword ptr [{b} + 32], 1",
                "vmovd xmm18, dword ptr [{a} + 8]",
                "vpinsrd xmm18, xmm18, dword ptr [{b} + 8], 1",
                "vpslld xmm18, xmm18, 8",
                "vpmovzxbq zmm18, xmm18",
                "kmovd k1, {places:e}",
                "vpcmpeqq k1{{k1}}, zmm18, qword ptr [{wanted}]{{1to8}}",
                "vpbroadcastq zmm18, {start}",
                "vpsubq zmm18, zmm16, zmm18",
                "vpcmpleuq k1{{k1}}, zmm18, qword ptr [{wanted} + 8]{{1to8}}",
                "kmovd {count:e}, k1",
                // To the front, and what is behind all of them to where there are none.
                ".if {up}",
                "vpternlogd ymm18, ymm18, ymm18, 255",
                ".else",
                "vpxord ymm18, ymm18, ymm18",
                ".endif",
                "vpcompressq zmm18{{k1}}, zmm16",
                "vpcompressq zmm17{{k1}}{{z}}, zmm17",
                "popcnt {count:e}, {count:e}",
                // Places 0 and 1, 1 and 2, and 0 and 1 again, change partners unless they are in order.
                "kmovd k2, {two:e}",
                "kmovd k3, {four:e}",
                ".irp turn, 0xe1, 0xd8, 0xe1",
                "vpermq ymm19, ymm18, \\turn",
                ".if {up}",
                "vpcmpltuq k1, ymm19, ymm18",
                ".else",
                "vpcmpnleuq k1, ymm19, ymm18",
                ".endif",
                ".if \\turn == 0xe1",
                "kxorb k1, k1, k2",
                ".else",
                "kxorb k1, k1, k3",
                ".endif",
                "vpermq ymm18{{k1}}, ymm18, \\turn",
                "vpermq ymm17{{k1}}, ymm17, \\turn",
                ".endr",
                "vmovdqu64 ymmword ptr [{numbers}], ymm18",
                "vmovdqu64 ymmword ptr [{partners}], ymm17",
                a = in(reg) lines[0].as_ptr(),
                b = in(reg) lines[1].as_ptr(),
                places = in(reg) if has_second { 0xff_u32 } else { 0x0f },
                wanted = in(reg) core::ptr::from_ref(wanted),
                start = in(reg) start,
                two = in(reg) 2_u32,
                four = in(reg) 4_u32,
                numbers = in(reg) numbers.as_mut_ptr(),
                partners = in(reg) partners.as_mut_ptr(),
                count = out(reg) count,
                up = const UP as u32,
                out("zmm16") _,
                out("zmm17") _,
                out("zmm18") _,
                out("zmm19") _,
                out("k1") _,
                out("k2") _,
                out("k3") _,
                options(nostack),
            );
        }
        count as usize
    }

    #[inline(always)]
    fn has(self, wanted: &Wanted, line: &[AtomicU64; 8], start: u64) -> bool {
        let found: u32;
        // SAFETY: as in `first`.
        unsafe {
            core::arch::asm!(
                "vmovd xmm18, dword ptr [{line} + 8]",
                "vpslld xmm18, xmm18, 8",
                "vpmovzxbq ymm18, xmm18",
                "vpcmpeqq k1, ymm18, qword ptr [{wanted}]{{1to4}}",
                "vpbroadcastq ymm18, {start}",
                "vmovdqu64 ymm16, ymmword ptr [{line} + 8]",
                "vpsubq ymm18, ymm16, ymm18",
                "vpcmpleuq k1{{k1}}, ymm18, qword ptr [{wanted} + 8]{{1to4}}",
                "kmovd {found:e}, k1",
                line = in(reg) line.as_ptr(),
                wanted = in(reg) core::ptr::from_ref(wanted),
                start = in(reg) start,
                found = lateout(reg) found,
                out("zmm16") _,
                out("zmm18") _,
                out("k1") _,
                options(readonly, nostack, preserves_flags),
            );
        }
        found != 0
    }
}

#[cfg(all(test, target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan))))]
mod tests {
    use testkit::Rng;

    use super::*;
    use crate::arch::Avx512;

    /// The numbers of an interval in a line, and their partners.
    fn of(wanted: &Wanted, line: &[u64; 8], start: u64) -> Vec<(u64, u64)> {
        let is_tagged = |i: &usize| line[1] >> (8 * i) & 0xff == wanted.tag;
        let all = (0..3).filter(is_tagged).map(|i| (line[2 + i], line[5 + i]));
        all.filter(|(number, _)| number.wrapping_sub(start) <= wanted.length).collect()
    }

    fn checked<const UP: bool>(seed: u64) {
        let Some(kernel) = Avx512::detect() else { return };
        let mut rng = Rng::new(seed);
        let mut found = [0; 5];
        for round in 0..20_000 {
            let bits = rng.next_u64() % 64;
            let wanted = Wanted { tag: 0x13, length: u64::MAX >> 1 >> bits };
            let start = rng.next_u64() & !wanted.length;
            let next = if UP {
                start.wrapping_add(wanted.length + 1)
            } else {
                start.wrapping_sub(wanted.length + 1)
            };
            let mut serial = 0;
            // Few of one tag, all different, some elsewhere.
            let mut line = |start: u64| -> [u64; 8] {
                let mut line = core::array::from_fn(|_| {
                    serial += 1;
                    let near = start.wrapping_add(rng.next_u64() & wanted.length & !15 | serial);
                    if rng.next_u64().is_multiple_of(4) { rng.next_u64() } else { near }
                });
                line[1] = (0..8).fold(0, |tags, i| {
                    let tag = [0, 0x12, 0x13, 0x23][(rng.next_u64() % 4) as usize];
                    tags | tag << (8 * i)
                });
                line
            };
            let (own, mut beside) = ([line(start), line(start)], [line(next), line(next)]);
            if round % 3 == 0 {
                // As where a line stands for another one.
                beside[1] = beside[0];
            }
            let from = start.wrapping_add(rng.next_u64() & wanted.length);
            let shared = [own, beside].map(|pair| pair.map(|line| line.map(AtomicU64::new)));
            let [near_lines, far_lines] = shared.each_ref().map(<[_; 2]>::each_ref);
            let of = |line, start| of(&wanted, line, start);
            let [first_own, second_own] = own.each_ref().map(|line| of(line, start));
            let own = [&first_own[..], &second_own].concat();
            let near: Vec<_> = own
                .iter()
                .filter(|(number, _)| if UP { *number >= from } else { *number <= from })
                .collect();
            let far = beside.each_ref().map(|line| of(line, next)).concat();
            let order = |number: u64| if UP { number } else { !number };
            // Intervals that begin anew behind the last number do not come behind each other.
            if if UP { next > start } else { next < start } {
                let first =
                    kernel.first::<UP>(&wanted, (near_lines, far_lines), [start, next], from);
                assert_eq!(first.any != 0, !own.is_empty(), "{round}");
                assert_eq!(first.near != 0, !near.is_empty(), "{round}");
                assert_eq!(first.far != 0, !far.is_empty(), "{round}");
                let nearest = near.into_iter().min_by_key(|(number, _)| order(*number));
                let least = nearest.or(far.iter().min_by_key(|(number, _)| order(*number)));
                if let Some((number, partner)) = least {
                    assert_eq!((first.number, first.partner.addr()), (*number, *partner as usize));
                    found[4] += 1;
                }
            }
            for has_second in [false, true] {
                let mut all = if has_second { own.clone() } else { first_own.clone() };
                all.sort_by_key(|(number, _)| order(*number));
                let (mut numbers, mut partners) = ([0; 4], [core::ptr::null_mut(); 4]);
                let count = kernel.gather::<UP>(
                    &wanted,
                    near_lines,
                    has_second,
                    start,
                    &mut numbers,
                    &mut partners,
                );
                assert_eq!(count, all.len(), "{round}");
                if count <= 3 {
                    let partners = partners.map(|word| word.addr() as u64);
                    let stored: Vec<_> = numbers.into_iter().zip(partners).take(count).collect();
                    assert_eq!(stored, all, "{round}");
                    found[count] += 1;
                }
            }
            assert_eq!(kernel.has(&wanted, near_lines[0], start), !first_own.is_empty(), "{round}");
        }
        assert!(found.iter().all(|count| *count > 100), "{found:?}");
    }

    #[test]
    fn tagged_numbers_are_found_in_both_directions() {
        checked::<true>(1);
        checked::<false>(2);
    }
}
