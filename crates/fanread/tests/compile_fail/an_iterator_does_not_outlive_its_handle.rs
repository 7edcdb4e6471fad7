//! An iterator reads leaves that may be freed once its handle is gone.

use fanread::Wormhole;

fn main() {
    let map: Wormhole<u64> = Wormhole::new();
    let all = {
        let pinned = map.pin();
        pinned.iter()
    };
    println!("{}", all.count());
}
