//! The model that a map is compared with: `BTreeMap`, one operation at a time.
//!
//! [`agree`] runs a map and the model side by side, calls the map's own
//! verifier after steps, and names seed, shape and step of the first
//! difference. Replay it with `FANREAD_SEED`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;

use crate::ops::{Keys, Op, Ops};

/// What an operation answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A value, or none.
    Value(Option<u64>),
    /// An entry, or none.
    Entry(Option<(Vec<u8>, u64)>),
    /// Entries, in the order of the walk.
    Entries(Vec<(Vec<u8>, u64)>),
    /// A number of entries.
    Count(usize),
    /// Nothing.
    Done,
}

/// A map under test.
pub trait Subject {
    /// Carries out `op`, or returns `None` if the map does not have it yet.
    fn apply(&mut self, op: &Op) -> Option<Answer>;

    /// Verifies the map's structure.
    ///
    /// # Errors
    ///
    /// What is broken.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// The model itself.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// What the map should hold.
    pub map: BTreeMap<Vec<u8>, u64>,
}

impl Reference {
    /// Carries out `op` and returns the right answer.
    pub fn answer(&mut self, op: &Op) -> Answer {
        let map = &mut self.map;
        let owned = |(key, value): (&Vec<u8>, &u64)| (key.clone(), *value);
        match op {
            Op::Insert(key, value) => Answer::Value(map.insert(key.clone(), *value)),
            Op::Update(key, value) => {
                Answer::Value(map.get_mut(key).map(|old| std::mem::replace(old, *value)))
            }
            Op::GetOrInsert(key, value) => {
                Answer::Value(Some(*map.entry(key.clone()).or_insert(*value)))
            }
            Op::CompareExchange(key, expected, value) => {
                let found = map.get(key).copied();
                if found == Some(*expected) {
                    map.insert(key.clone(), *value);
                }
                Answer::Value(found)
            }
            Op::Remove(key) => Answer::Value(map.remove(key)),
            Op::Get(key) => Answer::Value(map.get(key).copied()),
            Op::LowerBound(from) => {
                Answer::Entry(between(map, slice(from), Bound::Unbounded).next().map(owned))
            }
            Op::UpperBound(to) => {
                Answer::Entry(between(map, Bound::Unbounded, slice(to)).next_back().map(owned))
            }
            Op::Range { from, to, count, walk } => {
                let range = between(map, slice(from), slice(to)).map(owned);
                Answer::Entries(walk.take(range, *count))
            }
            Op::First => Answer::Entry(map.first_key_value().map(owned)),
            Op::Last => Answer::Entry(map.last_key_value().map(owned)),
            Op::PopFirst => Answer::Entry(map.pop_first()),
            Op::PopLast => Answer::Entry(map.pop_last()),
            Op::Len => Answer::Count(map.len()),
            Op::Clear => {
                map.clear();
                Answer::Done
            }
        }
    }
}

impl Subject for Reference {
    fn apply(&mut self, op: &Op) -> Option<Answer> {
        Some(self.answer(op))
    }
}

/// Borrows the key of a bound, as maps take it.
pub fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// Returns the entries of `map` between two bounds; none if they are inverted.
///
/// `BTreeMap::range` panics where this returns nothing.
pub fn between<'a, V>(
    map: &'a BTreeMap<Vec<u8>, V>,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
) -> impl DoubleEndedIterator<Item = (&'a Vec<u8>, &'a V)> {
    let empty = match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(to) | Bound::Excluded(to),
        ) => from >= to,
        _ => false,
    };
    (!empty).then(|| map.range::<[u8], _>((from, to))).into_iter().flatten()
}

/// Returns the first `count` entries of `map` from `from` on.
#[must_use]
pub fn range<'a, V>(
    map: &'a BTreeMap<Vec<u8>, V>,
    from: &[u8],
    count: usize,
) -> Vec<(&'a [u8], &'a V)> {
    let entries = between(map, Bound::Included(from), Bound::Unbounded);
    entries.take(count).map(|(key, value)| (key.as_slice(), value)).collect()
}

/// Runs `steps` operations of `seed` on a map from `make` and on the model.
///
/// Compares every answer, calls the map's `check` at steps that are powers of
/// two and at the end, and at the end compares all entries from both sides.
///
/// # Panics
///
/// At the first difference, saying how to make it again.
pub fn agree<S: Subject>(make: impl FnOnce() -> S, seed: u64, keys: Keys, steps: usize) {
    let name = named(seed, keys);
    run(&mut make(), &mut Ops::new(seed).keys(keys).take(steps), &name);
}

