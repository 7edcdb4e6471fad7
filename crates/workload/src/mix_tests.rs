use super::*;
use crate::dataset::Dataset;

fn keys() -> KeySet {
    "reddit".parse::<Dataset>().unwrap().load(2000, 1).unwrap().0
}

fn plan(keys: &KeySet) -> Plan<'_> {
    Plan { keys, distribution: Distribution::Uniform, queries: 5000, thread: (0, 1), seed: 3 }
}

#[test]
fn every_query_carries_its_key_and_answer() {
    let keys = keys();
    for workload in [Workload::Get, Workload::YcsbA, Workload::YcsbD] {
        let stream = plan(&keys).stream(workload, None).unwrap();
        for i in 0..stream.len() {
            let query = stream.query(i);
            assert_eq!(stream.key(&query), keys.key(stream.index(i)));
            assert_eq!(query.expect, value_of(stream.index(i)));
        }
    }
}

#[test]
fn misses_ask_for_keys_kept_out() {
    let keys = keys();
    let stream = plan(&keys).stream(Workload::Miss, None).unwrap();
    assert!((0..stream.len()).all(|i| stream.index(i) >= keys.present()));
}

#[test]
fn lower_bounds_ask_for_the_entry_above_a_key_kept_out() {
    let keys = keys();
    let order = Order::of(&keys);
    let map: std::collections::BTreeMap<&[u8], u64> =
        (0..keys.present()).map(|i| (keys.key(i), value_of(i))).collect();
    for workload in [Workload::LowerBound, Workload::LowerBoundDependent] {
        let mut scans = ScanReference::new(&keys, &order, keys.present());
        let stream = plan(&keys).stream(workload, Some(&mut scans)).unwrap();
        for i in 0..stream.len() {
            assert!(stream.index(i) >= keys.present());
            let mut fold = Fold::default();
            if let Some((key, value)) = map.range(keys.key(stream.index(i))..).next() {
                fold.add(key, *value);
            }
            assert_eq!(fold.0, stream.query(i).expect, "query {i}");
        }
    }
}

#[test]
fn mixes_have_their_shares() {
    let keys = keys();
    let mut order = None;
    for (workload, op, share) in [
        (Workload::YcsbA, Op::Update, 0.5),
        (Workload::YcsbB, Op::Update, 0.05),
        (Workload::YcsbC, Op::Update, 0.0),
        (Workload::YcsbD, Op::Insert, 0.05),
        (Workload::YcsbE, Op::Insert, 0.05),
        (Workload::YcsbF, Op::ReadUpdate, 0.5),
    ] {
        let order = order.get_or_insert_with(|| Order::of(&keys));
        let mut scans = ScanReference::new(&keys, order, keys.present());
        let stream = plan(&keys).stream(workload, Some(&mut scans)).unwrap();
        let count = (0..stream.len()).filter(|i| stream.query(*i).op == op).count();
        let seen = count as f64 / stream.len() as f64;
        assert!((seen - share).abs() < 0.02, "{workload}: {seen}");
    }
}

#[test]
fn the_last_thread_scans_where_one_does() {
    let keys = keys();
    let order = Order::of(&keys);
    let mut scans = ScanReference::new(&keys, &order, keys.present());
    for thread in 0..3 {
        let plan = Plan { thread: (thread, 3), ..plan(&keys) };
        let stream = plan.stream(Workload::YcsbBScans, Some(&mut scans)).unwrap();
        assert!(!stream.is_empty());
        let is_scan = |i| stream.query(i).op == Op::Scan && stream.query(i).expect != 0;
        assert!((0..stream.len()).all(|i| is_scan(i) == (thread == 2)), "thread {thread}");
    }
}

#[test]
fn the_fold_of_a_scan_is_that_of_a_sorted_map() {
    let keys = keys();
    let order = Order::of(&keys);
    let mut scans = ScanReference::new(&keys, &order, keys.present());
    let stream = plan(&keys).stream(Workload::YcsbE, Some(&mut scans)).unwrap();
    let mut map: std::collections::BTreeMap<&[u8], u64> =
        (0..keys.present()).map(|i| (keys.key(i), value_of(i))).collect();
    for i in 0..stream.len() {
        let query = stream.query(i);
        if query.op == Op::Insert {
            map.insert(keys.key(stream.index(i)), query.expect);
            continue;
        }
        let mut fold = Fold::default();
        map.range(keys.key(stream.index(i))..)
            .take(query.entries as usize)
            .for_each(|(key, value)| fold.add(key, *value));
        assert_eq!(fold.0, query.expect, "query {i}");
    }
}

#[test]
fn a_fold_tells_order_and_values_apart() {
    let fold = |entries: &[(&[u8], u64)]| {
        let mut fold = Fold::default();
        for (key, value) in entries {
            fold.add(key, *value);
        }
        fold
    };
    let right = fold(&[(b"a", value_of(1)), (b"b", value_of(2))]);
    assert_ne!(right, fold(&[(b"b", value_of(2)), (b"a", value_of(1))]));
    assert_ne!(right, fold(&[(b"a", value_of(1))]));
    assert_ne!(right, fold(&[(b"a", value_of(1)), (b"c", value_of(2))]));
    assert_eq!(right, fold(&[(b"a", with_version(value_of(1), 9)), (b"b", value_of(2))]));
}
