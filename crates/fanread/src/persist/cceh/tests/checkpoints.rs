//! Maps with checkpoints on a disk that loses power: after every write and every wait, every state that could be left is opened, and
//! has to be the map of the last checkpoint, or of the one under way. And a process that is killed there loses nothing.

use super::*;
use crate::mem::LINE_BYTES;
use crate::persist::cceh::layout::{CHECKSUM_AT, HOME_AT, HOME_MARK};
use crate::persist::cceh::strings::Strings;
use crate::persist::medium::disk::{Disk, DiskFile, Event, Fault, Image, Replay, Site, resize};
use crate::persist::medium::{
    Call, Checkpoints, Home, LineAt, LineRef, Origin, Storage, TRUSTS, WordAt,
};
use crate::sync::shim::Ordering;

/// The files of a map on the disk.
const FILE: usize = 0;
const JOURNAL: usize = 1;
const WORK: usize = 2;

/// How many states are looked at of a moment, and how many of one of recovery.
const IMAGES: usize = 8;
const NESTED: usize = 2;

/// Of how many states one is lost again while it is opened.
const NESTED_IN: u64 = 32;

/// Lines that the working copies of these tests may take.
const LINES: usize = 1024;

/// A medium whose working copy is memory, and on the disk where the test writes it there.
struct Copied {
    work: Sim,
    checkpoints: Checkpoints<DiskFile>,
    disk: Disk,
}

impl Medium for Copied {
    fn is_ordered(&self) -> bool {
        self.work.is_ordered()
    }

    fn lines(&self) -> usize {
        self.work.lines()
    }

    fn line(&self, at: LineAt) -> LineRef<'_> {
        self.work.line(at)
    }

    fn store(&self, at: WordAt, value: u64, order: Ordering) {
        self.work.store(at, value, order);
    }

    fn flush(&self, at: LineAt) {
        self.checkpoints.mark(at);
    }

    fn fence(&self) {}

    fn grow(&self, lines: usize) -> std::io::Result<()> {
        self.work.grow(lines)?;
        self.checkpoints.grow(lines)
    }

    fn enter(&self) -> std::io::Result<Call<'_>> {
        Ok(self.checkpoints.enter())
    }
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The line of the working copy that is written to its file, not stored by the map.
const OWN: core::ops::Range<usize> = HOME_AT.0 * 8..HOME_AT.0 * 8 + LINE_BYTES;

impl Copied {
    fn open(disk: &Disk, boot: u64) -> std::io::Result<(Self, Origin)> {
        let files = [FILE, JOURNAL, WORK].map(|number| disk.file(number));
        let words = words_of(&disk.bytes(FILE));
        let home = Home { identity: words[CHECKSUM_AT.0], line: HOME_AT.line(), mark: HOME_MARK };
        let (checkpoints, origin) = Checkpoints::open(files, home, [boot, 0])?;
        let work = words_of(&disk.bytes(WORK));
        let work = Sim::of(&work[..work.len() & !7], LINES, true);
        let copied = Self { work, checkpoints, disk: disk.clone() };
        copied.checkpoints.grow(copied.lines())?;
        Ok((copied, origin))
    }

    /// What the system does at any time.
    fn write_back(&self) {
        let work = self.disk.file(WORK);
        work.write(0, &bytes_of(&self.work.image())).unwrap();
    }

    fn sync(&self) -> std::io::Result<()> {
        self.checkpoints.sync(self)
    }

    fn close(&self) {
        self.write_back();
        self.checkpoints.close(self);
    }
}

/// A map of either kind on such a medium.
trait OnDisk: Sized {
    fn format() -> Sim;
    fn open(medium: Copied) -> Self;
    fn medium(&self) -> &Copied;
    fn apply(&self, op: Op);
    fn contents(&self) -> BTreeMap<u64, u64>;
}

impl OnDisk for Map<Copied> {
    fn format() -> Sim {
        Map::create(Sim::new(LINES, true), tiny(SplitPolicy::InPlace, 4)).unwrap().medium
    }

