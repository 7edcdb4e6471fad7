//! Any bytes for encoded keys of every type: refused, or in the order of what they decode to.
//!
//! Byte 0 says which type, byte 1 how many of the others are the first of two keys.

use std::cmp::{Ordering, Reverse};
use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use fanread::key::{self, Decode, Encode, Tail, U64Key};

/// Decodes two keys of the type that the bytes name, and compares their order with that of the bytes.
pub(crate) fn run(bytes: &[u8]) {
    let Some(([which, first], rest)) = bytes.split_first_chunk() else { return };
    let (a, b) = rest.split_at(usize::from(*first).min(rest.len()));
    match which % 24 {
        0 => ordered::<u8>(a, b),
        1 => ordered::<u16>(a, b),
        2 => ordered::<i32>(a, b),
        3 => ordered::<i64>(a, b),
        4 => ordered::<u128>(a, b),
        5 => ordered::<i128>(a, b),
        6 => ordered::<bool>(a, b),
        7 => ordered::<char>(a, b),
        8 => ordered_by::<f32>(a, b, f32::total_cmp),
        9 => ordered_by::<f64>(a, b, f64::total_cmp),
        10 => ordered::<Vec<u8>>(a, b),
        11 => ordered::<String>(a, b),
        12 => ordered::<[u8; 5]>(a, b),
        13 => ordered::<Duration>(a, b),
        14 => ordered::<SystemTime>(a, b),
        15 => ordered::<Option<i16>>(a, b),
        16 => ordered::<Option<String>>(a, b),
        17 => ordered::<Reverse<Vec<u8>>>(a, b),
        18 => ordered::<(String, u8)>(a, b),
        19 => ordered::<(Vec<u8>, Vec<u8>, Vec<u8>)>(a, b),
        20 => ordered_by::<(u16, Tail<Vec<u8>>)>(a, b, |x, y| (x.0, &x.1.0).cmp(&(y.0, &y.1.0))),
        21 => ordered::<(Option<bool>, Reverse<String>, i8)>(a, b),
        22 => strings(a, b),
        _ => numbers(a, b),
    }
}

fn ordered<T: Encode + Decode + Ord + Debug>(a: &[u8], b: &[u8]) {
    ordered_by(a, b, T::cmp);
}

/// Checks K1 to K3 on what two byte strings decode to.
fn ordered_by<T: Encode + Decode + Debug>(
    a: &[u8],
    b: &[u8],
    compare: impl Fn(&T, &T) -> Ordering,
) {
    let decoded = |bytes: &[u8]| {
        let value = key::decode::<T>(bytes).ok()?;
        assert_eq!(key::to_vec(&value), bytes, "{value:?}");
        assert!(T::BYTES.is_none_or(|len| len == bytes.len()), "{value:?}");
        Some(value)
    };
    if let (Some(x), Some(y)) = (decoded(a), decoded(b)) {
        assert_eq!(compare(&x, &y), a.cmp(b), "{x:?}, {y:?}");
        if T::SELF_DELIMITING && a != b {
            assert!(!a.starts_with(b) && !b.starts_with(a), "{x:?}, {y:?}");
        }
    }
}

/// Encodes the bytes themselves, with a field behind them.
fn strings(a: &[u8], b: &[u8]) {
    let (x, y) = (key::to_vec(&(a, 7_u8)), key::to_vec(&(b, 3_u8)));
    assert_eq!((a, 7).cmp(&(b, 3)), x.cmp(&y));
    ordered::<(Vec<u8>, u8)>(&x, &y);
    if let (Ok(a), Ok(b)) = (std::str::from_utf8(a), std::str::from_utf8(b)) {
        let (x, y) = (key::to_vec(a), key::to_vec(b));
        assert_eq!(a.cmp(b), x.cmp(&y));
        ordered::<String>(&x, &y);
    }
}

/// Numbers as keys of integer maps.
fn numbers(a: &[u8], b: &[u8]) {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
        u64::from_be_bytes(word)
    };
    let (x, y) = (word(a), word(b));
    as_u64::<i64>(x, y, Ord::cmp);
    as_u64::<f64>(x, y, f64::total_cmp);
    as_u64::<u16>(x, y, Ord::cmp);
    as_u64::<i32>(x, y, Ord::cmp);
    as_u64::<(u32, u32)>(x, y, Ord::cmp);
    as_u64::<(i32, i32)>(x, y, Ord::cmp);
}

fn as_u64<T: U64Key + Copy + Debug>(x: u64, y: u64, compare: impl Fn(&T, &T) -> Ordering) {
    let (Ok(a), Ok(b)) = (T::from_u64(x), T::from_u64(y)) else { return };
    assert_eq!((a.to_u64(), b.to_u64()), (x, y), "{a:?}, {b:?}");
    assert_eq!(compare(&a, &b), x.cmp(&y), "{a:?}, {b:?}");
}
