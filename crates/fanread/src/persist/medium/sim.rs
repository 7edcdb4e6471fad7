//! A medium that crashes: it keeps a record of every store, flush and fence, from which all states can be made that a crash
//! at any moment could have left.
//!
//! Two models of eviction: with `ordered` a line is, after a crash, as some prefix of its pending stores made it, which is what
//! processors of x86-64 promise; without, each word for itself is, which covers other machines and reordering compilers.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::{fmt, io};

// Threads of the scheduler are one of the system's.
#[cfg(shuttle)]
use shuttle::thread::{self, ThreadId};
#[cfg(not(shuttle))]
use std::thread::{self, ThreadId};

use super::{LINE_WORDS, LineAt, LineRef, Medium, WordAt, line_of};
use crate::sync::shim::{AtomicU64, Ordering};

/// Something that happened to the medium, or what a test noted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Store(WordAt, u64),
    Flush(LineAt),
    Fence,
    Grow(usize),
    Note(u64),
}

/// A place in the code, and what happens there.
pub(crate) type Site = (Kind, &'static Location<'static>);

/// What a place in the code does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Store,
    Flush,
    Fence,
}

/// Something that is wrong with the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// What a place does is left out.
    Missing(Site),
    /// What a place does happens after what is done next.
    Late(Site),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, (kind, place)) = match self {
            Self::Missing(site) => ("missing", site),
            Self::Late(site) => ("late", site),
        };
        write!(f, "{what} {kind:?} at {}:{}", place.file(), place.line())
    }
}

/// The words of a state that a crash left.
pub(crate) type Image = Vec<u64>;

/// The medium; see the module.
#[derive(Debug)]
pub(crate) struct Sim {
    words: Box<[AtomicU64]>,
    /// Not of the shim: how long the medium is, is no concern of a scheduler.
    lines: AtomicUsize,
    log: Mutex<Log>,
    is_ordered: bool,
}

#[derive(Debug, Default)]
struct Log {
    events: Vec<(ThreadId, Event)>,
    /// Where stores, flushes and fences came from.
    sites: BTreeSet<Site>,
    fault: Option<Fault>,
    late: Option<(ThreadId, Event)>,
    /// Whether the medium refuses to grow.
    is_full: bool,
}

impl Log {
    fn push(&mut self, site: Site, event: Event) {
        self.sites.insert(site);
        let event = (thread::current().id(), event);
        match self.fault {
            Some(Fault::Missing(other)) if other == site => {}
            Some(Fault::Late(other)) if other == site && self.late.is_none() => {
                self.late = Some(event);
            }
            _ => {
                self.events.push(event);
                self.events.extend(self.late.take());
            }
        }
    }
}

impl Sim {
    /// An empty medium that can become so many lines long.
    pub(crate) fn new(max_lines: usize, is_ordered: bool) -> Self {
        Self::of(&[], max_lines, is_ordered)
    }

    /// A medium of these words.
    pub(crate) fn of(image: &[u64], max_lines: usize, is_ordered: bool) -> Self {
        assert!(image.len().is_multiple_of(LINE_WORDS) && image.len() <= max_lines * LINE_WORDS);
        // What a growing medium brings is not zero.
        let junk = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut words = Vec::with_capacity(max_lines * LINE_WORDS);
        words.extend(image.iter().map(|word| AtomicU64::new(*word)));
        words.extend((image.len()..max_lines * LINE_WORDS).map(|at| AtomicU64::new(junk(at))));
        let lines = AtomicUsize::new(image.len() / LINE_WORDS);
        Self { words: words.into(), lines, log: Mutex::default(), is_ordered }
    }

    /// Writes something of the test's into the record.
    pub(crate) fn note(&self, what: u64) {
        self.log.lock().unwrap().events.push((thread::current().id(), Event::Note(what)));
    }

    /// Refuses to grow from now on, or no longer.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.log.lock().unwrap().is_full = is_full;
    }

    /// Makes something of the code wrong.
    pub(crate) fn plant(&self, fault: Fault) {
        self.log.lock().unwrap().fault = Some(fault);
    }

    /// All places that the record has something from.
    pub(crate) fn sites(&self) -> BTreeSet<Site> {
        self.log.lock().unwrap().sites.clone()
    }

    /// Takes the record.
    pub(crate) fn take_events(&self) -> Vec<(ThreadId, Event)> {
        std::mem::take(&mut self.log.lock().unwrap().events)
    }

    /// Any access is a place where the scheduler may switch, and flushes and fences are none here.
    fn let_others_go_on(&self) {
        if cfg!(shuttle) {
            let _ = self.words.first().map(|word| word.load(Ordering::Relaxed));
        }
    }

    /// The words as they are.
    pub(crate) fn image(&self) -> Image {
        let lines = self.lines();
        self.words[..lines * LINE_WORDS].iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }
}

