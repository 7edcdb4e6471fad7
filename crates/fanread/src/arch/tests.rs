//! One case list, run against every twin.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Words, common_prefix, freeze, portable, prefetch, prefetch_many, prefetch_to_write};

/// One implementation of all kernels.
struct Twin {
    name: &'static str,
    match_u16: fn(&[AtomicU64; 8], u16) -> u32,
    match_u64: fn(&[AtomicU64; 8], u64, u64) -> u8,
    match_four: fn(&[AtomicU64; 4], u64, u64) -> u8,
    match_low_halves: fn(&[AtomicU64; 4], u32) -> u32,
    match_u32: fn(&[AtomicU64; 8], u32, u32) -> u32,
    match_bytes: fn(&[AtomicU64; 8], u8) -> (u32, u32),
}

fn twins() -> Vec<Twin> {
    #[allow(unused_mut, reason = "some builds have no more twins")]
    let mut twins = vec![
        Twin {
            name: "portable",
            match_u16: portable::match_u16,
            match_u64: portable::match_u64,
            match_four: portable::match_four,
            match_low_halves: portable::match_low_halves,
            match_u32: portable::match_u32,
            match_bytes: portable::match_bytes,
        },
        Twin {
            name: "picked",
            match_u16: super::match_u16,
            match_u64: super::match_u64,
            match_four: super::match_four,
            match_low_halves: super::match_low_halves,
            match_u32: |line, want, mask| {
                super::Lanes::match_u32(super::Baseline, line, want, mask)
            },
            match_bytes: super::match_bytes,
        },
    ];
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan))))]
    if super::Avx512::detect().is_some() {
        twins.push(Twin {
            name: "avx512",
            match_u16: |line, tag| {
                super::Lanes::match_u16(super::Avx512::detect().unwrap(), line, tag)
            },
            match_u64: |line, want, mask| {
                let kernel = super::Avx512::detect().unwrap();
                let words = super::Lanes::match_u64(kernel, line, want, mask);
                if mask == u64::MAX {
                    assert_eq!(super::Lanes::match_word(kernel, line, want), words);
                }
                words
            },
            match_four: super::match_four,
            match_low_halves: super::match_low_halves,
            match_u32: |line, want, mask| {
                super::Lanes::match_u32(super::Avx512::detect().unwrap(), line, want, mask)
            },
            match_bytes: super::match_bytes,
        });
    }
    twins
}

fn lines() -> Vec<[u64; 8]> {
    let mut lines =
        vec![[0; 8], [u64::MAX; 8], [0x8000_8000_8000_8000; 8], [0x7f80_ff01_0080_fffe; 8]];
    lines.extend(
        (0..64).map(|bit| core::array::from_fn(|i| if i == bit / 8 { 1 << bit } else { 0 })),
    );
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..200 {
        lines.push(core::array::from_fn(|_| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            // Few different bytes, so that lanes repeat.
            (state >> 7) & 0x0101_8001_0180_0081
        }));
    }
    lines
}

