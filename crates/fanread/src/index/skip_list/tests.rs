//! Snapshots, chains of versions, iterators that are left, keys that panic, and memory that runs out at any moment.

mod snapshots {
    //! Snapshots against copies of a model.

    use std::collections::BTreeMap;
    use std::ops::Bound;

    use testkit::Rng;
    use testkit::dummy::{Census, Counted};

    use crate::index::skip_list::{Pinned, SkipList, Snapshot, View};

    type Model = BTreeMap<u32, u64>;

    fn assert_same(view: &View<'_, u32, Counted>, model: &Model, rng: &mut Rng) {
        let entry = |(key, value): (&u32, crate::api::Ref<'_, Counted>)| (*key, value.content);
        let expected = || model.iter().map(|(key, value)| (*key, *value));
        assert!(view.iter().map(entry).eq(expected()), "ahead");
        assert!(view.iter().plain().map(entry).eq(expected()), "plain");
        assert!(view.iter().rev().map(entry).eq(expected().rev()), "from the back");
        for _ in 0..20 {
            let (a, b) = (rng.below(120) as u32, rng.below(120) as u32);
            assert_eq!(view.get(&a).map(|value| value.content), model.get(&a).copied());
            let range = view.range((Bound::Excluded(a), Bound::Included(b)));
            let ahead: Vec<_> = range.ahead(1 + a % 5).map(entry).collect();
            let between = expected().filter(|(key, _)| a < *key && *key <= b);
            assert!(ahead.into_iter().eq(between));
            let above = view.lower_bound(Bound::Included(&a)).map(entry);
            assert_eq!(above, model.range(a..).next().map(|(key, value)| (*key, *value)));
            let below = view.upper_bound(Bound::Excluded(&a)).map(entry);
            assert_eq!(below, model.range(..a).next_back().map(|(key, value)| (*key, *value)));
        }
    }

    fn write(
        pinned: &Pinned<'_, u32, Counted>,
        model: &mut Model,
        census: &Census,
        rng: &mut Rng,
        turn: u64,
    ) {
        let key = rng.below(120) as u32;
        let content = |old: Option<crate::api::Ref<'_, Counted>>| old.map(|old| old.content);
        match rng.below(6) {
            0..=1 => assert_eq!(content(pinned.remove(&key)), model.remove(&key)),
            2 if !model.contains_key(&key) => {
                assert!(pinned.update(&key, |_| census.value(turn)).is_none());
            }
            2 => {
                let old = content(pinned.update(&key, |_| census.value(turn)));
                assert_eq!(old, model.insert(key, turn));
            }
            _ => {
                let old = content(pinned.insert(key, census.value(turn)));
                assert_eq!(old, model.insert(key, turn));
            }
        }
    }

    #[test]
    fn snapshots_stay_as_they_were_whatever_is_written() {
        for seed in 0..30 {
            let (mut rng, census) = (Rng::new(seed), Census::new());
            let map = SkipList::new();
            let mut model = Model::new();
            let mut held: Vec<(Snapshot<'_, u32, Counted>, Model)> = Vec::new();
            for turn in 0..3_000 {
                write(&map.pin(), &mut model, &census, &mut rng, turn);
                if rng.one_in(60) && held.len() < 6 {
                    held.push((map.snapshot(), model.clone()));
                }
                if rng.one_in(80) && !held.is_empty() {
                    held.swap_remove(rng.below(held.len()));
                }
                if rng.one_in(100) {
                    for (snapshot, then) in &held {
                        assert_same(&snapshot.pin(), then, &mut rng);
                    }
                    map.pin().check().unwrap();
                }
            }
            for (snapshot, then) in held {
                assert_same(&snapshot.pin(), &then, &mut rng);
                drop(snapshot);
                // V3: with each one, what only it needed is gone; after the last, `check` finds no old version.
                map.pin().check().unwrap();
            }
            assert_eq!(map.pending(), 0);
            drop(map);
            census.verify(0).unwrap();
        }
    }

    #[test]
    fn versions_between_two_snapshots_go_when_they_are_replaced() {
        let census = Census::new();
        let map = SkipList::new();
        map.pin().insert(1, census.value(0));
        let oldest = map.snapshot();
        for turn in 1..10_000 {
            // Short snapshots come and go above the old one.
            let short = (turn % 100 == 0).then(|| map.snapshot());
            map.pin().insert(1, census.value(turn));
            drop(short);
        }
        let (versions, has_first) = map.chain(map.level(0).next().unwrap().unit());
        // The oldest snapshot sees the first value, which is in the node.
        assert!(versions.len() <= 2 && has_first, "{} versions", versions.len());
        assert_eq!(oldest.pin().get(&1).map(|value| value.content), Some(0));
        drop(oldest);
        map.pin().check().unwrap();
        drop(map);
        census.verify(0).unwrap();
    }

    #[test]
    fn a_key_that_was_removed_leaves_with_the_last_snapshot_that_sees_it() {
        let map = SkipList::new();
        (0..1_000).for_each(|key| _ = map.pin().insert(key, key));
        let snapshot = map.snapshot();
        map.pin().clear();
        assert!(map.is_empty() && map.pin().iter().next().is_none());
        let later = map.snapshot();
        (0..1_000).step_by(2).for_each(|key| _ = map.pin().insert(key, 7));
        assert_eq!(map.level(0).count(), 1_000);
        assert!(snapshot.pin().iter().all(|(key, value)| *key == *value));
        assert_eq!(snapshot.pin().iter().count(), 1_000);
        assert_eq!(later.pin().iter().count(), 0);
        drop(snapshot);
        assert_eq!(later.pin().iter().count(), 0);
        assert_eq!(map.level(0).count(), 500);
        drop(later);
        map.pin().check().unwrap();
        assert_eq!((map.pin().iter().count(), map.pending()), (500, 0));
    }
}

mod threads {
    //! What several threads see of each other.

    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::thread;

    use testkit::Rng;
    use testkit::dummy::Census;

    use crate::index::skip_list::SkipList;

    const KEYS: u64 = 61;

    #[test]
    fn a_snapshot_never_gains_or_loses_a_write() {
        let map = SkipList::<u64, Box<u64>>::new();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for writer in 0..2 {
                let (map, done) = (&map, &done);
                scope.spawn(move || {
                    // Write `n` goes to key `n % KEYS`; every eighth removes it.
                    for n in 1..60_000 {
                        let key = writer * KEYS + n % KEYS;
                        if n % 8 == 0 {
                            map.pin().remove(&key);
                        } else {
                            map.pin().insert(key, Box::new(n));
                        }
                    }
                    done.store(true, SeqCst);
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(SeqCst) {
                        let snapshot = map.snapshot();
                        let scan = || -> Vec<(u64, u64)> {
                            let view = snapshot.pin();
                            view.iter().map(|(key, value)| (*key, **value)).collect()
                        };
                        let first = scan();
                        for writer in 0..2 {
                            // The newest write that is seen says what all others of its thread are, but that one or more
                            // removals may have come behind it: there is one in eight, so one at most.
                            let seen = || first.iter().filter(|(key, _)| key / KEYS == writer);
                            let Some(newest) = seen().map(|(_, n)| *n).max() else { continue };
                            let behind = newest + 1;
                            let is_clear = |n: &u64| behind % 8 != 0 || n % KEYS != behind % KEYS;
                            let older = behind.saturating_sub(KEYS).max(1)..=newest;
                            let expected = older.filter(|n| n % 8 != 0).filter(is_clear);
                            let mut found: Vec<u64> =
                                seen().map(|(_, n)| *n).filter(is_clear).collect();
                            found.sort_unstable();
                            assert!(found.into_iter().eq(expected), "not one instant");
                        }
                        assert_eq!(scan(), first, "a snapshot has changed");
                    }
                });
            }
        });
        map.pin().check().unwrap();
        assert_eq!(map.pending(), 0);
    }