    fn open(medium: Copied) -> Self {
        let map = Map::open(medium, SplitPolicy::InPlace).unwrap();
        map.medium.checkpoints.confirm();
        map
    }

    fn medium(&self) -> &Copied {
        &self.medium
    }

    fn apply(&self, op: Op) {
        match op {
            Op::Insert(key, value) => _ = self.insert(key, value).unwrap(),
            Op::Remove(key) => _ = self.remove(key),
        }
    }

    fn contents(&self) -> BTreeMap<u64, u64> {
        self.check().unwrap();
        contents(self)
    }
}

impl OnDisk for Strings<Copied> {
    fn format() -> Sim {
        let options = tiny(SplitPolicy::InPlace, 4);
        Strings::create(Sim::new(LINES, true), options).unwrap().map.medium
    }

    fn open(medium: Copied) -> Self {
        let strings = Strings::open(medium, SplitPolicy::InPlace).unwrap();
        strings.map.medium.checkpoints.confirm();
        strings
    }

    fn medium(&self) -> &Copied {
        &self.map.medium
    }

    fn apply(&self, op: Op) {
        match op {
            Op::Insert(key, value) => {
                _ = self.insert(&key.to_le_bytes(), &value.to_le_bytes()).unwrap();
            }
            Op::Remove(key) => _ = self.remove(&key.to_le_bytes()),
        }
    }

    fn contents(&self) -> BTreeMap<u64, u64> {
        self.check().unwrap();
        let number = |bytes: Vec<u8>| u64::from_le_bytes(*bytes.first_chunk().unwrap());
        let entries = self.map.walk().map(|(hash, name)| self.entry(hash, name).unwrap());
        entries.map(|(key, value)| (number(key), number(value))).collect()
    }
}

/// The files of an empty map.
fn made<T: OnDisk>() -> Image {
    let mut words = T::format().image();
    words[HOME_AT.0] = HOME_MARK;
    words[HOME_AT.0 + 1] = 0;
    let disk = Disk::of(vec![bytes_of(&words), Vec::new(), Vec::new()]);
    let home = Home { identity: words[CHECKSUM_AT.0], line: HOME_AT.line(), mark: HOME_MARK };
    Checkpoints::format(disk.file(JOURNAL), home).unwrap();
    disk.image()
}

/// What the test knew at some moment.
#[derive(Clone)]
struct Moment {
    /// The working copy.
    work: Vec<u8>,
    /// All that was acknowledged.
    now: BTreeMap<u64, u64>,
    /// What a loss of power may leave.
    may_be: Vec<BTreeMap<u64, u64>>,
}

/// A time at which the map was closed.
#[derive(Clone)]
struct Closed {
    /// The moment behind it.
    behind: usize,
    /// File and journal.
    files: [Vec<u8>; 2],
    /// What it had.
    then: BTreeMap<u64, u64>,
}

/// A life of a map: calls, checkpoints, ends and starts of its process.
struct Life {
    disk: Disk,
    moments: Vec<Moment>,
    closed: Vec<Closed>,
    opened: u64,
    fault: Option<Fault>,
    sites: BTreeSet<Site>,
}

impl Life {
    fn new<T: OnDisk>(fault: Option<Fault>) -> (Self, Image) {
        let image = made::<T>();
        let disk = Disk::of(image.clone());
        disk.plant(fault);
        let (moments, closed, sites) = (Vec::new(), Vec::new(), BTreeSet::new());
        (Self { disk, moments, closed, opened: 0, fault, sites }, image)
    }

    fn note(&mut self, work: &Copied, now: &BTreeMap<u64, u64>, safe: &[&BTreeMap<u64, u64>]) {
        self.disk.note(self.moments.len());
        let may_be = safe.iter().copied().cloned().collect();
        let work = bytes_of(&work.work.image());
        self.moments.push(Moment { work, now: now.clone(), may_be });
    }