#[test]
fn every_twin_finds_the_lanes_that_a_plain_comparison_finds() {
    for line in lines() {
        let bytes: Vec<u8> = line.iter().flat_map(|word| word.to_le_bytes()).collect();
        let lanes: Vec<u16> = bytes.chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
        let shared = line.map(AtomicU64::new);
        for twin in twins() {
            for tag in lanes.iter().copied().chain([0, 1, 0x7fff, 0x8000, 0xffff]) {
                let expected: u32 = (0..32).map(|i| u32::from(lanes[i] == tag) << i).sum();
                assert_eq!(
                    (twin.match_u16)(&shared, tag),
                    expected,
                    "{} {line:x?} {tag:x}",
                    twin.name
                );
            }
            for mask in [u64::MAX, 0xffff_ffff, !0xffff_ffff, 0, 0xff00_0000_0000_0001] {
                for want in line.iter().map(|word| word & mask).chain([0, 1, u64::MAX]) {
                    let expected =
                        (0..8).map(|i| u8::from(line[i] & mask == want) << i).sum::<u8>();
                    assert_eq!(
                        (twin.match_u64)(&shared, want, mask),
                        expected,
                        "{} {line:x?}",
                        twin.name
                    );
                    let [low, high] = [shared.first_chunk(), shared.last_chunk()]
                        .map(|four| (twin.match_four)(four.unwrap(), want, mask));
                    assert_eq!(low | high << 4, expected, "{} {line:x?}", twin.name);
                }
            }
            for want in lanes.chunks(2).map(|two| u32::from(two[0]) | u32::from(two[1]) << 16) {
                let expected: u32 = (0..4).map(|i| u32::from(line[i] as u32 == want) << i).sum();
                let found = (twin.match_low_halves)(shared.first_chunk().unwrap(), want);
                assert_eq!(found, expected, "{} {line:x?} {want:x}", twin.name);
            }
            let heads: Vec<u32> =
                line.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]).collect();
            for mask in [u32::MAX, 0xefff_ffff, 0xffff, 0, 0x8000_0001] {
                for want in heads.iter().map(|head| head & mask).chain([0, 1, u32::MAX]) {
                    let expected =
                        (0..5).map(|i| u32::from(heads[i] & mask == want) << i).sum::<u32>();
                    assert_eq!(
                        (twin.match_u32)(&shared, want, mask),
                        expected,
                        "{} {line:x?} {want:x} {mask:x}",
                        twin.name
                    );
                }
            }
            for byte in bytes[..16].iter().copied().chain([0, 1, 0x7f, 0x80, 0xfe, 0xff]) {
                let at_most = (0..16).map(|i| u32::from(bytes[i] <= byte) << i).sum();
                let equal = (0..16).map(|i| u32::from(bytes[i] == byte) << i).sum();
                assert_eq!(
                    (twin.match_bytes)(&shared, byte),
                    (at_most, equal),
                    "{} {byte}",
                    twin.name
                );
            }
        }
        assert!(
            shared.iter().zip(line).all(|(now, then)| now.load(Relaxed) == then),
            "a kernel wrote"
        );
    }
}

#[test]
fn a_byte_is_found_where_it_is_first() {
    for len in 0..40 {
        let bytes: Vec<u8> = (0..len).map(|i: u8| i.wrapping_mul(37) & 0x8f).collect();
        for byte in 0..=255 {
            let expected = bytes.iter().position(|other| *other == byte);
            assert_eq!(super::position(&bytes, byte), expected, "{byte} in {bytes:?}");
        }
    }
}

#[test]
fn the_common_prefix_ends_at_the_first_difference() {
    let a: Vec<u8> = (0..100).collect();
    for len in 0..a.len() {
        assert_eq!(common_prefix(&a[..len], &a), len);
        assert_eq!(common_prefix(&a, &a[..len]), len);
        let mut b = a.clone();
        b[len] ^= 0x80;
        assert_eq!(common_prefix(&a, &b), len);
    }
    assert_eq!(common_prefix(b"", b""), 0);
}

#[test]
fn freezing_keeps_the_bits() {
    for bits in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
        assert_eq!(freeze(&mut MaybeUninit::new(bits)), bits);
    }
}

#[test]
fn any_address_can_be_prefetched() {
    for prefetch in [prefetch::<u8>, prefetch_many, prefetch_to_write] {
        prefetch(core::ptr::null());
        prefetch(core::ptr::without_provenance(usize::MAX));
        prefetch(b"here".as_ptr());
    }
}

#[test]
fn words_come_back_in_order() {
    let mut words = Words::<4>::new();
    assert_eq!(words.len(), 0);
    words.scan(1, &[2, 3], |last, item| last * 10 + item);
    assert_eq!(format!("{words:?}"), "[1, 12, 123]");
    words.scan(1, &[2, 3, 4, 5], |last, item| last * 10 + item);
    assert_eq!(format!("{words:?}"), "[1, 12, 123, 1234]", "what has no room is left out");
    assert_eq!(words.len(), 4);
}