    #[test]
    fn an_overwrite_never_hides_its_key() {
        let map = SkipList::<u64, u64>::new();
        (0..8).for_each(|key| _ = map.pin().insert(key, 0));
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    (0..40_000).for_each(|n| _ = map.pin().insert(n % 8, n));
                    done.store(true, SeqCst);
                });
            }
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    (0..8).for_each(|key| assert!(map.pin().get(&key).is_some()));
                    assert_eq!(map.pin().iter().count(), 8);
                }
            });
        });
    }

    #[test]
    fn a_range_that_is_left_half_way_leaks_nothing() {
        let census = Census::new();
        let map = std::sync::Arc::new(SkipList::new());
        thread::scope(|scope| {
            for number in 0..3 {
                let (map, census) = (&map, census.clone());
                scope.spawn(move || {
                    let mut rng = Rng::new(number);
                    for turn in 0..4_000 {
                        let pinned = map.pin();
                        let key = rng.below(500) as u32;
                        match rng.below(8) {
                            0..=2 => _ = pinned.insert(key, census.value(turn)),
                            3..=4 => _ = pinned.remove(&key),
                            5 => _ = pinned.range(key..).take(30).count(),
                            6 => _ = pinned.range(..key).rev().take(9).count(),
                            _ => {
                                let snapshot = map.snapshot();
                                assert!(snapshot.pin().range(key..).plain().take(9).count() < 10);
                                let mut both = pinned.iter();
                                _ = (both.next(), both.next_back(), both.nth(5));
                                _ = map.iter_owned().nth(3);
                            }
                        }
                    }
                });
            }
        });
        map.pin().check().unwrap();
        assert_eq!(map.pending(), 0);
        drop(map);
        census.verify(0).unwrap();
    }

    #[test]
    fn a_scan_that_runs_ahead_sees_what_a_plain_one_does_beside_writers() {
        let map = SkipList::<u64, u64>::new();
        (0..5_000).for_each(|key| _ = map.pin().insert(key * 10, key));
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut rng = Rng::new(1);
                for _ in 0..60_000 {
                    let key = rng.next_u64() % 50_000;
                    if !key.is_multiple_of(10) {
                        map.pin().insert(key, key);
                        map.pin().remove(&(key / 10 * 10 + rng.next_u64() % 9 + 1));
                    }
                }
                done.store(true, SeqCst);
            });
            while !done.load(SeqCst) {
                for level in [1, 3, 4, 5] {
                    let pinned = map.pin();
                    let keys: Vec<u64> = pinned.iter().ahead(level).map(|(key, _)| *key).collect();
                    assert!(keys.is_sorted_by(|a, b| a < b));
                    let stayed = keys.into_iter().filter(|key| key % 10 == 0);
                    assert!(stayed.eq((0..5_000).map(|key| key * 10)));
                }
            }
        });
        map.pin().check().unwrap();
    }
}