    /// Calls with checkpoints between them, and some ends and starts.
    fn live<T: OnDisk>(&mut self, seed: u64, rounds: usize) {
        let mut random = Random(seed);
        let mut now = BTreeMap::new();
        let mut safe = BTreeMap::new();
        let mut map = T::open(Copied::open(&self.disk, 1).unwrap().0);
        self.note(map.medium(), &now, &[&safe]);
        let script = script(seed, 60, rounds * 12);
        for ops in script.chunks(12) {
            for op in ops.iter().take(1 + random.below(12) as usize) {
                map.apply(*op);
                op.model(&mut now);
            }
            self.note(map.medium(), &now, &[&safe]);
            map.medium().write_back();
            let what = random.below(4);
            if what < 3 {
                self.note(map.medium(), &now, &[&safe, &now]);
                if what == 0 {
                    map.medium().close();
                    let files = [FILE, JOURNAL].map(|number| self.disk.bytes(number));
                    let (behind, then) = (self.moments.len(), now.clone());
                    self.closed.push(Closed { behind, files, then });
                } else {
                    map.medium().sync().unwrap();
                }
                safe.clone_from(&now);
                self.note(map.medium(), &now, &[&safe]);
            }
            if what == 0 {
                let mut work = bytes_of(&map.medium().work.image());
                let origin = {
                    let (medium, origin) = Copied::open(&self.disk, 1).unwrap();
                    map = T::open(medium);
                    origin
                };
                assert_eq!(origin, Origin::Closed);
                work[OWN].copy_from_slice(&self.disk.bytes(WORK)[OWN]);
                assert!(bytes_of(&map.medium().work.image()) == work);
                self.note(map.medium(), &now, &[&safe]);
            }
        }
        self.sites.extend(self.disk.sites());
    }

    /// Cuts the power, and kills the process, after everything that happened to the disk.
    fn end_everywhere<T: OnDisk>(&mut self, start: Image) {
        let mut replay = Replay::new(start.clone());
        let mut seen = Disk::of(start).image();
        let mut moment = None;
        for (count, event) in (0..).zip(self.disk.take_events()) {
            replay.step(&event);
            match &event {
                Event::Note(number) => moment = Some(*number),
                Event::Write(file, sector, bytes) => {
                    let at = *sector * 512;
                    seen[*file][at..at + bytes.len()].copy_from_slice(bytes);
                }
                Event::Length(file, bytes) => resize(&mut seen[*file], *bytes as usize),
                Event::Sync(_) => {}
            }
            let Some(moment) = moment else { continue };
            replay.images(IMAGES, count, |image| {
                let may_be = self.moments[moment].may_be.clone();
                self.cut::<T>(image, 2, 2, &may_be);
                // Or somebody puts the other two files of an earlier time beside the working copy.
                let earlier = self.closed.iter().take_while(|closed| closed.behind <= moment);
                let earlier = earlier.clone().nth(self.opened as usize % earlier.count().max(1));
                if let Some(Closed { files: [file, journal], then, .. }) = earlier.cloned() {
                    let image = vec![file, journal, image[WORK].clone()];
                    self.cut::<T>(&image, 2, 0, &[then]);
                }
            });
            // What the map has stored and what was written to the file are in one page cache.
            let own = seen[WORK].get(OWN).map(<[u8]>::to_vec);
            seen[WORK].clone_from(&self.moments[moment].work);
            if let Some(own) = own {
                seen[WORK][OWN].copy_from_slice(&own);
            }
            self.kill::<T>(&seen, replay.clone(), moment);
        }
    }

    /// Opens what a loss of power left, and cuts the power again while it is opened.
    fn cut<T: OnDisk>(
        &mut self,
        image: &Image,
        boot: u64,
        nested: u32,
        may_be: &[BTreeMap<u64, u64>],
    ) {
        let disk = Disk::of(image.clone());
        disk.plant(self.fault);
        let map = T::open(Copied::open(&disk, boot).unwrap().0);
        let found = map.contents();
        assert!(may_be.contains(&found), "{found:?}\nis none of {may_be:?}");
        self.opened += 1;
        self.sites.extend(disk.sites());
        if nested > 0 && self.opened.is_multiple_of(NESTED_IN) {
            let mut replay = Replay::new(image.clone());
            for event in disk.take_events() {
                replay.step(&event);
                replay.images(NESTED, 7, |image| {
                    self.cut::<T>(image, boot + 1, nested - 1, std::slice::from_ref(&found));
                });
            }
        }
    }