#[test]
#[should_panic(expected = "word out of range")]
fn a_word_that_is_not_there_cannot_be_read() {
    let mut words = Words::<4>::new();
    words.scan(1, &[2], |last, item| last + item);
    let _ = words.get(2);
}

#[test]
fn bytes_of_two_words_that_equal_one_are_found() {
    for line in lines() {
        for byte in [0, 1, 0x7f, 0x80, 0xff, line[0] as u8, (line[1] >> 56) as u8] {
            let words = [line[0], line[1]];
            let bytes = words.map(u64::to_le_bytes).concat();
            let expected = (0..16).map(|i| u32::from(bytes[i] == byte) << i).sum::<u32>();
            let words = words.map(AtomicU64::new);
            assert_eq!(portable::match_sixteen(&words, byte), expected);
            assert_eq!(super::match_sixteen(&words, byte), expected);
        }
    }
}

#[test]
fn keys_are_the_same_if_all_of_their_bytes_are() {
    let key: Vec<u8> = (0..40).collect();
    for len in 0..=key.len() {
        assert!(super::same(&key[..len], &key.clone()[..len]));
        assert!(!super::same(&key[..len], &[&key[..len], &[7]].concat()));
        for at in 0..len {
            let mut other = key[..len].to_vec();
            other[at] ^= 0x10;
            assert!(!super::same(&key[..len], &other), "{len} {at}");
        }
    }
}

/// What each kernel for eight words means.
#[cfg(all(target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan))))]
mod eights {
    use testkit::Rng;

    use super::*;
    use crate::arch::{Avx512, Eights, Finds, Shelves, Wanted};

    #[test]
    fn eight_words_are_copied() {
        let Some(kernel) = Avx512::detect() else { return };
        for line in lines() {
            let (mut to, mut again) = ([1; 8], [1; 8]);
            kernel.copy_line(&line.map(AtomicU64::new), &mut to);
            kernel.copy(&line, &mut again);
            assert_eq!((to, again), (line, line));
        }
    }

    #[test]
    fn eight_numbers_are_scrambled_as_one_by_one() {
        let Some(kernel) = Avx512::detect() else { return };
        let mut rng = Rng::new(1);
        for line in lines() {
            let [sums, factors]: [[u64; 3]; 2] =
                [0, 0].map(|_| core::array::from_fn(|_| rng.next_u64()));
            let mut hashes = [0; 8];
            kernel.scramble(&line, (&sums, &factors), &mut hashes);
            let step = |x: u64, i: usize| (x ^ sums[i]).wrapping_mul(factors[i]);
            let hash = |x| step(step(step(x, 0).swap_bytes(), 1).swap_bytes(), 2);
            assert_eq!(hashes, line.map(hash));
        }
    }