mod keys {
    //! Keys of many types, and keys whose comparison panics.

    use std::cell::Cell;
    use std::cmp::Ordering;
    use std::collections::BTreeMap;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use testkit::Rng;
    use testkit::dummy::{Census, Counted};

    use crate::api::Options;
    use crate::index::skip_list::{Plain, SkipKey, SkipList};

    fn come_and_go<K: SkipKey + Clone + Send + Sync + std::fmt::Debug>(make: impl Fn(u64) -> K) {
        let mut rng = Rng::new(9);
        let map = SkipList::<K, u64>::new();
        let mut model = BTreeMap::new();
        for turn in 0..6_000_u64 {
            let key = make(rng.next_u64());
            if rng.one_in(3) {
                let old = map.pin().remove(&key).map(|old| *old);
                assert_eq!(old, model.remove(&key));
            } else {
                let old = map.pin().insert(key.clone(), turn).map(|old| *old);
                assert_eq!(old, model.insert(key, turn));
            }
            if turn.is_power_of_two() {
                map.pin().check().unwrap();
            }
        }
        let pinned = map.pin();
        pinned.check().unwrap();
        assert!(pinned.iter().map(|(key, value)| (key.clone(), *value)).eq(model.clone()));
        assert!(pinned.iter().rev().map(|(key, _)| key.clone()).eq(model.into_keys().rev()));
    }

