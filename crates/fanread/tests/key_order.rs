//! Encoded keys keep the order of what they encode, decode to it, and refuse other bytes.

use std::cmp::{Ordering, Reverse};
use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fanread::key::{self, Decode, DecodeError, Encode, Tail, U64Key};
use proptest::prelude::*;

/// Checks K1 and K2 on a pair, with `order` as the order of the values.
fn holds_by<T: Encode + Decode + Debug>(a: &T, b: &T, order: Ordering) {
    let (x, y) = (key::to_vec(a), key::to_vec(b));
    assert_eq!(x.cmp(&y), order, "{a:?} is {x:?}, {b:?} is {y:?}");
    for (value, bytes) in [(a, &x), (b, &y)] {
        let back: T = key::decode(bytes).unwrap_or_else(|e| panic!("{value:?}: {e}"));
        assert_eq!(&key::to_vec(&back), bytes);
        if let Some(len) = T::BYTES {
            assert_eq!(bytes.len(), len, "{value:?}");
        }
    }
    // K3: no encoding of such a type is the beginning of another.
    if T::SELF_DELIMITING && order != Ordering::Equal {
        assert!(!x.starts_with(&y) && !y.starts_with(&x), "{a:?}, {b:?}");
    }
}

fn holds<T: Encode + Decode + Debug + Ord>(a: &T, b: &T) {
    holds_by(a, b, a.cmp(b));
    assert_eq!(&key::decode::<T>(&key::to_vec(a)).unwrap(), a);
}

/// Checks that a `u64` key keeps order and value.
fn holds_u64<T: U64Key + Copy + Debug + PartialEq>(a: T, b: T, order: Ordering) {
    assert_eq!(a.to_u64().cmp(&b.to_u64()), order, "{a:?}, {b:?}");
    assert_eq!(T::from_u64(a.to_u64()), Ok(a));
}

/// Strings over few letters, NUL and 255 among them: neighbours are likely.
fn strings() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, 1, b'a', 0xfe, 0xff]), 0..6)
}

/// Texts that are often a beginning of each other.
fn texts() -> impl Strategy<Value = String> {
    let letters = prop::sample::select(vec!['\0', '\u{1}', 'a', '\u{ff}', '\u{10ffff}']);
    prop::collection::vec(letters, 0..5).prop_map(|chars| chars.into_iter().collect())
}