/// As [`agree`], with a pool of `pool` keys: the size the map grows to.
///
/// # Panics
///
/// As [`agree`].
pub fn agree_at_size<S: Subject>(
    make: impl FnOnce() -> S,
    seed: u64,
    keys: Keys,
    pool: usize,
    steps: usize,
) {
    let name = named(seed, keys);
    run(&mut make(), &mut Ops::new(seed).keys(keys).pool(pool).take(steps), &name);
}

/// As [`agree`], on given operations.
///
/// # Panics
///
/// As [`agree`].
pub fn agree_on(mut map: impl Subject, ops: impl IntoIterator<Item = Op>) {
    run(&mut map, &mut ops.into_iter(), "given operations");
}

/// How the run of a seed is made again.
fn named(seed: u64, keys: Keys) -> String {
    format!("FANREAD_SEED={seed:#x}, {keys:?}")
}

/// Compiled once for all maps.
fn run(map: &mut dyn Subject, ops: &mut dyn Iterator<Item = Op>, name: &str) {
    let mut model = Reference::default();
    let whole =
        |walk| Op::Range { from: Bound::Unbounded, to: Bound::Unbounded, count: usize::MAX, walk };
    let ends = [whole(crate::ops::Walk::Forward), whole(crate::ops::Walk::Backward), Op::Len];
    let ops = ops.map(|op| (op, false)).chain(ends.map(|op| (op, true)));
    for (step, (op, is_end)) in ops.enumerate() {
        let at = || format!("{name}, step {step}: {}", brief(&op));
        let right = model.answer(&op);
        match map.apply(&op) {
            Some(answer) if answer != right => {
                panic!("{}\n answer {}\n  right {}", at(), brief(&answer), brief(&right))
            }
            Some(_) => {}
            // What the map cannot do, the model must not have done either.
            None => undo(&mut model, map, &op),
        }
        // Often while the map is small, seldom once a check is dear.
        if step.is_power_of_two() || is_end {
            map.check().unwrap_or_else(|broken| panic!("{broken}\nafter {}", at()));
        }
    }
}

/// Makes the map hold what the model holds after an operation the map lacks.
fn undo(model: &mut Reference, map: &mut dyn Subject, op: &Op) {
    let put = |map: &mut dyn Subject, key: &[u8], value: Option<u64>| {
        let op = match value {
            Some(value) => Op::Insert(key.to_vec(), value),
            None => Op::Remove(key.to_vec()),
        };
        assert!(map.apply(&op).is_some(), "a map under test inserts and removes");
    };
    match op {
        Op::Insert(..) | Op::Remove(_) => panic!("a map under test inserts and removes"),
        Op::Update(key, _) | Op::GetOrInsert(key, _) | Op::CompareExchange(key, ..) => {
            put(map, key, model.map.get(key).copied());
        }
        // These name no key: the model is put back by what the map answers.
        Op::PopFirst | Op::PopLast | Op::Clear => {
            let all = Op::Range {
                from: Bound::Unbounded,
                to: Bound::Unbounded,
                count: usize::MAX,
                walk: crate::ops::Walk::Forward,
            };
            let Some(Answer::Entries(entries)) = map.apply(&all) else {
                panic!("a map without {op:?} must at least have ranges")
            };
            model.map = entries.into_iter().collect();
        }
        _ => {}
    }
}

/// Writes `what` in at most some 300 characters: keys may have 65,535 bytes.
fn brief(what: &impl Debug) -> String {
    let text = format!("{what:?}");
    if text.len() <= 300 {
        return text;
    }
    format!("{} ... {} ({} characters)", &text[..200], &text[text.len() - 80..], text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The model with one fault: it loses the write of one key.
    #[derive(Default)]
    struct Forgetful(Reference);

    impl Subject for Forgetful {
        fn apply(&mut self, op: &Op) -> Option<Answer> {
            match op {
                Op::Insert(key, _) if key == b"a" => {
                    Some(Answer::Value(self.0.map.get(key).copied()))
                }
                Op::GetOrInsert(..) | Op::PopLast => None,
                _ => self.0.apply(op),
            }
        }
    }

    #[test]
    fn the_model_agrees_with_itself_on_every_shape() {
        for keys in Keys::ALL {
            agree(Reference::default, 1, keys, 3_000);
        }
    }

    #[test]
    #[should_panic(expected = "FANREAD_SEED=0x1, Short, step")]
    fn a_lost_insert_is_found() {
        agree(Forgetful::default, 1, Keys::Short, 10_000);
    }
}
