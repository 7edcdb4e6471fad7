//! Maps that crash while several threads are at work: the scheduler decides who goes on, and states of a crash at moments
//! of each schedule are opened. What a call has returned is there, and what a reader has seen; of the calls under way
//! each is there or not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::scenes::schedules;
use super::*;
use crate::persist::cceh::strings::Strings;

/// How many moments of a schedule are looked at, beside those when something has to be there from now on, and how many states of each.
const MOMENTS: u64 = 4;
const STATES: usize = 3;

/// Lines that these maps may take.
const FEW_LINES: usize = 512;

/// What threads do at once, each with keys of its own, to a map of some entries.
#[derive(Clone, Debug)]
struct Together {
    options: CcehOptions,
    is_ordered: bool,
    before: Vec<Op>,
    lives: [Vec<Op>; 2],
}

/// That a thread begins a call, or that the call must be there from now on, as a note.
fn note(thread: usize, call: usize, is_safe: bool) -> u64 {
    (thread << 9 | call << 1) as u64 | u64::from(is_safe)
}

/// How far the calls of a thread are.
#[derive(Clone, Copy, Default, Debug)]
struct Progress {
    begun: usize,
    safe: usize,
}

impl Progress {
    fn is_noted(progress: &mut [Self; 2], note: u64) {
        let note = note as usize;
        let (thread, call) = (note >> 9, note >> 1 & 0xff);
        let place =
            if note & 1 == 0 { &mut progress[thread].begun } else { &mut progress[thread].safe };
        *place = (*place).max(call + 1);
    }
}

impl Together {
    /// Of a map whose segment of hashes that begin with 1 is about to split.
    fn new(policy: SplitPolicy, is_ordered: bool, before: u64, lives: [Vec<Op>; 2]) -> Self {
        let before = (0..before).map(|n| Op::Insert(crowded(n), n)).collect();
        Self { options: tiny(policy, 1), is_ordered, before, lives }
    }

    fn run<S: Subject + Send + Sync + 'static>(&self, seed: u64) -> u64 {
        let medium = Sim::new(FEW_LINES, self.is_ordered);
        let map = Arc::new(S::create(medium, self.options).unwrap());
        let mut model = BTreeMap::new();
        self.before.iter().for_each(|op| op.both(&*map, &mut model));
        map.table().medium.take_events();
        let start = map.table().medium.image();

