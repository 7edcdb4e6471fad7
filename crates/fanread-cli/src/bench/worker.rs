//! The process that measures one map: reads the keys, runs the workloads, writes what it found.
//!
//! A process of its own for each map keeps memory figures apart, gives every map a fresh
//! allocator, and lets the rest go on when a map brings its process down.

use std::fmt;
use std::io::{self, Write};

use workload::distribution::Distribution;
use workload::keyset::KeySet;
use workload::mix::{Op, Plan, ScanReference, Stream, Workload};
use workload::order::Order;
use workload::subject::{Handle, Subject};

use crate::bench::driver::{self, LONGEST_BATCH, Load, Queries, Timing};
use crate::bench::job::{Case, Job, Line, OPEN, Task};
use crate::bench::{cceh, grow, memory, registry, reopen, verify};

/// Keys and values must take this much for the growth of the process to say what a map takes.
const LEAST_BYTES: f64 = (2 << 20) as f64;

/// Why a map does nothing on keys that are text: a file's lines are, of whatever length.
pub(crate) const NUMBERS_ONLY: &str =
    "takes numbers: a key set of them, or a file whose name ends in _uint64";

/// What a map is measured with, and where the findings go.
pub(crate) struct Context<'a> {
    pub(crate) job: &'a Job,
    pub(crate) keys: &'a KeySet,
    pub(crate) order: Option<&'a Order>,
    pub(crate) out: &'a mut dyn FnMut(Line) -> io::Result<()>,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("job", self.job).finish_non_exhaustive()
    }
}

/// Does the job that the parent process gave: keys on standard input, lines on standard output.
///
/// # Errors
///
/// Those of reading the keys and writing the lines.
pub(crate) fn run(job: &Job) -> io::Result<()> {
    let (keys, order) = KeySet::load(&mut io::stdin().lock())?;
    let mut stdout = io::stdout().lock();
    let mut out = |line: Line| {
        serde_json::to_writer(&mut stdout, &line)?;
        stdout.write_all(b"\n")?;
        stdout.flush()
    };
    let entry = registry::find(&job.index).ok_or_else(|| io::Error::other("no such index"))?;
    let mut context = Context { job, keys: &keys, order: order.as_ref(), out: &mut out };
    // The only job of this process.
    let _ = cceh::SETTINGS.set(job.settings.clone());
    match &job.task {
        Task::Open => return reopen::measure(&mut context),
        Task::BeKilled(path) => return reopen::be_killed(&mut context, path),
        Task::Query | Task::Grow => {}
    }
    if let Some(run) = entry.runner(keys.is_u64()) {
        return run(&mut context);
    }
    context.none(NUMBERS_ONLY)
}

/// One workload with one distribution and one batch size.
#[derive(Debug, Clone, Copy)]
struct Step {
    workload: Workload,
    distribution: Distribution,
    batch: usize,
    dependent: bool,
}

impl Step {
    fn case(&self) -> Case {
        let (workload, _) = self.workload.independent();
        // How keys are chosen and how calls wait means nothing to some workloads.
        let chooses = chooses(workload);
        Case {
            workload: workload.to_string(),
            dependent: self.dependent,
            dist: if chooses { self.distribution } else { Distribution::Uniform }.to_string(),
            batch: self.batch,
        }
    }
}

/// Tells whether a workload chooses among the keys of the map.
fn chooses(workload: Workload) -> bool {
    workload != Workload::Load && !workload.misses()
}

impl Job {
    /// Returns everything a map is measured with.
    fn cases(&self) -> Vec<Case> {
        match self.task {
            Task::Grow => grow::cases(self),
            Task::Query => self.steps().iter().map(Step::case).collect(),
            Task::Open | Task::BeKilled(_) => vec![Case::plain(OPEN)],
        }
    }

