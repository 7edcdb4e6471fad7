//! [`fanread::Cceh`] behind the traits of a measured map: in memory with both split policies, in a file, and in a file with
//! checkpoints. A hash map: it has no order to scan in.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fanread::Cceh;
use fanread::persist::cceh::{CcehError, CcehOptions, SplitPolicy};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use workload::subject::{Handle, Subject};

/// Answers that a batched lookup takes room for at once.
const BATCH: usize = 64;

/// How long the thread that makes checkpoints sleeps between two looks whether it is time.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How the measured maps are made.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// Bytes of a segment of the cceh maps: a power of two from 256 to 4194304
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    pub(crate) segment_bytes: usize,

    /// In how many neighbouring buckets, of 64 bytes, a key may be
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) probing: usize,

    /// Nanoseconds that each flushed line takes longer, and counts lines and fences; 0 only counts
    #[arg(long, value_name = "NS")]
    pub(crate) flush_latency: Option<u64>,

    /// Insertions of a thread after which it makes a checkpoint, in cceh-checkpoints; 0 for one at the end of the load
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) sync_every: u64,

    /// Lets a thread of its own make the checkpoints, so that others wait only where they must
    #[arg(long)]
    pub(crate) sync_apart: bool,

    /// Asks for no huge pages for maps in memory
    #[arg(long)]
    pub(crate) small_pages: bool,

    /// Hash seed of the cceh maps, so that equal insertions do equal work [default: random]; grow with --repeat then
    /// also says how long they take if each is as fast as in its fastest run
    #[arg(long, value_name = "N")]
    pub(crate) hash_seed: Option<u64>,

    /// Folder for the files of maps, which are removed at the end [default: that of the system for temporary files]
    #[arg(long, value_name = "PATH")]
    pub(crate) folder: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            segment_bytes: 16_384,
            probing: 4,
            flush_latency: None,
            sync_every: 1_000_000,
            sync_apart: false,
            small_pages: false,
            hash_seed: None,
            folder: None,
        }
    }
}

impl Settings {
    /// Returns what is wrong with them.
    pub(crate) fn fault(&self) -> Option<String> {
        let Self { segment_bytes: bytes, probing, .. } = *self;
        if !bytes.is_power_of_two() || !(256..=4 << 20).contains(&bytes) {
            return Some(no_segment(bytes));
        }
        let buckets = (bytes / 64).min(0xffff);
        if !(1..=buckets).contains(&probing) {
            return Some(format!("a segment of {bytes} bytes has 1 to {buckets} buckets to probe"));
        }
        let folder = self.folder.as_ref().filter(|path| !path.is_dir());
        folder.map(|path| format!("{} is no folder", path.display()))
    }

    /// Returns what differs from the defaults, for the name of a map: figures with other settings are not of the same map.
    pub(crate) fn label(&self) -> String {
        let (mut label, usual) = (String::new(), Self::default());
        let mut add = |text: String| {
            label.push(' ');
            label += &text;
        };
        if self.segment_bytes != usual.segment_bytes {
            add(format!("{}B", self.segment_bytes));
        }
        if self.probing != usual.probing {
            add(format!("probing-{}", self.probing));
        }
        if let Some(ns) = self.flush_latency {
            add(if ns == 0 { "counted".into() } else { format!("+{ns}ns") });
        }
        if self.sync_every != usual.sync_every {
            add(format!("sync-{}", self.sync_every));
        }
        if self.sync_apart {
            add("apart".into());
        }
        if self.small_pages {
            add("small-pages".into());
        }
        label
    }

    /// Makes a folder for files, which goes when it is dropped.
    pub(crate) fn folder(&self) -> std::io::Result<TempDir> {
        let mut folder = tempfile::Builder::new();
        let folder = folder.prefix("fanread-bench-");
        self.folder.as_ref().map_or_else(|| folder.tempdir(), |path| folder.tempdir_in(path))
    }

    /// Makes a map of a kind; one that is in a file, at `path`.
    pub(crate) fn make(&self, kind: &Kind, path: &Path) -> Result<Cceh, CcehError> {
        let options = CcehOptions::new().segment_bytes(self.segment_bytes);
        let mut options = options
            .probed_buckets(self.probing)
            .split_policy(kind.policy)
            .huge_pages(!self.small_pages)
            .checkpoints(kind.place == Place::Checkpoints);
        if let Some(seed) = self.hash_seed {
            options = options.seed(seed);
        }
        if let Some(ns) = self.flush_latency {
            options = options.flush_latency(Duration::from_nanos(ns));
        }
        match kind.place {
            Place::Memory => Cceh::in_memory(options),
            Place::File | Place::Checkpoints => Cceh::create(path, options),
        }
    }
}

