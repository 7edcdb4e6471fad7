// Included for the map of byte strings by `maps/mod.rs`, behind `../shuttle.rs`.

scenarios! {
    a_get_and_a_walk_agree_on_when_a_value_is_replaced: LongPrefix, two - nothing,
        [[Insert(4), Insert(4)], [Find(4), Get(4), Find(4)], [Get(4), Find(4), Get(4)]];
}