    #[test]
    fn keys_of_all_forms_come_and_go() {
        come_and_go(|n| n % 4_000);
        come_and_go(|n| (n % 4_000) as i32 - 2_000);
        come_and_go(|n| u128::from(n % 4_000) << 60);
        come_and_go(|n| format!("a common start/{}", n % 4_000));
        come_and_go(|n| ((n % 7) as u8, (n / 7 % 500).to_string()));
        come_and_go(|n| Plain([n % 4_000; 40]));
        come_and_go(|n| Plain(std::net::Ipv4Addr::from((n % 4_000) as u32)));
        come_and_go(|n| std::cmp::Reverse((n % 4_000).to_string()));
        // No more than one of this.
        come_and_go(|_| ());
    }

    #[test]
    fn many_keys_that_begin_alike_are_found_through_the_directory() {
        // So many that there is a directory, of one, two and many words that begin alike, one of which is a prefix of others.
        let make = |n: u64| match n % 4 {
            0 => format!("http://{:04}", n / 4),
            1 => format!("B00ITEM0-{:06}", n * 7919 % 1_000_003),
            2 => format!("a common start of many/{}", n / 4),
            _ => "a common"[..n as usize / 4 % 9].repeat(1 + n as usize % 3),
        };
        let count = if cfg!(miri) { 100 } else { 60_000 };
        let map = SkipList::<String, u64>::new();
        let mut model = BTreeMap::new();
        for n in 0..count {
            let old = map.pin().insert(make(n), n).map(|old| *old);
            assert_eq!(old, model.insert(make(n), n));
        }
        let pinned = map.pin();
        pinned.check().unwrap();
        for n in 0..count {
            assert_eq!(pinned.get(&make(n)).as_deref(), model.get(&make(n)));
            assert!(pinned.get(&format!("{}\u{1}", make(n))).is_none());
        }
        for n in (0..count).step_by(97) {
            let above = pinned.range(make(n)..).take(3).map(|(key, _)| key);
            assert!(above.eq(model.range(make(n)..).take(3).map(|(key, _)| key)));
            let below = pinned.range(..make(n)).rev().take(12).map(|(key, _)| key);
            assert!(below.eq(model.range(..make(n)).rev().take(12).map(|(key, _)| key)));
        }
        let keys: Vec<String> = model.keys().cloned().collect();
        for keys in keys.chunks(64) {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let mut found: Vec<_> = keys.iter().map(|_| None).collect();
            pinned.get_batch(&keys, &mut found);
            assert!(
                found.iter().zip(&keys).all(|(found, key)| found.as_deref() == model.get(*key))
            );
        }
        for n in (0..count).filter(|n| n % 3 > 0) {
            assert_eq!(pinned.remove(&make(n)).map(|old| *old), model.remove(&make(n)));
        }
        pinned.check().unwrap();
        assert!(pinned.iter().map(|(key, _)| key).eq(model.keys()));
    }

    thread_local! {
        static PATIENCE: Cell<u32> = const { Cell::new(u32::MAX) };
    }

