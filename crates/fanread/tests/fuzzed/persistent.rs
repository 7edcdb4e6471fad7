//! Operations that are spelled by bytes, on persistent maps in memory.

use std::collections::BTreeMap;

use fanread::persist::cceh::CcehOptions;
use fanread::{Cceh, Store};
use testkit::Op;
use testkit::model::{Answer, Reference, Subject, agree_on};
use testkit::ops::as_u64;
use testkit::spelled::{self, Takes};

/// Carries out what the bytes spell on a map of the kind they name, and compares it with the model.
pub(crate) fn run(bytes: &[u8]) {
    let numbers = spelled::map_of(bytes) == "cceh";
    let ops = spelled::ops(bytes, Takes { numbers, points: true });
    // Segments of four lines, which split and merge all the time; the last kind has them as users have.
    let options = CcehOptions::new().huge_pages(false).seed(7);
    let options = match spelled::kind_of(bytes, 3) {
        0 => options.segment_bytes(256),
        1 => options.segment_bytes(256).probed_buckets(1),
        _ => options,
    };
    if numbers {
        agree_on(Numbers(Cceh::in_memory(options).unwrap()), ops);
    } else {
        agree_on(Strings(Store::in_memory(options).unwrap()), ops);
    }
}

struct Numbers(Cceh);

impl Subject for Numbers {
    fn apply(&mut self, op: &Op) -> Option<Answer> {
        let map = &self.0;
        Some(match op {
            Op::Insert(key, value) => Answer::Value(map.insert(as_u64(key), *value).unwrap()),
            Op::Remove(key) => Answer::Value(map.remove(as_u64(key))),
            Op::Get(key) => {
                let mut found = [None];
                map.get_batch(&[as_u64(key)], &mut found);
                assert_eq!(map.get(as_u64(key)), found[0], "get_batch");
                Answer::Value(found[0])
            }
            Op::Len => Answer::Count(map.len()),
            Op::Range { .. } => {
                let all = map.iter().map(|(key, value)| (key.to_be_bytes().to_vec(), value));
                sorted(all, map.len()).answer(op)
            }
            _ => return None,
        })
    }

    fn check(&self) -> Result<(), String> {
        self.0.check().map_err(|broken| broken.to_string())
    }
}

struct Strings(Store);

/// The value of a number; some are longer than a block of a small map.
fn body(number: u64) -> Vec<u8> {
    let more = if number.is_multiple_of(17) { 700 } else { number as usize % 40 };
    number.to_le_bytes().into_iter().chain((0..more).map(|at| at as u8 ^ number as u8)).collect()
}

fn number(bytes: &[u8]) -> u64 {
    let number = u64::from_le_bytes(*bytes.first_chunk().expect("a value has eight bytes"));
    assert_eq!(bytes, body(number), "a value is whole");
    number
}

impl Subject for Strings {
    fn apply(&mut self, op: &Op) -> Option<Answer> {
        let map = &self.0;
        let value = |found: Option<Vec<u8>>| Answer::Value(found.as_deref().map(number));
        Some(match op {
            Op::Insert(key, new) => value(map.insert(key, &body(*new)).unwrap()),
            Op::Remove(key) => value(map.remove(key)),
            Op::Get(key) => {
                let mut found = [None];
                map.get_batch(&[key], &mut found);
                let [found] = found;
                assert_eq!(map.get(key), found, "get_batch");
                value(found)
            }
            Op::Len => Answer::Count(map.len()),
            Op::Range { .. } => {
                let all = map.iter().map(|(key, value)| (key, number(&value)));
                sorted(all, map.len()).answer(op)
            }
            _ => return None,
        })
    }

    fn check(&self) -> Result<(), String> {
        self.0.check().map_err(|broken| broken.to_string())
    }
}

/// Entries in the order of their keys.
fn sorted(entries: impl Iterator<Item = (Vec<u8>, u64)>, len: usize) -> Reference {
    let entries: Vec<_> = entries.collect();
    assert_eq!(entries.len(), len, "each key comes once");
    let map: BTreeMap<_, _> = entries.into_iter().collect();
    assert_eq!(map.len(), len, "each key comes once");
    Reference { map }
}
