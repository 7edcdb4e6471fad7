//! Any thread may drop a value, so it must be one that may be sent.

use fanread::Wormhole;
use std::rc::Rc;

fn main() {
    let map = Wormhole::new();
    map.pin().insert(b"a", Rc::new(1));
}
