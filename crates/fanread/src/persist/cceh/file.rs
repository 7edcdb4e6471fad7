//! The files of a map: one, or with checkpoints three.
//!
//! ```text
//! map             the map; with checkpoints, as it was at the last one
//! map.journal     the last checkpoint (`medium/journal.rs`)
//! map.work        the working copy (`medium/checkpoint.rs`)
//! ```
//!
//! The first two are locked by whoever has the map open. That a map has checkpoints is in its header, in words that are
//! zero without.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::CcehError;
use super::layout::{CHECKSUM_AT, HOME_AT, HOME_MARK};
use crate::mem::temporary::{create, sync_folder};
use crate::persist::medium::{
    Boot, Checkpoints, Durability, Home, Mapped, Storage, WordAt, boot, fill,
};

/// A file beside that of a map.
fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(what);
    name.into()
}

fn word_of(file: &File, at: WordAt) -> io::Result<u64> {
    let mut word = [0; 8];
    Storage::read(file, at.0 as u64 * 8, &mut word)?;
    Ok(u64::from_le_bytes(word))
}

/// Makes a map in a new file, by `make` in an empty one, and if it is to have checkpoints, by `open` anew.
pub(super) fn make<T>(
    path: &Path,
    has_checkpoints: bool,
    make: impl FnOnce(Mapped) -> Result<T, CcehError>,
    open: impl FnOnce(Mapped) -> Result<T, CcehError>,
) -> Result<T, CcehError> {
    let (file, temporary) = create(path, OpenOptions::new().read(true).write(true))?;
    let made = || {
        let file = owned(file)?;
        let medium = Mapped::file(file.try_clone()?)?;
        let is_durable = medium.durability() == Durability::Persistent;
        let map = make(medium)?;
        if !has_checkpoints {
            name(&temporary, path, is_durable)?;
            return Ok(map);
        }
        drop(map);
        // The map has given it up.
        make_copied(path, &temporary, owned(file)?, open)
    };
    let made = made();
    // Nothing else can be done about a name that stays.
    let _ = fs::remove_file(&temporary);
    made
}

/// Gives a file, which is whole, its name. It has no other one if that fails.
fn name(temporary: &Path, path: &Path, is_durable: bool) -> io::Result<()> {
    fs::hard_link(temporary, path)?;
    let synced = if is_durable { sync_folder(path) } else { Ok(()) };
    if synced.is_err() {
        let _ = fs::remove_file(path);
    }
    synced
}

fn is_new(path: &Path) -> io::Result<()> {
    if path.try_exists()? { Err(io::ErrorKind::AlreadyExists.into()) } else { Ok(()) }
}

/// Makes the other files of a map, opens it, and gives it its name.
fn make_copied<T>(
    path: &Path,
    temporary: &Path,
    file: File,
    open: impl FnOnce(Mapped) -> Result<T, CcehError>,
) -> Result<T, CcehError> {
    is_new(path)?;
    file.write(HOME_AT.0 as u64 * 8, &HOME_MARK.to_le_bytes())?;
    file.sync()?;
    let names = [".journal", ".work"].map(|what| beside(path, what));
    let (journal, work) = take_others(path, &names)?;
    let held = journal.try_clone()?;
    let made = || {
        // In this order: while the working copy has anything, the journal is that of its map (`is_left`).
        work.set_len(0)?;
        journal.set_len(0)?;
        Checkpoints::format(journal.try_clone()?, home(&file)?)?;
        let map = open(copy([file, journal, work], boot()?)?)?;
        name(temporary, path, true)?;
        Ok(map)
    };
    let made = made();
    if made.is_err() {
        // They are nobody's, unless somebody else has the journal by now, or had it, and there is a map.
        let held = owned(held);
        if held.is_ok() && is_new(path).is_ok() {
            let _ = names.iter().try_for_each(fs::remove_file);
        }
    }
    made
}

/// Opens the other files of a map that is to be made: new ones, or those of a map that is no more.
fn take_others(path: &Path, names: &[PathBuf; 2]) -> Result<(File, File), CcehError> {
    // Whoever has the journal of that name has a map there, or is making one.
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let journal = owned(options.open(&names[0])?)?;
    is_new(path)?;
    let is_empty = journal.bytes()? == 0;
    let left = Checkpoints::journal_of(&journal)?;
    if !is_empty && left.is_none() {
        return Err(foreign(&names[0]));
    }
    let taken = || {
        let work = options.open(&names[1])?;
        if work.bytes()? == 0 || is_left(&work, left)? { Ok(work) } else { Err(foreign(&names[1])) }
    };
    match taken() {
        Ok(work) => Ok((journal, work)),
        Err(error) => {
            if is_empty {
                let _ = fs::remove_file(&names[0]);
            }
            Err(error)
        }
    }
}