    #[test]
    fn the_words_of_a_line_below_a_number_are_counted() {
        let Some(kernel) = Avx512::detect() else { return };
        for line in lines() {
            let near = line.iter().flat_map(|word| [word.wrapping_sub(1), *word, word | 1]);
            for number in near.chain([0, 1, 1 << 63, u64::MAX]) {
                let below = line.iter().filter(|word| **word < number).count();
                assert_eq!(kernel.count_below(&line.map(AtomicU64::new), number), below);
                let halves = line.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]);
                for number in [number as u32, (number >> 32) as u32] {
                    let below = halves.clone().filter(|half| *half < number).count();
                    let line = line.map(AtomicU64::new);
                    assert_eq!(kernel.count_halves_below(&line, number), below);
                }
            }
        }
    }

    #[test]
    fn the_nearest_of_any_number_of_words_is_found() {
        let Some(kernel) = Avx512::detect() else { return };
        let mut rng = Rng::new(2);
        for len in 0..70 {
            let words: Vec<u64> =
                (0..len).map(|_| rng.next_u64() >> (rng.next_u64() % 64)).collect();
            // A word behind them that would be the nearest if it were looked at.
            let shared: Vec<_> = words.iter().map(|word| AtomicU64::new(*word)).collect();
            for from in words.iter().copied().chain([0, 1, 1 << 63, u64::MAX, rng.next_u64()]) {
                let mut shared = shared.iter().map(|word| AtomicU64::new(word.load(Relaxed)));
                let mut with_more: Vec<_> = shared.by_ref().collect();
                with_more.push(AtomicU64::new(from));
                let shared = &with_more[..len];
                for least in [u64::MAX, 1 << 40, 0] {
                    let up = words.iter().map(|word| word.wrapping_sub(from));
                    let down = words.iter().map(|word| from.wrapping_sub(*word));
                    let [up, down] = [up.min(), down.min()].map(|n| n.unwrap_or(least).min(least));
                    assert_eq!(kernel.nearest::<true>(shared, from, least), up);
                    assert_eq!(kernel.nearest::<false>(shared, from, least), down);
                }
            }
        }
    }

    #[test]
    fn partners_are_found_in_eight_lines() {
        let Some(kernel) = Avx512::detect() else { return };
        let mut rng = Rng::new(3);
        for mask in [u64::MAX, u64::MAX >> 8, 0xffff_ffff, 1 << 63] {
            let (with, mut all) = (1 << 55, 0);
            for round in 0..300 {
                // Few different words, so that some are there, in any place, and some twice.
                let mut word = || rng.next_u64() & 0x0380_0000_0000_0003 | with;
                let lines: [[u64; 8]; 8] = core::array::from_fn(|i| {
                    core::array::from_fn(|j| if j < 4 { word() } else { (i * 8 + j) as u64 })
                });
                let words: [u64; 8] = core::array::from_fn(|_| word() & !with);
                let shared = lines.map(|line| line.map(AtomicU64::new));
                let guards: [AtomicU64; 8] = core::array::from_fn(|i| AtomicU64::new(i as u64));
                let at = Shelves { lines: &shared.each_ref(), guards: &guards.each_ref() };
                let mut partners = [core::ptr::null_mut(); 8];
                let finds = kernel.find(Wanted { words: &words, with, mask }, at, &mut partners);
                let mut absent = 0;
                for i in 0..8 {
                    let same = |j: &usize| ((words[i] | with) ^ lines[i][*j]) & mask == 0;
                    match (0..4).find(same) {
                        Some(j) => assert_eq!(partners[i].addr(), i * 8 + j + 4, "{round}"),
                        None => absent |= 1 << i,
                    }
                }
                assert_eq!(finds, Finds { absent, changed: 0 }, "{round}");
                all |= absent;
            }
            assert!(all == 255 || mask == 1 << 63, "each was absent once");
        }
    }

    #[test]
    fn a_guard_that_changes_is_told_of() {
        let Some(kernel) = Avx512::detect() else { return };
        let (line, guard, stop) =
            ([0; 8].map(AtomicU64::new), AtomicU64::new(0), AtomicU64::new(0));
        let changed = std::thread::scope(|scope| {
            scope.spawn(|| {
                while stop.load(Relaxed) == 0 {
                    guard.fetch_add(4, Relaxed);
                }
            });
            let at = Shelves { lines: &[&line; 8], guards: &[&guard; 8] };
            let look = || {
                let mut partners = [core::ptr::null_mut(); 8];
                let wanted = Wanted { words: &[0; 8], with: 0, mask: u64::MAX };
                kernel.find(wanted, at, &mut partners).changed
            };
            let seen = (0..100_000_000_u64).map(|_| look()).find(|changed| *changed != 0);
            stop.store(1, Relaxed);
            seen
        });
        assert!(changed.is_some_and(|bits| bits.trailing_zeros() >= 2));
    }
}
