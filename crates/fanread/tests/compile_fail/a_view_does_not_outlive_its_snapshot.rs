//! What a snapshot sees may be freed once it is gone.

use fanread::SkipList;

fn main() {
    let map = SkipList::new();
    map.pin().insert(1, String::from("b"));
    let view = {
        let snapshot = map.snapshot();
        snapshot.pin()
    };
    println!("{}", view.iter().count());
}