/// Says that a segment cannot have a size.
pub(crate) fn no_segment(bytes: usize) -> String {
    format!("a segment of {bytes} bytes is no power of two from 256 to 4194304")
}

/// The settings of this process, which measures one map; the defaults until they are set.
pub(crate) static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Where a map is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Memory,
    File,
    Checkpoints,
}

/// One of the measured maps.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    policy: SplitPolicy,
    pub(crate) place: Place,
}

/// The maps: places in [`KINDS`].
pub(crate) const MEMORY: usize = 0;
pub(crate) const COPYING: usize = 1;
pub(crate) const FILE: usize = 2;
pub(crate) const CHECKPOINTS: usize = 3;

pub(crate) const KINDS: [Kind; 4] = [
    Kind { name: "cceh", policy: SplitPolicy::InPlace, place: Place::Memory },
    Kind { name: "cceh-copy-on-write", policy: SplitPolicy::CopyOnWrite, place: Place::Memory },
    Kind { name: "cceh-file", policy: SplitPolicy::InPlace, place: Place::File },
    Kind { name: "cceh-checkpoints", policy: SplitPolicy::InPlace, place: Place::Checkpoints },
];

/// A map, by its place in [`KINDS`].
pub(crate) struct Measured<const KIND: usize> {
    shared: Arc<Kept>,
    /// The thread that makes checkpoints, if there is one.
    apart: Option<JoinHandle<()>>,
    /// Goes after the map.
    _folder: Option<TempDir>,
}

/// The map, and what is known of its checkpoints.
struct Kept {
    map: Cceh,
    /// Insertions between two checkpoints; 0 for none.
    every: u64,
    is_apart: bool,
    /// How often as many have been made.
    due: AtomicU64,
    is_over: AtomicBool,
    made: AtomicU64,
    total_ns: AtomicU64,
    longest_ns: AtomicU64,
}

/// A thread's access to a map.
pub(crate) struct Shared<'a, const KIND: usize> {
    map: &'a Cceh,
    kept: &'a Kept,
    /// Insertions until the next checkpoint.
    left: u64,
}

impl Kept {
    fn sync(&self) {
        let start = Instant::now();
        if let Err(e) = self.map.sync() {
            panic!("cannot make a checkpoint: {e}");
        }
        // Relaxed: counts.
        let ns = start.elapsed().as_nanos() as u64;
        self.made.fetch_add(1, Relaxed);
        self.total_ns.fetch_add(ns, Relaxed);
        self.longest_ns.fetch_max(ns, Relaxed);
    }

    /// Makes checkpoints when they are due, until it is over.
    fn sync_when_due(&self) {
        let mut done = 0;
        while !self.is_over.load(Relaxed) {
            let due = self.due.load(Relaxed);
            if due == done {
                thread::sleep(LOOK_EVERY);
            } else {
                self.sync();
                done = due;
            }
        }
    }
}

impl<const KIND: usize> Measured<KIND> {
    fn make(settings: &Settings) -> Result<Self, Box<dyn std::error::Error>> {
        let kind = &KINDS[KIND];
        let folder = (kind.place != Place::Memory).then(|| settings.folder()).transpose()?;
        let path = folder.as_ref().map_or_else(PathBuf::new, |folder| folder.path().join("map"));
        let has_checkpoints = kind.place == Place::Checkpoints;
        let kept = Kept {
            map: settings.make(kind, &path)?,
            every: if has_checkpoints { settings.sync_every } else { 0 },
            is_apart: settings.sync_apart,
            due: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            made: AtomicU64::new(0),
            total_ns: AtomicU64::new(0),
            longest_ns: AtomicU64::new(0),
        };
        let shared = Arc::new(kept);
        let apart = (has_checkpoints && settings.sync_apart).then(|| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.sync_when_due())
        });
        Ok(Self { shared, apart, _folder: folder })
    }
}

impl<const KIND: usize> Drop for Measured<KIND> {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        if let Some(apart) = self.apart.take() {
            // It says itself why it ended.
            let _ = apart.join();
        }
    }
}