    /// Opens what a killed process left, makes a checkpoint, and loses power all the while.
    fn kill<T: OnDisk>(&mut self, image: &Image, mut replay: Replay, moment: usize) {
        let disk = Disk::of(image.clone());
        disk.plant(self.fault);
        let Moment { mut now, mut may_be, .. } = self.moments[moment].clone();
        let (medium, origin) = Copied::open(&disk, 1).unwrap();
        assert!(origin != Origin::Checkpoint);
        let map = T::open(medium);
        assert_eq!(map.contents(), now);
        self.opened += 1;
        map.apply(Op::Insert(7, 7));
        now.insert(7, 7);
        let mut cut = |may_be: &[BTreeMap<u64, u64>]| {
            for event in disk.take_events() {
                replay.step(&event);
                replay.images(2, 5, |image| self.cut::<T>(image, 2, 0, may_be));
            }
        };
        cut(&may_be);
        map.medium().sync().unwrap();
        may_be.push(now.clone());
        cut(&may_be);
        replay.images(2, 5, |image| self.cut::<T>(image, 2, 0, std::slice::from_ref(&now)));
    }
}

fn live_and_end<T: OnDisk>(
    seed: u64,
    rounds: usize,
    fault: Option<Fault>,
) -> (u64, BTreeSet<Site>) {
    let (mut life, start) = Life::new::<T>(fault);
    life.live::<T>(seed, rounds);
    life.end_everywhere::<T>(start);
    (life.opened, life.sites)
}

#[test]
fn a_loss_of_power_leaves_the_last_checkpoint_and_a_killed_process_all() {
    for seed in effort::seeds_or(1) {
        let numbers = live_and_end::<Map<Copied>>(seed, 12, None).0;
        let strings = live_and_end::<Strings<Copied>>(seed, 12, None).0;
        report("cceh", numbers);
        report("store", strings);
        assert!(numbers + strings > 2_000, "{numbers}, {strings}");
    }
}

#[test]
fn every_write_and_every_wait_of_a_checkpoint_is_needed() {
    let (_, sites) = live_and_end::<Map<Copied>>(1, 6, None);
    let sites: Vec<_> =
        sites.into_iter().filter(|s| !s.1.file().ends_with("tests/checkpoints.rs")).collect();
    let faults = sites.into_iter().flat_map(|site| {
        let late = site.0.then_some(Fault::Late(site));
        [Fault::Missing(site)].into_iter().chain(late)
    });
    let faults: Vec<_> = faults.collect();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let missed: Vec<_> = faults
        .iter()
        .filter(|fault| {
            !(1..4).any(|seed| fails(|| _ = live_and_end::<Map<Copied>>(seed, 6, Some(**fault))))
        })
        .collect();
    TRUSTS.set(true);
    let is_trust_caught =
        (1..6).any(|seed| fails(|| _ = live_and_end::<Map<Copied>>(seed, 12, None)));
    TRUSTS.set(false);
    std::panic::set_hook(hook);
    for fault in &faults {
        println!("planted: {fault}");
    }
    eprintln!("{} faults planted", faults.len() + 1);
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(is_trust_caught, "a checksum that nobody looks at");
}

/// A map on a disk, and what it has.
fn some(count: u64) -> (Disk, Map<Copied>, BTreeMap<u64, u64>) {
    let disk = Disk::of(made::<Map<Copied>>());
    let map = <Map<Copied> as OnDisk>::open(Copied::open(&disk, 1).unwrap().0);
    let mut model = BTreeMap::new();
    for key in 0..count {
        map.apply(Op::Insert(key, key));
        Op::Insert(key, key).model(&mut model);
    }
    (disk, map, model)
}

/// What another run of the system finds.
fn after_a_loss(disk: &Disk) -> BTreeMap<u64, u64> {
    let disk = Disk::of(disk.image());
    <Map<Copied> as OnDisk>::open(Copied::open(&disk, 2).unwrap().0).contents()
}