/// Whether a file is the working copy of a map of which somebody has the journal.
fn is_left(file: &File, journal_of: Option<u64>) -> io::Result<bool> {
    Ok(has_home(file)? && journal_of == Some(word_of(file, CHECKSUM_AT)?))
}

/// Whether a file says that it has checkpoints.
fn has_home(file: &File) -> io::Result<bool> {
    Ok(file.bytes()? >= HOME_AT.0 as u64 * 8 + 8 && word_of(file, HOME_AT)? == HOME_MARK)
}

fn foreign(path: &Path) -> CcehError {
    let text = format!("{} is in the way, and is not of a map", path.display());
    io::Error::new(io::ErrorKind::AlreadyExists, text).into()
}

/// Opens the files of a map.
pub(super) fn open(path: &Path) -> Result<Mapped, CcehError> {
    open_at(path, boot)
}

pub(super) fn open_at(
    path: &Path,
    boot: impl FnOnce() -> io::Result<Boot>,
) -> Result<Mapped, CcehError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let file = owned(options.open(path)?)?;
    let bytes = Storage::bytes(&file)?;
    if !has_home(&file)? {
        return Ok(Mapped::file(file)?);
    }
    let journal = owned(open_journal(&options, path)?)?;
    // Before a file is made, or has more blocks, for what is refused.
    if Checkpoints::journal_of(&journal)? != Some(home(&file)?.identity) {
        return Err(CcehError::Journal);
    }
    fill(&file, bytes)?;
    let work = options.create(true).truncate(false).open(beside(path, ".work"))?;
    copy([file, journal, work], boot()?)
}

/// Opens the journal of a map. That it is missing is told with its name, or it would be the map that seems to be.
fn open_journal(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let path = beside(path, ".journal");
    options.open(&path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            io::Error::new(e.kind(), format!("{} is missing", path.display()))
        }
        _ => e,
    })
}

/// The working copy of a map that has checkpoints.
fn copy(files: [File; 3], boot: Boot) -> Result<Mapped, CcehError> {
    let mapped = files[2].try_clone()?;
    let home = home(&files[0])?;
    let is_foreign = |error: &io::Error| error.kind() == io::ErrorKind::InvalidData;
    match Checkpoints::open(files, home, boot) {
        Ok((checkpoints, origin)) => Ok(Mapped::copy(mapped, checkpoints, origin)?),
        Err(error) if is_foreign(&error) => Err(CcehError::Journal),
        Err(error) => Err(error.into()),
    }
}

/// Opens what a medium has by `open`, which then is a map.
pub(super) fn opened<T>(
    medium: Mapped,
    open: impl FnOnce(Mapped) -> Result<T, CcehError>,
    medium_of: impl FnOnce(&T) -> &Mapped,
) -> Result<T, CcehError> {
    let was_killed = medium.was_killed();
    match open(medium) {
        Ok(map) => {
            medium_of(&map).confirm();
            Ok(map)
        }
        Err(
            error @ (CcehError::NotAMap { .. }
            | CcehError::Checksum { .. }
            | CcehError::Damaged { .. }),
        ) if was_killed => Err(CcehError::WorkingCopy(Box::new(error))),
        Err(error) => Err(error),
    }
}

fn home(file: &File) -> io::Result<Home> {
    Ok(Home { identity: word_of(file, CHECKSUM_AT)?, line: HOME_AT.line(), mark: HOME_MARK })
}

/// Makes a file this map's alone, until that is [released](Storage::release).
fn owned(file: File) -> Result<File, CcehError> {
    use rustix::fs::{FlockOperation, flock};
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from)?;
    Ok(file)
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_is_closed_is_anybodys_though_a_copy_of_its_handle_lives() {
        let path = std::env::temp_dir().join(format!("fanread-released-{}", std::process::id()));
        let again = || owned(OpenOptions::new().read(true).write(true).open(&path).unwrap());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = owned(options.open(&path).unwrap()).unwrap();
        // As a process has it that another thread has just started.
        let copy = file.try_clone().unwrap();
        let medium = Mapped::file(file).unwrap();
        assert!(
            matches!(again(), Err(CcehError::Io(why)) if why.kind() == io::ErrorKind::WouldBlock)
        );
        drop(medium);
        assert!(again().is_ok());
        drop(copy);
        fs::remove_file(&path).unwrap();
    }
}