impl Medium for Sim {
    fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    fn lines(&self) -> usize {
        self.lines.load(Ordering::Relaxed)
    }

    fn line(&self, at: LineAt) -> LineRef<'_> {
        assert!(at.0 < self.lines(), "{at:?} is beyond the end");
        line_of(&self.words, at)
    }

    #[track_caller]
    fn store(&self, at: WordAt, value: u64, order: Ordering) {
        assert!(at.line().0 < self.lines(), "{at:?} is beyond the end");
        let site = (Kind::Store, Location::caller());
        // First, since the scheduler may have others go on before it, and then the record would have another order.
        self.words[at.0].store(value, order);
        self.log.lock().unwrap().push(site, Event::Store(at, value));
    }

    #[track_caller]
    fn flush(&self, at: LineAt) {
        let site = (Kind::Flush, Location::caller());
        self.let_others_go_on();
        self.log.lock().unwrap().push(site, Event::Flush(at));
    }

    #[track_caller]
    fn fence(&self) {
        let site = (Kind::Fence, Location::caller());
        self.let_others_go_on();
        self.log.lock().unwrap().push(site, Event::Fence);
    }

    fn grow(&self, lines: usize) -> io::Result<()> {
        let mut log = self.log.lock().unwrap();
        if lines > self.lines() {
            if log.is_full || lines * LINE_WORDS > self.words.len() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.lines.store(lines, Ordering::Relaxed);
            log.events.push((thread::current().id(), Event::Grow(lines)));
        }
        Ok(())
    }
}

/// Stores to a line that a crash may lose, in their order.
#[derive(Clone, Debug, Default)]
struct Pending {
    /// How many stores before these are durable.
    before: usize,
    stores: Vec<(usize, u64)>,
}

/// What a crash at some moment of a record may leave.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    is_ordered: bool,
    durable: Image,
    pending: BTreeMap<usize, Pending>,
    /// Of each thread, the lines it has flushed and with how many stores, since its last fence.
    flushed: BTreeMap<String, Vec<(usize, usize)>>,
}

impl Replay {
    /// Starts with words that are all durable.
    pub(crate) fn new(durable: Image, is_ordered: bool) -> Self {
        Self { is_ordered, durable, pending: BTreeMap::new(), flushed: BTreeMap::new() }
    }

    /// Goes on by one event.
    pub(crate) fn step(&mut self, thread: ThreadId, event: Event) {
        let thread = format!("{thread:?}");
        match event {
            Event::Store(at, value) => {
                self.pending.entry(at.line().0).or_default().stores.push((at.index(), value));
            }
            Event::Flush(at) => {
                if let Some(pending) = self.pending.get(&at.0) {
                    let count = pending.before + pending.stores.len();
                    self.flushed.entry(thread).or_default().push((at.0, count));
                }
            }
            Event::Fence => {
                for (line, count) in self.flushed.remove(&thread).unwrap_or_default() {
                    self.commit(line, count);
                }
            }
            Event::Grow(lines) => {
                let junk = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                self.durable.extend((self.durable.len()..lines * LINE_WORDS).map(junk));
            }
            Event::Note(_) => {}
        }
    }

    /// Makes the first `count` stores to a line durable.
    fn commit(&mut self, line: usize, count: usize) {
        let Some(pending) = self.pending.get_mut(&line) else { return };
        let done = count.saturating_sub(pending.before);
        for (index, value) in pending.stores.drain(..done) {
            self.durable[line * LINE_WORDS + index] = value;
        }
        pending.before += done;
    }

