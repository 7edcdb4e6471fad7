use std::cell::Cell;

use super::*;
use crate::arch::Baseline;
use crate::index::cuckoo_trie::twins_tests::Twins;

/// Lets something happen behind one of the nodes that a descent passes.
struct Behind<'a> {
    nodes: &'a Cell<usize>,
    at: usize,
    happens: &'a dyn Fn(),
}

impl Behind<'_> {
    fn pass(&self) {
        if self.nodes.replace(self.nodes.get() + 1) == self.at {
            (self.happens)();
        }
    }
}

impl Passes for Behind<'_> {
    fn regular(&mut self, _: usize, _: State, _: Children) {
        self.pass();
    }

    fn jump(&mut self, _: usize, _: State, _: Label) {
        self.pass();
    }

    fn branch(&mut self, _: usize, _: State, _: Branch) {
        self.pass();
    }
}

/// The key stays: what is left below its parent stands in the place of that.
#[test]
fn a_descent_takes_no_new_node_for_one_of_the_same_state_that_is_gone() {
    let (seed, prefixes) = Twins::seed();
    for at in 0.. {
        let (twins, nodes) = (Twins::new(seed, prefixes), Cell::new(0));
        let happens = || {
            twins.remove_others();
            twins.insert();
        };
        let (secret, key) = (&twins.secret, &twins.all[0].0);
        let Leaf::Record { unit, hash } = twins.all[0].1 else { panic!("it has a record") };
        let stop = loop {
            let mut descent = Descent::new(twins.trie(), secret, key, 0);
            descent.ask_usual::<BOTH>(secret);
            let mut passes = Behind { nodes: &nodes, at, happens: &happens };
            let run = descent.run::<BOTH, CAREFUL>(secret, Baseline, &mut passes, usize::MAX);
            if let Ok(Some(stop)) = run {
                break stop;
            }
        };
        assert_eq!(stop.look(key, hash), Look::Record(unit), "seed {seed:#x}, behind node {at}");
        if nodes.get() <= at {
            assert!(at >= 2, "a root and another node");
            return;
        }
    }
}