impl<const KIND: usize> Subject for Measured<KIND> {
    const NAME: &'static str = KINDS[KIND].name;
    const ORDERED: bool = false;
    const BATCHES: bool = true;
    const MAX_KEY_BYTES: usize = 8;

    type Owned<'a> = Shared<'a, KIND>;
    type Shared<'a> = Shared<'a, KIND>;

    fn new() -> Self {
        match Self::make(SETTINGS.get().unwrap_or(&Settings::default())) {
            Ok(map) => map,
            Err(e) => panic!("cannot make the map: {e}"),
        }
    }

    fn own(&mut self) -> Shared<'_, KIND> {
        self.share()
    }

    fn share(&self) -> Shared<'_, KIND> {
        Shared { map: &self.shared.map, kept: &self.shared, left: self.shared.every }
    }

    fn remark(&self) -> Option<String> {
        let stats = self.shared.map.stats();
        let full = stats.entries as f64 * 100.0 / stats.slots as f64;
        let mut text = format!("{full:.1} % of the slots of {} segments used", stats.segments);
        if let Some(counts) = self.shared.map.flushes() {
            let each = |count: u64| count as f64 / stats.entries.max(1) as f64;
            let (lines, fences) = (each(counts.lines), each(counts.fences));
            let _ = write!(text, "; {lines:.3} lines flushed and {fences:.3} fences for each key");
        }
        let made = self.shared.made.load(Relaxed);
        if made > 0 {
            let ms = |ns: u64| ns as f64 * 1e-6;
            let mean = ms(self.shared.total_ns.load(Relaxed)) / made as f64;
            let longest = ms(self.shared.longest_ns.load(Relaxed));
            let _ =
                write!(text, "; checkpoints: {made}, {mean:.1} ms each, the longest {longest:.1}");
        }
        Some(text)
    }
}

#[inline]
fn number(key: &[u8]) -> u64 {
    u64::from_be_bytes(key.try_into().expect("keys of eight bytes"))
}

impl<const KIND: usize> Shared<'_, KIND> {
    #[inline]
    fn put(&self, key: &[u8], value: u64) -> Option<u64> {
        match self.map.insert(number(key), value) {
            Ok(old) => old,
            Err(e) => panic!("cannot insert: {e}"),
        }
    }

    /// After an insertion: a checkpoint, if it is time for one.
    #[inline]
    fn count(&mut self) {
        if self.kept.every == 0 {
            return;
        }
        self.left -= 1;
        if self.left == 0 {
            self.left = self.kept.every;
            if self.kept.is_apart {
                self.kept.due.fetch_add(1, Relaxed);
            } else {
                self.kept.sync();
            }
        }
    }
}

impl<const KIND: usize> Handle for Shared<'_, KIND> {
    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        let is_new = self.put(key, value).is_none();
        if KINDS[KIND].place == Place::Checkpoints {
            self.count();
        }
        is_new
    }

    fn loaded(&mut self) {
        if KINDS[KIND].place == Place::Checkpoints {
            self.kept.sync();
        }
    }

    #[inline]
    fn update(&mut self, key: &[u8], value: u64) -> bool {
        self.put(key, value).is_some()
    }

    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.map.get(number(key))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> bool {
        self.map.remove(number(key)).is_some()
    }

    #[inline]
    fn get_batch(&mut self, keys: &[&[u8]], out: &mut [Option<u64>]) {
        let mut numbers = [0; BATCH];
        for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            let numbers = &mut numbers[..keys.len()];
            numbers.iter_mut().zip(keys).for_each(|(into, key)| *into = number(key));
            self.map.get_batch(numbers, out);
        }
    }

    fn scan(&mut self, _: &[u8], _: usize, _: impl FnMut(&[u8], u64)) {
        unreachable!("a hash map has no order")
    }
}

/// A handle of any map, to verify its answers.
pub(crate) struct Opened<'a>(pub(crate) &'a Cceh);

impl Handle for Opened<'_> {
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        match self.0.insert(number(key), value) {
            Ok(old) => old.is_none(),
            Err(e) => panic!("cannot insert: {e}"),
        }
    }

    fn update(&mut self, key: &[u8], value: u64) -> bool {
        !self.insert(key, value)
    }

    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.0.get(number(key))
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        self.0.remove(number(key)).is_some()
    }

    fn scan(&mut self, _: &[u8], _: usize, _: impl FnMut(&[u8], u64)) {
        unreachable!("a hash map has no order")
    }
}
