//! Every map answers like a sorted list.

use std::collections::BTreeMap as Model;

use rivals::{
    BTreeMap, Congee, Eytzinger, HashMap, IndexSet, LinearProbing, Masstree, SkipMap, Text,
    TreeIndex, Word,
};
use workload::Rng;
use workload::dataset::Dataset;
use workload::mix::value_of;
use workload::subject::{Handle, Subject};

fn answers_like_a_model<S: Subject>(sets: &[&str]) {
    for name in sets {
        let keys = name.parse::<Dataset>().unwrap().load(3000, 1).unwrap().0;
        let mut map = S::new();
        let mut handle = map.own();
        let mut model = Model::new();
        let mut rng = Rng::new(1);
        for step in 0..30_000 {
            let at = format!("{} on {name}, step {step}", S::NAME);
            let key = keys.key(rng.index(keys.len()));
            let value = rng.bits() >> 1;
            match rng.below(9) {
                0..3 if !model.contains_key(key) => {
                    assert!(handle.insert(key, value), "{at}: new");
                    model.insert(key, value);
                }
                3 if model.contains_key(key) => {
                    assert!(handle.update(key, value), "{at}: there");
                    model.insert(key, value);
                }
                4 => assert_eq!(handle.remove(key), model.remove(key).is_some(), "{at}"),
                5 if S::ORDERED => {
                    let mut found = Vec::new();
                    handle.scan(key, 20, |key, value| found.push((key.to_vec(), value)));
                    let right: Vec<_> =
                        model.range(key..).take(20).map(|(k, v)| (k.to_vec(), *v)).collect();
                    assert_eq!(found, right, "{at}");
                }
                6 => {
                    let batch = [key, keys.key(rng.index(keys.len()))];
                    let mut out = [None; 2];
                    handle.get_batch(&batch, &mut out);
                    assert_eq!(out, batch.map(|key| model.get(key).copied()), "{at}");
                }
                7 if S::ORDERED => {
                    let mut found = Vec::new();
                    handle.lower_bound(key, |key, value| found.push((key.to_vec(), value)));
                    let right: Vec<_> =
                        model.range(key..).take(1).map(|(k, v)| (k.to_vec(), *v)).collect();
                    assert_eq!(found, right, "{at}");
                }
                _ => assert_eq!(handle.get(key), model.get(key).copied(), "{at}"),
            }
            if step % 256 == 0 {
                handle.repin();
            }
        }
    }
}

const NUMBERS: [&str; 3] = ["rand-8", "seq-8", "osm"];
const STRINGS: [&str; 4] = ["reddit", "url", "klong", "k8"];

#[test]
fn btreemap_answers_like_a_model() {
    answers_like_a_model::<BTreeMap<Word>>(&NUMBERS);
    answers_like_a_model::<BTreeMap<Text>>(&STRINGS);
}

#[test]
fn indexset_answers_like_a_model() {
    answers_like_a_model::<IndexSet<Word>>(&NUMBERS);
    answers_like_a_model::<IndexSet<Text>>(&STRINGS);
}

#[test]
fn hashbrown_answers_like_a_model() {
    answers_like_a_model::<HashMap<Word>>(&NUMBERS);
    answers_like_a_model::<HashMap<Text>>(&STRINGS);
}

#[test]
fn linear_probing_answers_like_a_model() {
    answers_like_a_model::<LinearProbing>(&NUMBERS);
}

#[test]
fn crossbeam_skiplist_answers_like_a_model() {
    answers_like_a_model::<SkipMap<Word>>(&NUMBERS);
    answers_like_a_model::<SkipMap<Text>>(&STRINGS);
}

#[test]
fn scc_answers_like_a_model() {
    answers_like_a_model::<TreeIndex<Word>>(&NUMBERS);
    answers_like_a_model::<TreeIndex<Text>>(&STRINGS);
}

#[test]
fn masstree_answers_like_a_model() {
    answers_like_a_model::<Masstree>(&NUMBERS);
    answers_like_a_model::<Masstree>(&STRINGS);
}

/// Compares an array that is made once with the model; its own tests ask for more.
#[test]
fn eytzinger_answers_like_a_model() {
    for name in NUMBERS {
        let keys = name.parse::<Dataset>().unwrap().load(3000, 1).unwrap().0;
        let mut array = Eytzinger::new();
        let model: Model<_, _> = (0..keys.present()).map(|i| (keys.key(i), value_of(i))).collect();
        let mut maker = array.own();
        for i in 0..keys.present() {
            assert!(maker.insert(keys.key(i), value_of(i)));
        }
        maker.loaded();
        let mut handle = array.own();
        for i in 0..keys.len() {
            let key = keys.key(i);
            assert_eq!(handle.get(key), model.get(key).copied(), "key {i} of {name}");
            let mut found = Vec::new();
            handle.scan(key, 20, |key, value| found.push((key.to_vec(), value)));
            let right: Vec<_> =
                model.range(key..).take(20).map(|(k, v)| (k.to_vec(), *v)).collect();
            assert_eq!(found, right, "key {i} of {name}");
            found.clear();
            handle.lower_bound(key, |key, value| found.push((key.to_vec(), value)));
            assert_eq!(found, right[..right.len().min(1)], "key {i} of {name}");
        }
    }
}

#[test]
fn congee_answers_like_a_model() {
    answers_like_a_model::<Congee>(&NUMBERS);
}