        let mut threads = Vec::new();
        for (thread, life) in self.lives.iter().cloned().enumerate() {
            let map = map.clone();
            threads.push(shuttle::thread::spawn(move || {
                for (call, op) in life.into_iter().enumerate() {
                    map.table().medium.note(note(thread, call, false));
                    op.apply(&*map);
                    map.table().medium.note(note(thread, call, true));
                }
            }));
        }
        // Values are of one call each, so who reads one knows which call it has seen.
        let lives = self.lives.clone();
        let reader = map.clone();
        threads.push(shuttle::thread::spawn(move || {
            for (thread, life) in lives.into_iter().enumerate() {
                for op in &life {
                    let Op::Insert(key, _) = *op else { continue };
                    let seen = reader.get(key);
                    let call = life
                        .iter()
                        .position(|op| matches!(op, Op::Insert(_, value) if seen == Some(*value)));
                    if let Some(call) = call {
                        reader.table().medium.note(note(thread, call, true));
                    }
                }
            }
        }));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        map.check().unwrap();
        self.crash::<S>(map.table().medium.take_events(), start, &model, seed)
    }

    /// Opens states of crashes at some of these events. Returns how many.
    fn crash<S: Subject>(
        &self,
        events: Vec<(shuttle::thread::ThreadId, Event)>,
        start: Image,
        before: &BTreeMap<u64, u64>,
        seed: u64,
    ) -> u64 {
        let mut random = Random(seed << 32);
        let count = events.len() as u64;
        let mut moments: BTreeSet<_> = (0..MOMENTS).map(|_| random.below(count)).collect();
        let is_safe = |event: &Event| matches!(event, Event::Note(note) if note & 1 != 0);
        moments
            .extend((0..).zip(&events).filter(|(_, (_, event))| is_safe(event)).map(|(at, _)| at));
        let mut replay = Replay::new(start, self.is_ordered);
        let mut progress = [Progress::default(); 2];
        let mut opened = 0;
        for (at, (thread, event)) in (0..).zip(events) {
            if let Event::Note(note) = event {
                Progress::is_noted(&mut progress, note);
            }
            replay.step(thread, event);
            if moments.contains(&at) {
                let may_be = self.may_be(before, progress);
                replay.images(STATES, random.next(), |image| {
                    let medium = Sim::of(image, FEW_LINES, self.is_ordered);
                    let map = S::open(medium, self.options.policy).unwrap();
                    map.check().unwrap();
                    let found = map.contents();
                    assert!(
                        may_be.contains(&found),
                        "{found:?}\nis none of {may_be:?}, {progress:?}"
                    );
                    opened += 1;
                });
            }
        }
        opened
    }

    /// What a map may be whose threads have come so far.
    fn may_be(
        &self,
        before: &BTreeMap<u64, u64>,
        progress: [Progress; 2],
    ) -> Vec<BTreeMap<u64, u64>> {
        let after = |mut model: BTreeMap<u64, u64>, thread: usize, calls: usize| {
            self.lives[thread][..calls].iter().for_each(|op| _ = op.model(&mut model));
            model
        };
        let mut all = Vec::new();
        for first in progress[0].safe..=progress[0].begun {
            for second in progress[1].safe..=progress[1].begun {
                all.push(after(after(before.clone(), 0, first), 1, second));
            }
        }
        all
    }
}

/// Numbers of keys that share a bucket, and whose hashes begin with 1 and then the number's last bits.
fn crowded(number: u64) -> u64 {
    Spelling::new(SEED).key(number << 60 | 1 << 63)
}

/// Runs threads together under both schedulers, with both kinds of media.
fn crash_together<S: Subject + Send + Sync + 'static>(of: &str, before: u64, lives: &[Vec<Op>; 2]) {
    let opened = Arc::new(AtomicU64::new(0));
    for policy in POLICIES {
        for is_ordered in [true, false] {
            let together = Together::new(policy, is_ordered, before, lives.clone());
            let seed = Arc::new(AtomicU64::new(effort::seed(1)));
            let opened = opened.clone();
            schedules(of, move || {
                let seed = seed.fetch_add(1, Ordering::Relaxed);
                opened.fetch_add(together.run::<S>(seed), Ordering::Relaxed);
            });
        }
    }
    report(of, opened.load(Ordering::Relaxed));
}

#[test]
fn shuttle_a_crash_while_two_threads_split_a_segment() {
    let lives = [
        vec![Op::Insert(crowded(4), 104), Op::Insert(crowded(6), 106)],
        vec![Op::Insert(crowded(5), 205), Op::Remove(crowded(5))],
    ];
    crash_together::<Map<Sim>>("cceh", 4, &lives);
}

#[test]
fn shuttle_a_crash_while_one_thread_merges_and_one_inserts() {
    let lives = [
        vec![Op::Remove(crowded(1)), Op::Remove(crowded(2)), Op::Insert(crowded(7), 107)],
        vec![Op::Insert(crowded(5), 205), Op::Remove(crowded(4)), Op::Insert(crowded(5), 206)],
    ];
    crash_together::<Map<Sim>>("cceh", 6, &lives);
}

#[test]
fn shuttle_a_crash_while_two_threads_write_strings() {
    let lives = [
        vec![Op::Insert(104, 104), Op::Insert(104, 105), Op::Remove(1)],
        vec![Op::Insert(205, 205), Op::Remove(205), Op::Insert(206, 206)],
    ];
    crash_together::<Strings<Sim>>("store", 4, &lives);
}