    /// A key whose comparison costs patience.
    #[derive(Debug, Clone)]
    struct Touchy(u64, #[expect(dead_code, reason = "it counts how often it is dropped")] Counted);

    impl PartialEq for Touchy {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other).is_eq()
        }
    }

    impl Eq for Touchy {}

    impl PartialOrd for Touchy {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Ord for Touchy {
        fn cmp(&self, other: &Self) -> Ordering {
            let left = PATIENCE.get();
            assert!(left > 0, "as planned");
            PATIENCE.set(left - 1);
            self.0.cmp(&other.0)
        }
    }

    impl SkipKey for Touchy {}

    #[test]
    fn a_comparison_of_keys_may_panic_at_any_call() {
        let census = Census::new();
        let map = SkipList::new();
        let mut model = BTreeMap::new();
        let mut rng = Rng::new(4);
        let key = |n: u64| Touchy(n, census.value(n));
        for turn in 0..3_000 {
            let n = rng.next_u64() % 200;
            PATIENCE.set(rng.below(12) as u32);
            let pinned = map.pin();
            let removes = rng.one_in(3);
            let call = AssertUnwindSafe(|| {
                if removes {
                    pinned.remove(&key(n)).is_some()
                } else {
                    pinned.insert(key(n), census.value(turn)).is_some()
                }
            });
            let result = catch_unwind(call);
            PATIENCE.set(u32::MAX);
            let there = pinned.get(&key(n)).map(|value| value.content);
            match result {
                Ok(was_there) => assert_eq!(was_there, model.contains_key(&n)),
                // Taking a removed node out of its levels compares keys when the key is gone already.
                Err(_) => assert!(
                    there == model.get(&n).copied()
                        || (removes && there.is_none())
                        || there == Some(turn)
                ),
            }
            match there {
                Some(content) => drop(model.insert(n, content)),
                None => drop(model.remove(&n)),
            }
        }
        let pinned = map.pin();
        assert!(pinned.iter().map(|(key, value)| (key.0, value.content)).eq(model));
        // What the panics have left is done with the next removal.
        pinned.insert(key(1_000), census.value(0));
        pinned.remove(&key(1_000));
        pinned.check().unwrap();
        drop(pinned);
        drop(map);
        census.verify(0).unwrap();
    }

    /// Fills a map, has the `nth` comparison of a call panic, and tells whether it came to that.
    fn panics_at(
        nth: u32,
        map: &SkipList<Touchy, Counted>,
        call: impl FnOnce(&SkipList<Touchy, Counted>),
    ) -> bool {
        PATIENCE.set(nth);
        let result = catch_unwind(AssertUnwindSafe(|| call(map)));
        PATIENCE.set(u32::MAX);
        result.is_err()
    }

    #[test]
    fn a_removal_that_a_comparison_ends_leaves_no_node_behind() {
        for (seed, is_finished) in (0..12).flat_map(|seed| [(seed, false), (seed, true)]) {
            for nth in 0_u32.. {
                let census = Census::new();
                let map = SkipList::with_options(Options::new().seed(seed));
                let key = |n: u64| Touchy(n, census.value(n));
                (0..40).for_each(|n| _ = map.pin().insert(key(n), census.value(n)));
                let stopped = panics_at(nth, &map, |map| _ = map.pin().remove(&key(17)));
                let is_gone = map.pin().get(&key(17)).is_none();
                assert!(is_gone || stopped, "the removal ended well, and the key is there");
                if is_finished {
                    // The next removal finds what was left.
                    map.pin().remove(&key(3));
                    map.pin().check().unwrap();
                    assert_eq!(map.level(0).count(), 39 - usize::from(is_gone));
                }
                drop(map);
                census.verify(0).unwrap();
                if !stopped {
                    assert!(nth > 3, "it was to be stopped in its second search");
                    break;
                }
            }
        }
    }

    #[test]
    fn a_tower_that_a_comparison_leaves_half_built_is_finished_or_removed() {
        let census = Census::new();
        let key = |n: u64| Touchy(n, census.value(n));
        let mut left = 0;
        for (seed, nth, removed) in (0..40)
            .flat_map(|seed| (0..16).flat_map(move |nth| [(seed, nth, false), (seed, nth, true)]))
        {
            let map = SkipList::with_options(Options::new().seed(seed));
            (0..30).for_each(|n| _ = map.pin().insert(key(2 * n), census.value(n)));
            let stopped = panics_at(u32::MAX, &map, |map| {
                let pinned = map.pin();
                let (near, _) = map.neighbours(&pinned, &key(21), 0);
                // What it was to be linked to on the levels above goes meanwhile: its maker has to search again.
                (0..30)
                    .filter(|n| !(10..=11).contains(n))
                    .for_each(|n| _ = map.pin().remove(&key(2 * n)));
                PATIENCE.set(nth);
                map.write_late(&pinned, key(21), census.value(21), 0, near);
            });
            left += u32::from(stopped && map.unfinished.len() > 0);
            if removed {
                map.pin().remove(&key(21));
            }
            map.pin().remove(&key(20));
            assert_eq!(map.unfinished.len(), 0);
            map.pin().check().unwrap();
            assert_eq!(map.len(), 2 - usize::from(removed || map.pin().get(&key(21)).is_none()));
            drop(map);
            census.verify(0).unwrap();
        }
        assert!(left > 0, "no tower was left half-built");
    }
}