    /// What each line, or each word, that is not durable may be: as lists of values for places.
    fn choices(&self) -> Vec<Vec<Vec<(usize, u64)>>> {
        let mut choices = Vec::new();
        for (line, pending) in &self.pending {
            let place = |(index, value): &(usize, u64)| (line * LINE_WORDS + index, *value);
            if self.is_ordered {
                if !pending.stores.is_empty() {
                    let prefix = |n: usize| pending.stores[..n].iter().map(place).collect();
                    choices.push((0..=pending.stores.len()).map(prefix).collect());
                }
            } else {
                for word in 0..LINE_WORDS {
                    let values: Vec<_> = pending
                        .stores
                        .iter()
                        .filter(|(index, _)| *index == word)
                        .map(place)
                        .collect();
                    if !values.is_empty() {
                        let none = vec![Vec::new()];
                        choices.push(
                            none.into_iter().chain(values.into_iter().map(|v| vec![v])).collect(),
                        );
                    }
                }
            }
        }
        choices
    }

    /// Calls `f` with states that a crash now may leave, as [`each_choice`] picks them.
    pub(crate) fn images(&self, limit: usize, seed: u64, mut f: impl FnMut(&Image)) {
        let choices = self.choices();
        let options: Vec<_> = choices.iter().map(Vec::len).collect();
        let mut image = self.durable.clone();
        each_choice(&options, limit, seed, |picks| {
            image.copy_from_slice(&self.durable);
            for (options, pick) in choices.iter().zip(picks) {
                for (place, value) in &options[*pick] {
                    image[*place] = *value;
                }
            }
            f(&image);
        });
    }
}

/// Calls `f` with one of the options of each choice, by their numbers: in all ways if there are at most `limit`, else with the
/// first of each, the last of each, the last of each alone, of all but each, and at random.
pub(crate) fn each_choice(options: &[usize], limit: usize, seed: u64, mut f: impl FnMut(&[usize])) {
    let count = options.iter().try_fold(1_usize, |n, options| n.checked_mul(*options));
    let mut picks = vec![0; options.len()];
    let mut show = |pick: &mut dyn FnMut(usize, usize) -> usize| {
        for (at, (place, options)) in picks.iter_mut().zip(options).enumerate() {
            *place = pick(at, *options);
        }
        f(&picks);
    };
    if let Some(count) = count.filter(|count| *count <= limit) {
        for mut n in 0..count {
            show(&mut |_, options| {
                let pick = n % options;
                n /= options;
                pick
            });
        }
        return;
    }
    let mut left = limit;
    let mut show = |pick: &mut dyn FnMut(usize, usize) -> usize| {
        if left > 0 {
            left -= 1;
            show(pick);
        }
    };
    show(&mut |_, _| 0);
    show(&mut |_, options| options - 1);
    let mut random = seed | 1;
    for alone in 0..options.len() {
        show(&mut |at, options| if at == alone { options - 1 } else { 0 });
        show(&mut |at, options| if at == alone { 0 } else { options - 1 });
    }
    for _ in 0..limit {
        show(&mut |_, options| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 33) as usize % options
        });
    }
}

#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn states(is_ordered: bool, events: &[Event]) -> BTreeSet<Image> {
        let mut replay = Replay::new(vec![0; LINE_WORDS], is_ordered);
        for event in events {
            replay.step(thread::current().id(), *event);
        }
        let mut found = BTreeSet::new();
        replay.images(1000, 1, |image| {
            found.insert(image[..2].to_vec());
        });
        found
    }

    #[test]
    fn what_is_pending_may_be_there_or_not() {
        let stores = [Event::Store(WordAt(0), 1), Event::Store(WordAt(1), 2)];
        let images = |list: &[[u64; 2]]| list.iter().map(|i| i.to_vec()).collect::<BTreeSet<_>>();
        assert_eq!(states(true, &stores), images(&[[0, 0], [1, 0], [1, 2]]));
        assert_eq!(states(false, &stores), images(&[[0, 0], [1, 0], [0, 2], [1, 2]]));
    }

    #[test]
    fn a_flush_without_a_fence_and_a_fence_without_a_flush_promise_nothing() {
        let line = LineAt(0);
        for events in [
            vec![Event::Store(WordAt(0), 1), Event::Flush(line)],
            vec![Event::Store(WordAt(0), 1), Event::Fence],
            vec![Event::Flush(line), Event::Store(WordAt(0), 1), Event::Fence],
        ] {
            assert_eq!(states(true, &events).len(), 2, "{events:?}");
        }
        let safe = [Event::Store(WordAt(0), 1), Event::Flush(line), Event::Fence];
        assert_eq!(states(false, &safe).len(), 1);
    }
}
