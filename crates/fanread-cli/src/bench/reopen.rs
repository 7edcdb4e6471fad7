//! How long a map takes to open that a killed process has left.
//!
//! Another process of this program makes the map in a file, inserts all keys, says so, and goes on with insertions and removals of
//! others until it is killed. Then the file is opened here, once: its pages are in the system's cache, as they are after a kill. Of the keys
//! that were acknowledged regularly spaced ones are looked for.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fanread::Cceh;
use workload::mix::value_of;
use workload::subject::Handle;

use crate::bench::cceh::{KINDS, Kind, Opened, Place};
use crate::bench::clock::Latency;
use crate::bench::driver::cpu_seconds;
use crate::bench::job::{Case, Job, Line, OPEN, Task};
use crate::bench::rounds::JOB_OPTION;
use crate::bench::verify;
use crate::bench::worker::Context;

/// How long the other process goes on before it is killed.
const GOES_ON: Duration = Duration::from_millis(50);

/// Keys that come and go until the end.
const RESTLESS: usize = 100_000;

fn kind_of(job: &Job) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == job.index && kind.place != Place::Memory)
}

/// Lets a process be killed, and measures how long its map takes to open.
pub(crate) fn measure(context: &mut Context<'_>) -> io::Result<()> {
    let (job, case) = (context.job, Case::plain(OPEN));
    if kind_of(job).is_none() {
        let why = "gone with its process".into();
        (context.out)(Line::Unsupported { case, why })?;
        return (context.out)(Line::Done);
    }
    let folder = job.settings.folder()?;
    let path = folder.path().join("map");
    leave(job, &path)?;
    let (cpu, start) = (cpu_seconds(), Instant::now());
    let map = Cceh::open(&path).map_err(io::Error::other)?;
    let time = start.elapsed();
    // Below 1 it waited, for the disk or for other programs.
    let core_share = (cpu_seconds() - cpu) / time.as_secs_f64();
    if let Err(what) = verify::present(&mut Opened(&map), context.keys) {
        return (context.out)(Line::Wrong { case, what });
    }
    let stats = map.stats();
    let note = format!(
        "{} segments, {} entries of the directory, {} MB",
        stats.segments,
        stats.directory_entries,
        stats.bytes >> 20
    );
    let mut latency = Latency::one_in(1);
    latency.record(time);
    (context.out)(Line::Measured {
        case,
        mops: 1e-6 / time.as_secs_f64(),
        core_share,
        latency: latency.percentiles(),
        pause_ns: None,
        note: Some(note),
    })?;
    (context.out)(Line::Done)
}

/// Leaves at `path` the map of a process that was killed.
fn leave(job: &Job, path: &Path) -> io::Result<()> {
    // The other process reads the same keys, from the start.
    let mut keys = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    keys.rewind()?;
    let job = Job { task: Task::BeKilled(path.to_owned()), ..job.clone() };
    let mut child = Command::new(std::env::current_exe()?)
        .args(["bench", JOB_OPTION, &serde_json::to_string(&job)?])
        .stdin(Stdio::from(keys))
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    let read =
        BufReader::new(child.stdout.take().expect("a pipe was asked for")).read_line(&mut said);
    if said.is_empty() {
        let status = child.wait()?;
        return Err(io::Error::other(format!("the process to be killed ended early, {status}")));
    }
    thread::sleep(GOES_ON);
    child.kill()?;
    child.wait()?;
    read.map(drop)
}

/// Makes a map at `path`, inserts all keys, says so, and goes on until the process is killed.
pub(crate) fn be_killed(context: &mut Context<'_>, path: &Path) -> io::Result<()> {
    let (job, keys) = (context.job, context.keys);
    let kind = kind_of(job).ok_or(io::ErrorKind::InvalidInput)?;
    let map = job.settings.make(kind, path).map_err(io::Error::other)?;
    let mut handle = Opened(&map);
    for index in 0..keys.present() {
        handle.insert(keys.key(index), value_of(index));
    }
    (context.out)(Line::Done)?;
    let restless = keys.present()..keys.len().min(keys.present() + RESTLESS);
    loop {
        for index in restless.clone() {
            handle.insert(keys.key(index), value_of(index));
        }
        for index in restless.clone() {
            handle.remove(keys.key(index));
        }
        if restless.is_empty() {
            thread::sleep(GOES_ON);
        }
    }
}
