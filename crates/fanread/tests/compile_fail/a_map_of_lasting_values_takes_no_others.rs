//! A shared map takes values, so it is not one of values that live shorter, whatever a reference to it could be.

use fanread::Wormhole;

fn shorter<'s>(map: &'s Wormhole<&'static str>) -> &'s Wormhole<&'s str> {
    map
}

fn main() {
    let map: Wormhole<&'static str> = Wormhole::new();
    shorter(&map).pin().insert(b"a", "b");
}