/// Every kind of float, NaN of both signs included, and neighbours.
fn floats() -> impl Strategy<Value = f64> {
    let ends = [0.0, 1.0, f64::INFINITY, f64::NAN, f64::MIN_POSITIVE, 5e-324, f64::MAX];
    let ends = ends.into_iter().flat_map(|end| [end, -end]).collect::<Vec<_>>();
    prop_oneof![any::<u64>().prop_map(f64::from_bits), prop::sample::select(ends)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn integers_keep_their_order(a: u64, b: u64, wide: (i128, i128), near in -3_i64..3) {
        holds(&a, &b);
        holds(&(a as u8), &(b as u8));
        holds(&(a as u16), &(b as u16));
        holds(&(a as u32), &(b as u32));
        holds(&(a as i8), &(b as i8));
        holds(&(a as i16), &(b as i16));
        holds(&(a as i32), &(b as i32));
        holds(&a.cast_signed(), &b.cast_signed());
        holds(&a.cast_signed(), &a.cast_signed().wrapping_add(near));
        holds(&wide.0, &wide.1);
        holds(&wide.0.cast_unsigned(), &wide.1.cast_unsigned());
        holds(&(a % 2 == 0), &(b % 2 == 0));
    }

    #[test]
    fn characters_keep_their_order(a: char, b: char) {
        holds(&a, &b);
    }

    #[test]
    fn floats_keep_their_total_order(a in floats(), b in floats()) {
        holds_by(&a, &b, a.total_cmp(&b));
        let (x, y) = (a as f32, b as f32);
        holds_by(&x, &y, x.total_cmp(&y));
        prop_assert_eq!(key::decode::<f64>(&key::to_vec(&a)).unwrap().to_bits(), a.to_bits());
        prop_assert_eq!(a.to_u64().cmp(&b.to_u64()), a.total_cmp(&b));
        prop_assert_eq!(f64::from_u64(a.to_u64()).unwrap().to_bits(), a.to_bits());
        prop_assert_eq!(f32::from_u64(x.to_u64()).unwrap().to_bits(), x.to_bits());
    }

    #[test]
    fn byte_strings_keep_their_order(a in strings(), b in strings()) {
        holds(&a, &b);
        holds(&Tail(a), &Tail(b));
    }

    #[test]
    fn texts_keep_their_order(a in texts(), b in texts()) {
        holds(&a, &b);
    }

    #[test]
    fn a_field_behind_a_string_never_outweighs_it(
        a in (strings(), any::<u8>(), strings()),
        b in (strings(), any::<u8>(), strings()),
    ) {
        holds(&a, &b);
        // Equal beginnings are too rare to be left to chance.
        holds(&(a.0.clone(), a.1), &(a.0.clone(), b.1));
        holds(&(a.0.clone(), Tail(a.2)), &(a.0, Tail(b.2)));
    }

    #[test]
    fn options_and_reversals_keep_their_order(
        a in (prop::option::of(strings()), any::<i16>()),
        b in (prop::option::of(strings()), any::<i16>()),
    ) {
        holds(&a, &b);
        holds(&Reverse(a.clone()), &Reverse(b.clone()));
        holds(&(Reverse(a.0.clone()), a.1), &(Reverse(b.0.clone()), b.1));
        holds(&(a.0.clone(), Reverse(Some(a.1))), &(a.0, Reverse(Some(b.1))));
    }

    #[test]
    fn times_keep_their_order(a: (i64, u64), b: (i64, u64)) {
        let span = |(secs, nanos): (i64, u64)| {
            Duration::new(secs.unsigned_abs(), (nanos % 1_000_000_000) as u32)
        };
        holds(&span(a), &span(b));
        let point = |at: (i64, u64)| {
            let nanos = Duration::from_nanos(at.1 % 3_000_000_000);
            let whole = Duration::from_secs(at.0.unsigned_abs() >> 16);
            if at.0 < 0 { UNIX_EPOCH - whole + nanos } else { UNIX_EPOCH + whole + nanos }
        };
        holds(&point(a), &point(b));
        holds(&point(a), &(point(a) + Duration::from_nanos(1)));
        let early = UNIX_EPOCH - Duration::from_secs(1 << 33);
        let (x, y) = (early + Duration::from_nanos(a.1), early + Duration::from_nanos(b.1));
        if let (Some(p), Some(q)) = (key::timestamp(x), key::timestamp(y)) {
            prop_assert_eq!(p.cmp(&q), x.cmp(&y));
            prop_assert_eq!(key::from_timestamp(p), x);
        }
    }

    #[test]
    fn numbers_for_integer_maps_keep_order_and_value(a: u64, b: u64) {
        holds_u64(a, b, a.cmp(&b));
        holds_u64(a.cast_signed(), b.cast_signed(), a.cast_signed().cmp(&b.cast_signed()));
        holds_u64(a as i32, b as i32, (a as i32).cmp(&(b as i32)));
        holds_u64(a as u16, b as u16, (a as u16).cmp(&(b as u16)));
        holds_u64(a as i8, b as i8, (a as i8).cmp(&(b as i8)));
        let pair = |n: u64| ((n >> 40) as u32 % 4, n as u32);
        holds_u64(pair(a), pair(b), pair(a).cmp(&pair(b)));
        let pair = |n: u64| ((n >> 40) as i32 % 4 - 2, n as i32);
        holds_u64(pair(a), pair(b), pair(a).cmp(&pair(b)));
        let pair = |n: u64| ((n >> 40) as u32 % 4, n as i32);
        holds_u64(pair(a), pair(b), pair(a).cmp(&pair(b)));
    }

    #[test]
    fn eight_fields_keep_their_order(
        a: (u8, i16, u32, i64, bool, char, u8, i8),
        b: (u8, i16, u32, i64, bool, char, u8, i8),
        same in 0_usize..5,
    ) {
        holds(&a, &b);
        // Two tuples that differ from one field on.
        let mut c = b;
        if same > 0 { c.0 = a.0; }
        if same > 1 { c.1 = a.1; }
        if same > 2 { c.2 = a.2; }
        if same > 3 { c.3 = a.3; }
        holds(&a, &c);
        let fixed: [u8; 22] = key::array(&a);
        prop_assert_eq!(fixed.to_vec(), key::to_vec(&a));
    }

    #[test]
    fn bytes_that_nobody_encoded_are_refused_or_encode_back(
        bytes in prop::collection::vec(prop_oneof![Just(0), Just(255), Just(1), any::<u8>()], 0..24),
    ) {
        fn hostile<T: Decode + Encode>(bytes: &[u8]) {
            if let Ok(value) = key::decode::<T>(bytes) {
                assert_eq!(key::to_vec(&value), bytes);
            }
        }
        hostile::<(String, u8)>(&bytes);
        hostile::<(Vec<u8>, Vec<u8>)>(&bytes);
        hostile::<Reverse<(Vec<u8>, Option<bool>)>>(&bytes);
        hostile::<(char, Option<i16>)>(&bytes);
        hostile::<Duration>(&bytes);
        hostile::<SystemTime>(&bytes);
        hostile::<(bool, f32, [u8; 3])>(&bytes);
    }
}

#[test]
fn the_ends_of_every_integer_are_in_order() {
    holds(&i64::MIN, &i64::MAX);
    holds(&-1_i64, &0);
    holds(&i128::MIN, &i128::MAX);
    holds(&u128::MIN, &u128::MAX);
    assert_eq!(key::array(&i16::MIN), [0, 0]);
    assert_eq!(key::array(&-1_i16), [0x7f, 0xff]);
}

#[test]
fn each_error_says_what_was_found() {
    let number = |bytes: &[u8]| key::decode::<u32>(bytes).unwrap_err();
    let text = |bytes: &[u8]| key::decode::<String>(bytes).unwrap_err();
    assert_eq!(number(&[1]), DecodeError::Short { needed: 4, found: 1 });
    assert_eq!(number(&[0; 6]), DecodeError::TrailingBytes { left: 2 });
    assert_eq!(text(b"a"), DecodeError::Unterminated);
    assert_eq!(text(b"a\0"), DecodeError::Unterminated);
    assert_eq!(text(b"a\0\x07"), DecodeError::Escape { found: 7 });
    assert_eq!(text(b"a\xff\0\0"), DecodeError::NotUtf8 { valid_up_to: 1 });
    assert_eq!(key::decode::<Option<u8>>(&[9]), Err(DecodeError::Flag { found: 9 }));
    let surrogate = key::decode::<char>(&[0, 0, 0xd8, 0]);
    assert_eq!(surrogate, Err(DecodeError::OutOfRange { found: 0xd800 }));
    assert_eq!(u16::from_u64(70_000), Err(DecodeError::OutOfRange { found: 70_000 }));
    assert!(key::timestamp(UNIX_EPOCH + Duration::from_secs(1 << 34)).is_none());
}
