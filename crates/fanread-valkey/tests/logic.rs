//! What needs no server: the encodings, the saved form, bounds, patterns and numbers.
//!
//! The sources of the crate are taken in here by themselves, since the module's allocator is the server's.

#![allow(
    clippy::missing_errors_doc,
    reason = "inside of the crate, the error is that there is no memory"
)]
#![allow(dead_code, reason = "not all that is taken in is tested here")]

#[path = "../src/border.rs"]
mod border;
#[path = "../src/bound.rs"]
mod bound;
#[path = "../src/codec.rs"]
mod codec;
#[path = "../src/glob.rs"]
mod glob;
#[path = "../src/guess.rs"]
#[expect(unsafe_code, reason = "it looks at maps that others may be about to free")]
mod guess;
#[path = "../src/large.rs"]
mod large;
#[path = "../src/number.rs"]
mod number;
#[path = "../src/random.rs"]
mod random;
#[path = "../src/size.rs"]
mod size;
#[path = "../src/small.rs"]
mod small;
#[path = "../src/tree.rs"]
mod tree;

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, ControlFlow};
use std::time::{Duration, Instant};

use bound::{Edge, above_prefix, edge, span};
use codec::{Sink, Source};
use number::{Decimal, integer};
use random::Random;
use tree::{MAX_FIELD_BYTES, Span, Tree};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn entries(tree: &Tree, span: Span<'_>, reverse: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    tree.walk(span, reverse, |field, value| {
        all.push((field.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    all
}

fn value_of(tree: &Tree, field: &[u8]) -> Option<Vec<u8>> {
    tree.get(field, |value| value.map(<[u8]>::to_vec))
}

fn tree_of(count: usize) -> Tree {
    let mut tree = Tree::new();
    for number in 0..count {
        assert_eq!(
            tree.set(format!("field {number:06}").as_bytes(), &number.to_le_bytes()),
            Ok(true)
        );
    }
    tree
}

/// A field, value or bound of a few bytes, or now and then of many.
fn bytes(random: &mut Random) -> Vec<u8> {
    let len = match random.below(40) {
        0 => 100 + random.below(200),
        1 => 0,
        _ => random.below(4),
    };
    (0..len).map(|_| b"\0a\xff"[random.below(3)]).collect()
}

#[test]
fn a_map_agrees_with_a_btreemap() {
    // Few fields stay small, many become large in between, and long values do so early.
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let (mut tree, mut model) = (Tree::new(), Model::new());
        for step in 0..1_500 {
            let at = || format!("seed {seed}, step {step}");
            let mut field = bytes(&mut random);
            if seed % 2 == 1 {
                field.push(random.below(200) as u8);
            }
            match random.below(if model.len() > 40 { 8 } else { 5 }) {
                0..=3 => {
                    let value = bytes(&mut random);
                    let new = model.insert(field.clone(), value.clone()).is_none();
                    assert_eq!(tree.set(&field, &value), Ok(new), "{}", at());
                }
                4 => assert_eq!(
                    value_of(&tree, &field).as_deref(),
                    model.get(&field).map(Vec::as_slice),
                    "{}",
                    at()
                ),
                _ => assert_eq!(tree.remove(&field), model.remove(&field).is_some(), "{}", at()),
            }
            assert_eq!(tree.len(), model.len(), "{}", at());
            if step % 50 == 0 {
                let (low, high) = (bytes(&mut random), bytes(&mut random));
                let ends = [Edge::Lowest, Edge::Included(&low), Edge::Excluded(&low)];
                for start in ends {
                    for end in [Edge::Highest, Edge::Included(&high), Edge::Excluded(&high)] {
                        let Some(span) = span(start, end) else { continue };
                        let inside = |field: &[u8]| !span.is_above(field) && !span.is_below(field);
                        let mut wanted: Vec<_> = model
                            .iter()
                            .filter(|(field, _)| inside(field))
                            .map(|(f, v)| (f.clone(), v.clone()))
                            .collect();
                        assert_eq!(entries(&tree, span, false), wanted, "{}", at());
                        assert_eq!(tree.count(span), wanted.len(), "{}", at());
                        wanted.reverse();
                        assert_eq!(entries(&tree, span, true), wanted, "{}", at());
                    }
                }
                let copy = tree.copy().unwrap();
                assert_eq!(
                    entries(&copy, Span::ALL, false),
                    entries(&tree, Span::ALL, false),
                    "{}",
                    at()
                );
            }
        }
    }
}

#[test]
fn a_map_becomes_large_with_the_129th_entry_or_4_kib() {
    let mut tree = tree_of(128);
    assert_eq!(tree.encoding(), "packed");
    assert_eq!(tree.set(b"field 000000", b"another"), Ok(false), "of an entry that is there");
    assert_eq!(tree.encoding(), "packed");
    assert_eq!(tree.set(b"one more", b""), Ok(true));
    assert_eq!((tree.encoding(), tree.len()), ("ordered-map", 129));

    let mut tree = Tree::new();
    assert_eq!(tree.set(b"", &[7; 4093]), Ok(true));
    assert_eq!(tree.encoding(), "packed");
    assert_eq!(tree.set(b"", &[7; 4094]), Ok(false));
    assert_eq!((tree.encoding(), tree.len()), ("ordered-map", 1));
    assert_eq!(value_of(&tree, b"").as_deref(), Some(&[7; 4094][..]));
}

#[test]
fn batches_give_each_answer_in_its_place() {
    for count in [10, 1_000] {
        let tree = tree_of(count);
        for asked in [0, 1, 63, 64, 65, 200] {
            let fields: Vec<_> =
                (0..asked).map(|number| format!("field {:06}", number * 7 % (2 * count))).collect();
            let mut found = Vec::new();
            tree.get_each(fields.iter().map(String::as_bytes), |value| {
                found.push(value.map(<[u8]>::to_vec));
            });
            let wanted: Vec<_> =
                fields.iter().map(|field| value_of(&tree, field.as_bytes())).collect();
            assert_eq!(found, wanted, "{count} entries, {asked} fields");
        }
    }
}

/// Sets all entries of `tree_of(1_000)` to values of one length.
fn set_all(tree: &mut Tree, value_bytes: usize) {
    for number in 0..1_000 {
        tree.set(format!("field {number:06}").as_bytes(), &vec![1; value_bytes]).unwrap();
    }
}

#[test]
fn memory_of_long_values_comes_back() {
    let mut tree = tree_of(1_000);
    let start = Instant::now();
    let mut small = 0;
    while small < 3 {
        set_all(&mut tree, 2_000);
        assert!(tree.memory_bytes() >= 2_000_000);
        set_all(&mut tree, 8);
        // A thread of another test, put off in the middle of an operation, holds back what is freed
        // until it goes on.
        small += usize::from(tree.memory_bytes() <= 400_000);
        assert!(start.elapsed() < Duration::from_mins(1), "{}", tree.memory_bytes());
    }
}

#[test]
fn values_that_grow_and_shrink_byte_by_byte_leave_little_memory_behind() {
    let mut long = tree_of(1_000);
    set_all(&mut long, 500);
    let mut tree = tree_of(1_000);
    for round in 0..3 {
        (8..500).chain((8..500).rev()).for_each(|value_bytes| set_all(&mut tree, value_bytes));
        let (bytes, enough) = (tree.memory_bytes(), long.memory_bytes());
        assert!(bytes <= 5 * enough, "{bytes}, {enough} would do, in round {round}");
    }
}

/// What was saved.
#[derive(Clone, PartialEq, Debug)]
enum Item {
    Number(u64),
    String(Vec<u8>),
}

struct Store(VecDeque<Item>);

impl Sink for Store {
    fn number(&mut self, number: u64) {
        self.0.push_back(Item::Number(number));
    }

    fn string(&mut self, string: &[u8]) {
        self.0.push_back(Item::String(string.to_vec()));
    }
}

impl Source for Store {
    type Text = Vec<u8>;

    fn number(&mut self) -> Option<u64> {
        match self.0.pop_front()? {
            Item::Number(number) => Some(number),
            Item::String(_) => None,
        }
    }

    fn string(&mut self) -> Option<Vec<u8>> {
        match self.0.pop_front()? {
            Item::String(string) => Some(string),
            Item::Number(_) => None,
        }
    }
}

fn saved(tree: &Tree) -> VecDeque<Item> {
    let mut store = Store(VecDeque::new());
    codec::save(tree, &mut store);
    store.0
}

#[test]
fn what_was_saved_is_loaded() {
    for count in [1, 127, 128, 129, 5_000] {
        let tree = tree_of(count);
        let loaded = codec::load(&mut Store(saved(&tree))).unwrap();
        assert_eq!(loaded.encoding(), tree.encoding(), "{count} entries");
        assert_eq!(
            entries(&loaded, Span::ALL, false),
            entries(&tree, Span::ALL, false),
            "{count} entries"
        );
    }
}

#[test]
fn damage_is_refused_wherever_it_is() {
    let refused = |items: VecDeque<Item>| codec::load(&mut Store(items)).is_none();
    assert!(refused(VecDeque::new()));
    assert!(refused(VecDeque::from([Item::Number(0)])));
    for count in [2, 200] {
        let whole = saved(&tree_of(count));
        for cut in 0..whole.len() {
            assert!(
                refused(whole.iter().take(cut).cloned().collect()),
                "{count} entries, cut at {cut}"
            );
            let mut other = whole.clone();
            other[cut] = match &whole[cut] {
                Item::Number(_) => Item::String(Vec::new()),
                Item::String(_) => Item::Number(1),
            };
            assert!(refused(other), "{count} entries, another kind at {cut}");
        }
        for entry in 1..count {
            let mut other = whole.clone();
            other.swap(1 + 2 * entry, 2 * entry - 1);
            assert!(refused(other), "{count} entries, {entry} out of order");
            let mut other = whole.clone();
            other[1 + 2 * entry] = whole[2 * entry - 1].clone();
            assert!(refused(other), "{count} entries, {entry} twice");
            let mut other = whole.clone();
            other[1 + 2 * entry] = Item::String(vec![b'x'; MAX_FIELD_BYTES + 1]);
            assert!(refused(other), "{count} entries, {entry} too long");
        }
        let mut more = whole.clone();
        more[0] = Item::Number(u64::MAX);
        assert!(refused(more), "more entries than there are");
    }
}

#[test]
fn bounds_are_those_of_sorted_sets() {
    assert_eq!(edge(b"-"), Some(Edge::Lowest));
    assert_eq!(edge(b"+"), Some(Edge::Highest));
    assert_eq!(edge(b"["), Some(Edge::Included(b"")));
    assert_eq!(edge(b"((a"), Some(Edge::Excluded(b"(a")));
    for text in ["", "a", "--", "+a", "]a"] {
        assert_eq!(edge(text.as_bytes()), None, "{text}");
    }
    assert!(span(Edge::Highest, Edge::Highest).is_none());
    assert!(span(Edge::Lowest, Edge::Lowest).is_none());
    assert!(span(Edge::Included(b"b"), Edge::Included(b"a")).is_none());
    assert!(span(Edge::Excluded(b"a"), Edge::Included(b"a")).is_none());
    assert!(span(Edge::Included(b"a"), Edge::Included(b"a")).is_some());
    let all = Span { start: Bound::Unbounded, end: Bound::Unbounded };
    assert_eq!(span(Edge::Lowest, Edge::Highest), Some(all));
}

#[test]
fn a_prefix_ends_below_the_next_one() {
    assert_eq!(above_prefix(b"ab").as_deref(), Some(&b"ac"[..]));
    assert_eq!(above_prefix(b"a\xff\xff").as_deref(), Some(&b"b"[..]));
    assert_eq!(above_prefix(b"\xff"), None);
    assert_eq!(above_prefix(b""), None);
}

#[test]
fn patterns_match_what_they_say() {
    let yes = [
        ("", ""),
        ("*", ""),
        ("*", "abc"),
        ("a*c", "abc"),
        ("a*c", "ac"),
        ("*b*", "abc"),
        ("a?c", "abc"),
        ("[abc]", "b"),
        ("[^a]", "b"),
        ("[a-c]x", "bx"),
        ("[c-a]x", "bx"),
        ("a\\*", "a*"),
        ("[\\]]", "]"),
        ("*a*a*b", "aaaaab"),
        ("[a", "a"),
        ("\\", "\\"),
        ("**", "x"),
        ("a**b", "ab"),
    ];
    for (pattern, text) in yes {
        assert!(glob::matches(pattern.as_bytes(), text.as_bytes()), "{pattern} and {text}");
    }
    let no = [
        ("", "a"),
        ("a", ""),
        ("a", "ab"),
        ("a*c", "abd"),
        ("?", ""),
        ("[abc]", "d"),
        ("[^a]", "a"),
        ("a\\*", "ab"),
        ("[a-c]", ""),
        ("*a", "ab"),
        ("[]", "a"),
        ("a?", "a"),
    ];
    for (pattern, text) in no {
        assert!(!glob::matches(pattern.as_bytes(), text.as_bytes()), "{pattern} and {text}");
    }
}

#[test]
fn a_pattern_of_many_stars_ends() {
    let pattern = "a*".repeat(500) + "b";
    assert!(!glob::matches(pattern.as_bytes(), "a".repeat(10_000).as_bytes()));
}

#[test]
fn integers_are_read_as_the_server_reads_them() {
    for (text, number) in [
        ("0", 0),
        ("-1", -1),
        ("9223372036854775807", i64::MAX),
        ("-9223372036854775808", i64::MIN),
    ] {
        assert_eq!(integer(text.as_bytes()), Some(number), "{text}");
    }
    for text in [
        "",
        "-",
        "+1",
        "01",
        "-0",
        " 1",
        "1 ",
        "1.0",
        "9223372036854775808",
        "-9223372036854775809",
        "\u{661}",
    ] {
        assert_eq!(integer(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn decimals_add_as_on_paper() {
    let sum = |a: &str, b: &str| {
        Decimal::read(a.as_bytes())?.plus(Decimal::read(b.as_bytes())?).map(Decimal::write)
    };
    for (a, b, wanted) in [
        ("0.1", "0.2", "0.3"),
        ("10.50", "0.1", "10.6"),
        ("5.0e3", "200", "5200"),
        ("-1.5", "1.5", "0"),
        ("0", "-0.25", "-0.25"),
        ("1e-17", "0", "0.00000000000000001"),
        (".5", "1.", "1.5"),
        ("3", "-5", "-2"),
        ("1e300", "1e300", &format!("2{}", format!("{:.0}", 2e300_f64).get(1..).unwrap())),
        ("1e-30", "1", "1"),
        ("10.1", "1e-18", "10.1"),
        ("10.1", "1e-400", "10.1"),
        ("10.1", "0.0033333333333333335", "10.10333333333333333"),
        ("12345678901.1234567", "4e-18", "12345678901.1234567"),
        ("0", "5e-18", "0.00000000000000001"),
        ("0", "-5e-18", "-0.00000000000000001"),
        ("10.1", &format!("0.{}", "1".repeat(60)), "10.21111111111111111"),
        ("10.1", &format!("0.1{}e1", "0".repeat(60)), "11.1"),
    ] {
        assert_eq!(sum(a, b).as_deref(), Some(wanted), "{a} and {b}");
    }
    assert_eq!(sum("1e308", "1e308"), None, "infinite");
    assert_eq!(sum("inf", "-inf"), None, "no number");
    for text in ["", "nan", "abc", "1 ", " 1", "1e", "--1", "1..2", ".", "0x10"] {
        assert_eq!(Decimal::read(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn chance_gives_different_entries_when_asked_to() {
    for entries in [1, 5, 100, 1_000] {
        let tree = tree_of(entries);
        let mut random = Random::new(5);
        for count in [0, 1, 4, 999, 5_000] {
            let mut seen = std::collections::BTreeSet::new();
            random::distinct(&tree, count, &mut random, |field, _| {
                assert!(seen.insert(field.to_vec()));
            });
            assert_eq!(seen.len(), count.min(entries));
        }
    }
}

#[test]
fn chance_picks_all_entries_alike() {
    random::any(&tree_of(0), 5, &mut Random::new(1), |_, _| panic!("there is none"));
    for entries in [1, 2, 9, 300, 5_000] {
        // Segments of the directory of different sizes, and slots of entries that are gone.
        let mut tree = tree_of(2 * entries);
        for number in entries..2 * entries {
            assert!(tree.remove(format!("field {number:06}").as_bytes()));
        }
        let mut random = Random::new(3);
        let mut seen = vec![0_usize; entries];
        let draws = 400 * entries;
        random::any(&tree, draws, &mut random, |field, value| {
            let number = usize::from_le_bytes(value.try_into().unwrap());
            assert_eq!(field, format!("field {number:06}").as_bytes());
            seen[number] += 1;
        });
        // Of each 400 with a deviation of 20; seven of them are not seen in a lifetime.
        assert_eq!(seen.iter().sum::<usize>(), draws);
        assert!(seen.iter().all(|seen| seen.abs_diff(400) < 140), "{entries}: {seen:?}");
    }
}

#[test]
fn chance_finds_what_is_left_of_a_large_map() {
    let mut tree = tree_of(60_000);
    for number in 2..60_000 {
        assert!(tree.remove(format!("field {number:06}").as_bytes()));
    }
    let mut seen = std::collections::BTreeSet::new();
    random::any(&tree, 200, &mut Random::new(9), |field, _| {
        seen.insert(field.to_vec());
    });
    assert_eq!(seen.len(), 2);
}

#[test]
fn sizes_are_classes_of_the_allocator() {
    for (bytes, class) in [
        (0, 0),
        (1, 8),
        (8, 8),
        (9, 16),
        (100, 112),
        (128, 128),
        (129, 160),
        (161, 192),
        (257, 320),
    ] {
        assert_eq!(size::of(bytes), class, "{bytes}");
    }
    assert_eq!(size::of(4_097), 5_120);
}

#[test]
fn no_panic_passes_the_border() {
    std::panic::set_hook(Box::new(|_| {}));
    assert_eq!(border::guard(|| -> u32 { panic!("inside") }), None);
    assert_eq!(border::guard(|| 5), Some(5));
}

#[test]
#[expect(unsafe_code, reason = "maps are freed by their addresses, as the server does it")]
fn no_map_is_guessed_that_is_being_freed() {
    let (sender, receiver) = std::sync::mpsc::channel::<usize>();
    std::thread::scope(|scope| {
        // As the server's own thread frees them.
        scope.spawn(move || {
            for address in receiver {
                let tree = std::ptr::with_exposed_provenance_mut::<Tree>(address);
                guess::forget(tree);
                // SAFETY: what `into_raw` gave, once; nobody else has it any more.
                drop(unsafe { Box::from_raw(tree) });
            }
        });
        for round in 0..300 {
            let tree = Box::into_raw(Box::new(tree_of(200)));
            guess::remember(tree);
            for number in 0..round % 7 {
                guess::ask(format!("{number}").as_bytes());
            }
            sender.send(tree.expose_provenance()).unwrap();
            for number in 0..50 {
                guess::ask(format!("{number}").as_bytes());
                guess::ask_to_set(format!("{number}").as_bytes());
            }
        }
        drop(sender);
    });
}

#[test]
fn what_was_asked_for_changes_nothing() {
    for count in [0, 5, 300] {
        let mut tree = tree_of(count);
        let before = entries(&tree, Span::ALL, false);
        for (field, value) in &before {
            let asked = tree.ask(field);
            tree.ask_to_set(field);
            for asked in [asked, None] {
                let found = tree.get_while(field, asked, || (), |value| value.map(<[u8]>::to_vec));
                assert_eq!(found.as_ref(), Some(value));
            }
        }
        let asked = tree.ask(b"nothing");
        tree.ask_to_set(b"nothing");
        assert!(tree.get_while(b"nothing", asked, || (), |value| value.is_none()));
        assert_eq!(entries(&tree, Span::ALL, false), before);
    }
}