    /// Returns the steps in the order they run: inserting workloads last, loading first.
    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (workload, _) in Workload::ALL {
            if !self.workloads.contains(&workload) {
                continue;
            }
            // Keys cannot be inserted twice, and only one scan is the first.
            let once = workload.inserts() || workload == Workload::ScanFirst;
            let many = chooses(workload) && !once;
            let distributions =
                &self.distributions[..if many { self.distributions.len() } else { 1 }];
            let batches = if workload == Workload::Batch { &self.batches[..] } else { &[1] };
            let dependent = match workload {
                Workload::Scan | Workload::ScanFirst | Workload::Batch => self.dependent,
                _ => workload.independent().1,
            };
            for &distribution in distributions {
                for &batch in batches {
                    steps.push(Step { workload, distribution, batch, dependent });
                }
            }
        }
        steps
    }
}

impl Context<'_> {
    /// Says why the map cannot do any of this.
    pub(crate) fn none(&mut self, why: &str) -> io::Result<()> {
        for case in self.job.cases() {
            (self.out)(Line::Unsupported { case, why: why.into() })?;
        }
        (self.out)(Line::Done)
    }

    fn wrong(&mut self, step: &Step, what: String) -> io::Result<()> {
        (self.out)(Line::Wrong { case: step.case(), what })
    }

    /// Says how long a step took, or that answers were wrong; tells whether to go on.
    fn report(
        &mut self,
        step: &Step,
        timing: &Timing,
        operations: usize,
        note: Option<String>,
    ) -> io::Result<bool> {
        if timing.wrong > 0 {
            let what = format!("{} of {operations} answers", timing.wrong);
            self.wrong(step, what)?;
            return Ok(false);
        }
        let mops = operations as f64 / timing.seconds / 1e6;
        let Timing { core_share, latency, .. } = *timing;
        let (case, pause_ns) = (step.case(), None);
        (self.out)(Line::Measured { case, mops, core_share, latency, pause_ns, note })?;
        Ok(true)
    }

    /// Returns why a map cannot do a step.
    fn obstacle<S: Subject>(&self, step: &Step) -> Option<&'static str> {
        let workload = step.workload;
        let several = self.job.threads > 1;
        let needed = match workload {
            _ if workload.misses() => 1,
            _ if workload.inserts() => 2 * self.job.threads,
            _ => 0,
        };
        if workload.scans() && !S::ORDERED {
            Some("no scans in order")
        } else if workload.has_scanner() && !several {
            Some("needs a thread more, which scans")
        } else if S::SUMS && (workload == Workload::YcsbE || workload.has_scanner()) {
            Some("updates change the sums of scans")
        } else if S::STATIC && workload.writes() {
            Some("made once, then only read")
        } else if several && !S::SHARED_WRITES && (workload.writes() || workload == Workload::Load)
        {
            Some("one thread writes")
        } else if several && !S::SHARED_UPDATES && workload.updates() {
            Some("a key is absent while it is updated")
        } else if self.keys.absent() < needed {
            Some("too few keys to keep some out")
        } else {
            None
        }
    }
}

/// Measures one map: loads it, then runs what the job asks for.
pub(crate) fn measure<S: Subject>(context: &mut Context<'_>) -> io::Result<()> {
    if context.keys.longest() > S::MAX_KEY_BYTES {
        return context.none(&format!("keys longer than {} bytes", S::MAX_KEY_BYTES));
    }
    if S::ONE_LENGTH && !have_one_length(context.keys) {
        return context.none("keys of several lengths");
    }
    if context.job.task == Task::Grow {
        return grow::measure::<S>(context);
    }
    let (keys, order) = (context.keys, context.order.filter(|_| S::ORDERED));
    let steps = context.job.steps();
    let load = Step {
        workload: Workload::Load,
        distribution: Distribution::Uniform,
        batch: 1,
        dependent: false,
    };
    let n = keys.present();
    let before = memory::resident_bytes();
    let mut map = S::with_room(n);
    let threads = if S::SHARED_WRITES { context.job.threads } else { 1 };
    let timing = driver::timed(&mut map, threads, &Load { keys, threads });
    let grown = memory::resident_bytes().saturating_sub(before) as f64;
    let own = keys.present_bytes() as f64 + 8.0 * n as f64;
    if context.job.workloads.contains(&Workload::Load) {
        if let Some(why) = context.obstacle::<S>(&load) {
            (context.out)(Line::Unsupported { case: load.case(), why: why.into() })?;
        } else if !context.report(&load, &timing, n, map.remark())? {
            return Ok(());
        }
    }
    if timing.wrong > 0 {
        return context.wrong(&load, format!("{} keys were not new", timing.wrong));
    }
    if own >= LEAST_BYTES {
        (context.out)(Line::Memory { overhead_bytes_per_key: (grown - own) / n as f64 })?;
    }

    // Scans that must be the first run before the checks, which scan too.
    let (first, later): (Vec<_>, Vec<_>) = steps
        .into_iter()
        .filter(|step| step.workload != Workload::Load)
        .partition(|step| step.workload == Workload::ScanFirst);
    let mut inserted = Vec::new();
    if !query_all(context, &mut map, &first, &mut inserted)? {
        return Ok(());
    }
    if let Err(what) = verify::loaded::<S>(&mut map, keys, order, context.job.seed) {
        return context.wrong(&load, what);
    }
    if !query_all(context, &mut map, &later, &mut inserted)? {
        return Ok(());
    }
    if !S::STATIC
        && let Err(what) = verify::removals(&mut map.own(), keys)
    {
        return context.wrong(&load, what);
    }
    (context.out)(Line::Done)
}

