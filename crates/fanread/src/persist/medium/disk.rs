//! A disk that loses power: of what was written to its files since their last `sync`, each sector is there or not, in any of its
//! states, and so is their length.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::sync::{Arc, Mutex};
use std::{fmt, io};

use super::journal::SECTOR;
use super::sim::each_choice;
use super::storage::Storage;
use crate::hash::mix::stream;

/// Something that happened to a file of the disk, or what a test noted.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// Sectors from one on, which are now this.
    Write(usize, usize, Vec<u8>),
    Length(usize, u64),
    Sync(usize),
    Note(usize),
}

/// A place in the code that writes, or that waits for the disk.
pub(crate) type Site = (bool, &'static Location<'static>);

/// Something that is wrong with the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// What a place does is left out.
    Missing(Site),
    /// What a place waits for is waited for after what is done next.
    Late(Site),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, (waits, place)) = match self {
            Self::Missing(site) => ("missing", site),
            Self::Late(site) => ("late", site),
        };
        let kind = if *waits { "wait" } else { "write" };
        write!(f, "{what} {kind} at {}:{}", place.file(), place.line())
    }
}

/// What is on a disk: its files.
pub(crate) type Image = Vec<Vec<u8>>;

#[derive(Debug, Default)]
struct Log {
    files: Image,
    events: Vec<Event>,
    sites: BTreeSet<Site>,
    fault: Option<Fault>,
    late: Option<Event>,
    /// Whether there is no more room.
    is_full: bool,
    /// Whether nothing can be written.
    is_broken: bool,
}

/// The disk; see the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<Log>>);

/// A file of it.
#[derive(Clone, Debug)]
pub(crate) struct DiskFile {
    disk: Disk,
    number: usize,
}

/// What was never written.
fn junk(at: usize) -> u8 {
    (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[7]
}

/// Cuts a file, or makes it longer by what was never written.
pub(crate) fn resize(file: &mut Vec<u8>, bytes: usize) {
    let now = file.len();
    file.truncate(bytes);
    file.extend((now..bytes.max(now)).map(junk));
}

impl Disk {
    pub(crate) fn of(files: Image) -> Self {
        Self(Arc::new(Mutex::new(Log { files, ..Log::default() })))
    }

    pub(crate) fn file(&self, number: usize) -> DiskFile {
        DiskFile { disk: self.clone(), number }
    }

    /// A file as a process sees it.
    pub(crate) fn bytes(&self, number: usize) -> Vec<u8> {
        self.0.lock().unwrap().files[number].clone()
    }

    /// What a process sees.
    pub(crate) fn image(&self) -> Image {
        self.0.lock().unwrap().files.clone()
    }

    pub(crate) fn note(&self, what: usize) {
        self.0.lock().unwrap().events.push(Event::Note(what));
    }

    pub(crate) fn plant(&self, fault: Option<Fault>) {
        self.0.lock().unwrap().fault = fault;
    }

    /// Refuses to be written to and to wait from now on, or no longer.
    pub(crate) fn set_broken(&self, is_broken: bool) {
        self.0.lock().unwrap().is_broken = is_broken;
    }

    /// Refuses to give more room from now on, or no longer.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.0.lock().unwrap().is_full = is_full;
    }

    pub(crate) fn sites(&self) -> BTreeSet<Site> {
        self.0.lock().unwrap().sites.clone()
    }

    /// Takes the record.
    pub(crate) fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().unwrap().events)
    }
}

impl Log {
    /// Whether something happens at all; it is recorded then.
    fn happens(&mut self, site: Site) -> io::Result<bool> {
        if self.is_broken {
            return Err(io::ErrorKind::Other.into());
        }
        self.sites.insert(site);
        Ok(self.fault != Some(Fault::Missing(site)))
    }
}

impl Storage for DiskFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().unwrap().files[self.number].len() as u64)
    }

    fn read(&self, at: u64, room: &mut [u8]) -> io::Result<()> {
        let log = self.disk.0.lock().unwrap();
        let found = log.files[self.number].get(at as usize..at as usize + room.len());
        room.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    #[track_caller]
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let end = at as usize + bytes.len();
        let mut log = self.disk.0.lock().unwrap();
        if !log.happens((false, Location::caller()))? {
            return Ok(());
        }
        if end > log.files[self.number].len() {
            resize(&mut log.files[self.number], end);
            log.events.push(Event::Length(self.number, end as u64));
        }
        log.files[self.number][at as usize..end].copy_from_slice(bytes);
        let first = at as usize / SECTOR;
        let file = &log.files[self.number];
        let now = file[first * SECTOR..file.len().min(end.next_multiple_of(SECTOR))].to_vec();
        log.events.push(Event::Write(self.number, first, now));
        let late = log.late.take();
        log.events.extend(late);
        Ok(())
    }

    fn grow(&self, bytes: u64) -> io::Result<()> {
        let mut log = self.disk.0.lock().unwrap();
        if bytes as usize > log.files[self.number].len() {
            if log.is_full {
                return Err(io::ErrorKind::StorageFull.into());
            }
            resize(&mut log.files[self.number], bytes as usize);
            log.events.push(Event::Length(self.number, bytes));
        }
        Ok(())
    }

    #[track_caller]
    fn sync(&self) -> io::Result<()> {
        let mut log = self.disk.0.lock().unwrap();
        let site = (true, Location::caller());
        let event = Event::Sync(self.number);
        if log.happens(site)? {
            if log.fault == Some(Fault::Late(site)) && log.late.is_none() {
                log.late = Some(event);
            } else {
                log.events.push(event);
            }
        }
        Ok(())
    }

    fn copy(&self, from: &Self) -> io::Result<()> {
        let bytes = from.disk.bytes(from.number);
        {
            let mut log = self.disk.0.lock().unwrap();
            log.files[self.number].clear();
            log.events.push(Event::Length(self.number, 0));
        }
        self.write(0, &bytes)
    }
}