#[test]
fn a_checkpoint_without_room_has_not_happened_and_may_be_made_later() {
    let (disk, map, model) = some(40);
    disk.set_full(true);
    assert!(map.medium.sync().is_err());
    assert_eq!(map.contents(), model);
    assert!(after_a_loss(&disk).is_empty());
    disk.set_full(false);
    map.medium.sync().unwrap();
    assert_eq!(after_a_loss(&disk), model);
}

#[test]
fn a_checkpoint_that_failed_is_the_last_one_until_the_map_is_opened_again() {
    let (disk, map, model) = some(40);
    map.medium.sync().unwrap();
    map.apply(Op::Insert(100, 1));
    disk.set_broken(true);
    assert!(map.medium.sync().is_err());
    disk.set_broken(false);
    assert!(map.medium.sync().is_err(), "what the disk has is not known");
    map.apply(Op::Insert(101, 1));
    map.medium.close();
    assert_eq!(after_a_loss(&disk), model);
    map.medium.write_back();
    let (medium, origin) = Copied::open(&disk, 1).unwrap();
    assert_eq!(origin, Origin::Killed);
    let map = <Map<Copied> as OnDisk>::open(medium);
    assert_eq!(map.contents().len(), 42);
    map.medium.sync().unwrap();
    assert_eq!(after_a_loss(&disk).len(), 42);
}

#[test]
fn a_working_copy_that_is_no_map_does_not_become_the_checkpoint() {
    let (disk, map, model) = some(40);
    map.medium.sync().unwrap();
    // A root that leads nowhere.
    let mut image = disk.image();
    image[WORK] = bytes_of(&map.medium.work.image());
    image[WORK][64..72].fill(0xff);
    let disk = Disk::of(image);
    let (medium, _) = Copied::open(&disk, 1).unwrap();
    medium.checkpoints.close(&medium);
    assert_eq!(after_a_loss(&disk), model);
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let (disk, map, _) = some(10);
    let first = disk.image();
    map.medium.sync().unwrap();
    map.apply(Op::Insert(100, 1));
    map.medium.sync().unwrap();
    let second = disk.image();
    let is_refused = |files: Image| {
        let opened = Copied::open(&Disk::of(files), 2);
        assert_eq!(opened.err().map(|error| error.kind()), Some(std::io::ErrorKind::InvalidData));
    };
    // The file of an earlier time, and the journal of one.
    is_refused(vec![first[FILE].clone(), second[JOURNAL].clone(), Vec::new()]);
    is_refused(vec![second[FILE].clone(), first[JOURNAL].clone(), Vec::new()]);
    is_refused(vec![second[FILE].clone(), vec![0; 4096], Vec::new()]);
    is_refused(vec![second[FILE].clone(), Vec::new(), Vec::new()]);
    let mut journal = second[JOURNAL].clone();
    journal[8] ^= 1;
    is_refused(vec![second[FILE].clone(), journal, Vec::new()]);
}

#[test]
fn a_journal_of_any_bytes_is_refused_or_leaves_a_checkpoint() {
    let (disk, map, before) = some(30);
    map.medium.sync().unwrap();
    let safe = disk.image();
    map.apply(Op::Insert(100, 1));
    let mut after = before.clone();
    after.insert(100, 1);
    map.medium.sync().unwrap();
    let image = disk.image();
    let mut opened = 0;
    let mut open = |journal: Vec<u8>| {
        // The file may have none of the lines of the group, but has them if it has the number.
        for file in [&safe[FILE], &image[FILE]] {
            let disk = Disk::of(vec![file.clone(), journal.clone(), Vec::new()]);
            if let Ok((medium, _)) = Copied::open(&disk, 2) {
                let found = <Map<Copied> as OnDisk>::open(medium).contents();
                assert!(found == before || found == after);
                opened += 1;
            }
        }
    };
    for at in 0..image[JOURNAL].len() {
        for change in [1, 0x80, 0xff] {
            let mut journal = image[JOURNAL].clone();
            journal[at] ^= change;
            open(journal);
        }
        open(image[JOURNAL][..at].to_vec());
    }
    assert!(opened > 0);
}