/// Tells whether all keys of a map have the length of the longest one.
fn have_one_length(keys: &KeySet) -> bool {
    keys.present_bytes() == keys.longest() as u64 * keys.present() as u64
}

/// Runs steps until an answer is wrong; tells whether all were right.
fn query_all<S: Subject>(
    context: &mut Context<'_>,
    map: &mut S,
    steps: &[Step],
    inserted: &mut Vec<usize>,
) -> io::Result<bool> {
    for step in steps {
        if let Some(why) = context.obstacle::<S>(step) {
            (context.out)(Line::Unsupported { case: step.case(), why: why.into() })?;
        } else if !query(context, map, step, inserted)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Runs one step on a loaded map; tells whether all answers were right. `inserted` are the keys
/// that earlier steps added.
fn query<S: Subject>(
    context: &mut Context<'_>,
    map: &mut S,
    step: &Step,
    inserted: &mut Vec<usize>,
) -> io::Result<bool> {
    let (job, keys, workload) = (context.job, context.keys, step.workload);
    let threads = job.threads;
    let mut scans = context.order.filter(|_| workload.scans()).map(|order| {
        let new = if S::SUMS { ScanReference::of_sums } else { ScanReference::new };
        let mut scans = new(keys, order, keys.present());
        for index in inserted.iter() {
            scans.add(*index);
        }
        scans
    });
    let plan = |thread| Plan {
        keys,
        distribution: step.distribution,
        queries: driver::queries_of(workload, job.queries).max(step.batch),
        thread: (thread, threads),
        seed: job.seed,
    };
    let streams: io::Result<Vec<Stream>> =
        (0..threads).map(|thread| plan(thread).stream(workload, scans.as_mut())).collect();
    let streams = streams?;
    if workload == Workload::Scan
        && let Some(smallest) = context.order.and_then(|order| order.by_rank().first())
    {
        // Whatever a map does at the first scan is done: `scan-first` measures that.
        map.own().scan(keys.key(*smallest as usize), keys.len(), |_, _| {});
    }
    let work = Queries::new(workload, &streams, step.dependent, step.batch);
    debug_assert!(step.batch <= LONGEST_BATCH);
    let timing = work.timed(map);
    if !context.report(step, &timing, work.operations(), None)? {
        return Ok(false);
    }
    for stream in &streams {
        let insertions = (0..stream.len()).filter(|i| stream.query(*i).op == Op::Insert);
        inserted.extend(insertions.map(|i| stream.index(i)));
    }
    let mut checked = Ok(());
    if workload.writes() && !workload.inserts() && threads == 1 {
        checked = verify::updates(&mut map.own(), keys, &streams[0]);
    }
    if let Some(scans) = scans.as_ref().filter(|_| !S::SUMS) {
        let mut handle = map.own();
        checked = checked.and_then(|()| verify::scans(&mut handle, keys, scans, job.seed));
        if workload.asks_for_bounds() {
            checked = checked.and_then(|()| verify::bounds(&mut handle, keys, scans, job.seed));
        }
    }
    if let Err(what) = checked {
        context.wrong(step, what)?;
        return Ok(false);
    }
    Ok(true)
}
