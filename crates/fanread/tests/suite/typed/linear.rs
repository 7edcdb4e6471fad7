// Included for each map on keys of any type by `maps/mod.rs`, behind `../linear.rs`.

for_each_spelling! {
    points_on_long_keys_are_linearizable: points::<u64>, LongPrefix, 3;
    points_on_long_keys_in_boxes_are_linearizable: points::<Box<u64>>, LongPrefix, 4;
    points_on_nul_bytes_are_linearizable: points::<u64>, Nuls, 5;
    scans_beside_writers_of_long_keys_keep_their_promise: churned::<u64>, LongPrefix, 10;
    scans_beside_writers_of_nul_bytes_keep_their_promise: churned::<Box<u64>>, Nuls, 13;
    scans_beside_writers_of_wide_values_keep_their_promise: churned::<[u64; 3]>, LongPrefix, 14;
}

/// A map whose scans are those of snapshots.
struct Snapshots<V>(Threads<V>);

impl<V: Value> testkit::stress::Shared for Snapshots<V> {
    fn insert(&self, key: u32, value: u64) -> Option<u64> {
        self.0.insert(key, value)
    }

    fn remove(&self, key: u32) -> Option<u64> {
        self.0.remove(key)
    }

    fn get(&self, key: u32) -> Option<u64> {
        self.0.get(key)
    }

    fn update(&self, key: u32, value: u64) -> Option<Option<u64>> {
        self.0.update(key, value)
    }

    #[allow(clippy::borrowed_box, reason = "a key as the map has it")]
    fn scan(&self, keys: std::ops::RangeInclusive<u32>, back: bool) -> Option<Vec<(u32, u64)>> {
        let (from, to) = (self.0.spelling.key(*keys.start()), self.0.spelling.key(*keys.end()));
        let bounds = || (std::ops::Bound::Included(&from[..]), std::ops::Bound::Included(&to[..]));
        let snapshot = self.0.map.whole().snapshot();
        let view = snapshot.pin();
        let number = |key: &[u8]| self.0.spelling.number(key);
        let up: Vec<_> = view
            .range::<[u8], _>(bounds())
            .map(|(key, value)| (number(key), value.number()))
            .collect();
        std::thread::yield_now();
        let mut down: Vec<_> = view
            .range::<[u8], _>(bounds())
            .rev()
            .map(|(key, value)| (number(key), value.number()))
            .collect();
        if back {
            assert!(down.iter().rev().eq(&up), "a snapshot has changed");
            return Some(down);
        }
        down.reverse();
        assert_eq!(up, down, "a snapshot has changed");
        Some(up)
    }

    fn check(&self) -> Result<(), String> {
        self.0.check()
    }
}

/// Scans of snapshots are checked as other scans are; that they are of one instant is tested where the map is.
#[test]
fn snapshots_beside_writers_keep_the_promise_of_scans() {
    for spelling in Spelling::ALL {
        let plan = Plan {
            threads: 4,
            calls: 30,
            keys: 8,
            scan_one_in: 4,
            seed: effort::seed(21),
            ..Plan::new(histories())
        };
        let stats = run(&plan, |initial| Snapshots(Threads::<Box<u64>>::new(initial, spelling, 1)));
        report("snapshots", stats);
        assert!(stats.scans > 0);
    }
}
