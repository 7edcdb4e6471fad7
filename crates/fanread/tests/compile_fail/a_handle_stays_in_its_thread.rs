//! A handle stands for its thread's place in the epochs.

use fanread::Wormhole;

fn main() {
    let map = Wormhole::new();
    let pinned = map.pin();
    std::thread::scope(|scope| {
        scope.spawn(move || pinned.insert(b"a", 1).is_none());
    });
}
