// Included for each map on byte strings by `maps/mod.rs`, behind `../model.rs`.

use fanread::Options;

#[test]
fn with_the_papers_binary_search_agrees_with_a_btreemap() {
    for seed in seeds() {
        for (keys, pool, steps) in runs(2_000, 12_500) {
            let map = || Map::<u64>::with_options(Options::new().probe_width(1).seed(seed));
            agree_at_size(|| Ordered(map()), seed, keys, pool, steps);
        }
    }
}