/// What a loss of power at some moment of a record may leave.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    durable: Image,
    /// Of each file, lengths and sectors since its last `sync`.
    lengths: Vec<Vec<u64>>,
    sectors: Vec<BTreeMap<usize, Vec<Vec<u8>>>>,
}

impl Replay {
    /// Starts with files that are safe.
    pub(crate) fn new(durable: Image) -> Self {
        let count = durable.len();
        Self { durable, lengths: vec![Vec::new(); count], sectors: vec![BTreeMap::new(); count] }
    }

    /// Goes on by one event.
    pub(crate) fn step(&mut self, event: &Event) {
        match event {
            Event::Write(file, first, bytes) => {
                for (sector, bytes) in (*first..).zip(bytes.chunks(SECTOR)) {
                    self.sectors[*file].entry(sector).or_default().push(bytes.to_vec());
                }
            }
            Event::Length(file, bytes) => self.lengths[*file].push(*bytes),
            Event::Sync(file) => {
                if let Some(bytes) = self.lengths[*file].drain(..).next_back() {
                    resize(&mut self.durable[*file], bytes as usize);
                }
                for (sector, states) in std::mem::take(&mut self.sectors[*file]) {
                    if let Some(bytes) = states.last() {
                        put(&mut self.durable[*file], sector, bytes);
                    }
                }
            }
            Event::Note(_) => {}
        }
    }

    /// Calls `f` with what a loss of power now may leave, as [`each_choice`] picks it, and as often at random if that is not all.
    pub(crate) fn images(&self, limit: usize, seed: u64, mut f: impl FnMut(&Image)) {
        let mut options = Vec::new();
        for (lengths, sectors) in self.lengths.iter().zip(&self.sectors) {
            options.push(lengths.len() + 1);
            options.extend(sectors.values().map(|states| states.len() + 1));
        }
        let mut show = |picks: &[usize]| {
            let mut picks = picks.iter().map(|pick| pick.checked_sub(1));
            let mut image = self.durable.clone();
            for (file, (lengths, sectors)) in
                image.iter_mut().zip(self.lengths.iter().zip(&self.sectors))
            {
                if let Some(pick) = picks.next().flatten() {
                    resize(file, lengths[pick] as usize);
                }
                for (sector, states) in sectors {
                    if let Some(pick) = picks.next().flatten() {
                        put(file, *sector, &states[pick]);
                    }
                }
            }
            f(&image);
        };
        each_choice(&options, limit, seed, &mut show);
        let count = options.iter().try_fold(1_usize, |n, options| n.checked_mul(*options));
        if count.is_none_or(|count| count > limit) {
            for n in 0..limit as u64 {
                // Every other time half of all are as they were last.
                let pick = |(at, options): (u64, &usize)| {
                    let random = stream(seed ^ n << 32, at) as usize;
                    if n % 2 == 1 && random >> 63 == 1 { options - 1 } else { random % options }
                };
                show(&(0..).zip(&options).map(pick).collect::<Vec<_>>());
            }
        }
    }
}

/// Writes a sector, as far as the file goes.
fn put(file: &mut [u8], sector: usize, bytes: &[u8]) {
    let at = file.len().min(sector * SECTOR);
    for (to, from) in file[at..].iter_mut().zip(bytes) {
        *to = *from;
    }
}

#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_waited_for_is_there_or_not_sector_by_sector() {
        let disk = Disk::of(vec![vec![0; 2 * SECTOR]]);
        let file = disk.file(0);
        file.write(SECTOR as u64 - 1, &[1, 1]).unwrap();
        let mut replay = Replay::new(vec![vec![0; 2 * SECTOR]]);
        let states = |replay: &Replay| {
            let mut found = BTreeSet::new();
            replay.images(100, 1, |image| {
                found.insert((image[0].len(), image[0][SECTOR - 1], image[0][SECTOR]));
            });
            found.into_iter().collect::<Vec<_>>()
        };
        disk.take_events().iter().for_each(|event| replay.step(event));
        let both = 2 * SECTOR;
        assert_eq!(states(&replay), [(both, 0, 0), (both, 0, 1), (both, 1, 0), (both, 1, 1)]);
        file.sync().unwrap();
        file.write(2 * SECTOR as u64, &[7]).unwrap();
        disk.take_events().iter().for_each(|event| replay.step(event));
        assert_eq!(states(&replay), [(both, 1, 1), (both + 1, 1, 1)]);
    }
}