mod meanwhile {
    //! What happens to a map while a search compares two keys: steps of several threads, in an order of our choice.

    use std::cell::Cell;
    use std::cmp::Ordering;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::rc::Rc;

    use crate::index::skip_list::directory::LEVEL;
    use crate::index::skip_list::{SkipKey, SkipList};

    thread_local! {
        static MEANWHILE: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
        /// After how many comparisons that comes.
        static PATIENCE: Cell<u32> = const { Cell::new(0) };
    }

    fn after(comparisons: u32, meanwhile: impl FnOnce() + 'static) {
        PATIENCE.set(comparisons);
        MEANWHILE.set(Some(Box::new(meanwhile)));
    }

    /// How many comparisons are left until then, if it has not come; it does not any more.
    fn comparisons_left() -> Option<u32> {
        MEANWHILE.take().map(|_| PATIENCE.get())
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Slow(u64);

    impl PartialOrd for Slow {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Ord for Slow {
        fn cmp(&self, other: &Self) -> Ordering {
            let left = PATIENCE.get();
            PATIENCE.set(left.saturating_sub(1));
            if left == 0
                && let Some(meanwhile) = MEANWHILE.take()
            {
                meanwhile();
            }
            self.0.cmp(&other.0)
        }
    }

    impl SkipKey for Slow {
        const HAS_PREFIX: bool = true;
        fn prefix(&self) -> u64 {
            self.0
        }
    }

    type Map = SkipList<Slow, u64>;

    /// Removes a key, but takes it out of no level; tells whether it came to that.
    fn remove_and_stop(map: &Map, key: Slow) -> bool {
        let pinned = map.pin();
        after(u32::MAX, || {});
        map.node_of(&pinned, &key);
        let comparisons = u32::MAX - comparisons_left().unwrap();
        // Comparisons that panic stop it; in a search of its own, when it has marked the node.
        after(comparisons, || resume_unwind(Box::new("as planned")));
        let stopped = catch_unwind(AssertUnwindSafe(|| pinned.remove(&key))).is_err();
        comparisons_left();
        stopped && pinned.get(&key).is_none()
    }

    #[test]
    fn a_walk_backwards_over_keys_that_came_behind_the_directory_searches_for_some_at_a_time() {
        for count in [2_000, 20_000, 70_000] {
            let map = Map::new();
            (0..count).for_each(|n| _ = map.pin().insert(Slow(n), n));
            after(u32::MAX, || {});
            assert_eq!(map.pin().iter().rev().count() as u64, count);
            let comparisons = u64::from(u32::MAX - comparisons_left().unwrap());
            assert!(comparisons < 30 * count, "{comparisons} for {count} keys");
        }
    }

    /// The key is on an upper level when the search for its place passes there. Then it is removed, and somebody whose search
    /// begins below that level takes it out of the others; so further down the search does not meet it.
    #[test]
    fn a_key_that_a_search_met_above_and_not_below_is_not_behind_the_new_one() {
        let height = LEVEL + 2;
        let mut met = 0;
        let map = Rc::new(Map::new());
        (0..12_000).for_each(|n| _ = map.pin().insert(Slow(10 * n), n));
        for key in (0..300).map(|n| Slow(400 * n + 5)) {
            for comparisons in 0..8 {
                let pinned = map.pin();
                let (near, _) = map.neighbours(&pinned, &key, height);
                map.write_late(&pinned, key, 1, height, near);
                let other = Rc::clone(&map);
                after(comparisons, move || {
                    if remove_and_stop(&other, key) {
                        _ = other.neighbours(&other.pin(), &Slow(key.0 + 1), 1);
                    }
                });
                let (near, found) = map.neighbours(&pinned, &key, height);
                let is_left = map.unfinished.len() > 0;
                if comparisons_left().is_none() && found.is_none() && is_left {
                    met += 1;
                    map.write_late(&pinned, key, 2, height, near);
                }
                map.finish(&pinned);
                pinned.check().unwrap();
                pinned.remove(&key);
            }
        }
        assert!(met > 0);
    }
}

mod contradictions {
    //! Keys whose order contradicts itself.

    use std::cell::{Cell, RefCell};
    use std::cmp::Ordering;
    use std::collections::HashSet;

    use testkit::Rng;

    use crate::index::skip_list::{SkipKey, SkipList};

    thread_local! {
        static ALIVE: RefCell<HashSet<u64>> = RefCell::default();
        static COMPARISONS: Cell<u64> = const { Cell::new(0) };
    }

    /// A number that is compared the wrong way round once in some fifty times.
    struct Liar {
        number: u64,
        name: u64,
    }

    impl Liar {
        fn new(number: u64, name: u64) -> Self {
            assert!(ALIVE.with_borrow_mut(|alive| alive.insert(name)));
            Self { number, name }
        }
    }

    impl Drop for Liar {
        fn drop(&mut self) {
            assert!(ALIVE.with_borrow_mut(|alive| alive.remove(&self.name)), "dropped twice");
        }
    }

    impl Ord for Liar {
        fn cmp(&self, other: &Self) -> Ordering {
            let are_alive =
                |alive: &mut HashSet<u64>| [self, other].map(|key| alive.contains(&key.name));
            assert_eq!(ALIVE.with_borrow_mut(are_alive), [true; 2], "a key that was dropped");
            COMPARISONS.set(COMPARISONS.get() + 1);
            let order = self.number.cmp(&other.number);
            if Rng::part(1, COMPARISONS.get()).one_in(50) { order.reverse() } else { order }
        }
    }

    impl PartialOrd for Liar {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl PartialEq for Liar {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other).is_eq()
        }
    }

    impl Eq for Liar {}

    impl SkipKey for Liar {}

    #[test]
    fn an_order_that_contradicts_itself_frees_nothing_that_is_linked() {
        let mut rng = Rng::new(1);
        // Of three maps about one has a key that all searches meet on upper levels and not on the lowest.
        for names in 0..20 {
            let map = SkipList::new();
            for name in names * 4_000..(names + 1) * 4_000 {
                let pinned = map.pin();
                let key = Liar::new(rng.below(200) as u64, name);
                match rng.below(4) {
                    0 | 1 => _ = pinned.insert(key, name),
                    2 => _ = pinned.remove(&key),
                    _ => assert!(
                        pinned
                            .range(key..)
                            .take(50)
                            .all(|(key, _)| ALIVE.with_borrow(|alive| alive.contains(&key.name)))
                    ),
                }
            }
        }
    }
}

use crate::index::skip_list::{Plain, SkipList};
use crate::mem::failing;

use self::map::{Map, Pinned};

/// The map behind keys that are boxed byte strings.
#[allow(dead_code, reason = "the tests here use a part")]
#[allow(clippy::missing_errors_doc, reason = "each error is that of the map's method")]
mod map {
    use crate::api::{InsertError, LoadError, MemoryUsage, Options, Ref};
    use crate::index::skip_list as library;

    pub(crate) type Whole<V> = library::SkipList<Box<[u8]>, V>;

    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/maps/typed.rs"));
}

/// Whether keys are numbers.
const NUMBERS: bool = false;

#[test]
fn a_large_key_for_which_there_is_no_memory_is_not_there_and_loses_no_value() {
    let map = SkipList::new();
    let pinned = map.pin();
    let mut failures = 0;
    for n in 0..40_u64 {
        let mut value = n.to_string();
        for allocations in 0.. {
            failing::after(allocations);
            let result = pinned.try_insert((n, Plain([n; 40])), value);
            failing::never();
            match result {
                Ok(old) => {
                    assert!(old.is_none());
                    break;
                }
                Err(error) => value = error.into_value(),
            }
            failures += 1;
            assert_eq!((value.clone(), pinned.len()), (n.to_string(), n as usize));
        }
    }
    assert!(failures >= 2 * 40, "a box for each key and each value, {failures}");
    assert!(pinned.iter().map(|(key, _)| key.0).eq(0..40));
}

#[path = "../out_of_memory.rs"]
#[allow(clippy::duplicate_mod, reason = "the same tests for every map")]
mod out_of_memory;
