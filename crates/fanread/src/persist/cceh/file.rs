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
use crate::mem::temporary::create;
use crate::persist::medium::{Boot, Checkpoints, Home, Mapped, Storage, WordAt, boot};

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
        let map = make(Mapped::file(file.try_clone()?)?)?;
        if !has_checkpoints {
            // Under its name it is whole, whenever the process ends.
            fs::hard_link(&temporary, path)?;
            return Ok(map);
        }
        drop(map);
        // The map has given it up.
        open(copy(make_others(path, &temporary, owned(file)?)?, boot()?)?)
    };
    let made = made();
    // Nothing else can be done about a name that stays.
    let _ = fs::remove_file(&temporary);
    made
}

fn is_new(path: &Path) -> io::Result<()> {
    if path.try_exists()? { Err(io::ErrorKind::AlreadyExists.into()) } else { Ok(()) }
}

/// Makes the other files of a map, and gives it its name.
fn make_others(path: &Path, temporary: &Path, file: File) -> Result<[File; 3], CcehError> {
    is_new(path)?;
    file.write(HOME_AT.0 as u64 * 8, &HOME_MARK.to_le_bytes())?;
    file.sync()?;
    let names = [".journal", ".work"].map(|what| beside(path, what));
    // Whoever has the journal of that name has a map there, or is making one.
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let journal = owned(options.open(&names[0])?)?;
    is_new(path)?;
    let mut made = || {
        journal.set_len(0)?;
        Checkpoints::format(journal.try_clone()?, home(&file)?)?;
        let work = options.truncate(true).open(&names[1])?;
        fs::hard_link(temporary, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(work)
    };
    match made() {
        Ok(work) => Ok([file, journal, work]),
        Err(error) => {
            if !path.exists() {
                // They are nobody's.
                let _ = names.iter().try_for_each(fs::remove_file);
            }
            Err(error)
        }
    }
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
    if bytes <= HOME_AT.0 as u64 * 8 || word_of(&file, HOME_AT)? != HOME_MARK {
        return Ok(Mapped::file(file)?);
    }
    let journal = owned(options.open(beside(path, ".journal"))?)?;
    let work = options.create(true).truncate(false).open(beside(path, ".work"))?;
    copy([file, journal, work], boot()?)
}

/// The working copy of a map that has checkpoints.
fn copy(files: [File; 3], boot: Boot) -> Result<Mapped, CcehError> {
    let mapped = files[2].try_clone()?;
    let home = home(&files[0])?;
    let is_foreign = |error: &io::Error| error.kind() == io::ErrorKind::InvalidData;
    match Checkpoints::open(files, home, boot) {
        Ok((checkpoints, _)) => Ok(Mapped::copy(mapped, checkpoints)?),
        Err(error) if is_foreign(&error) => Err(CcehError::Journal),
        Err(error) => Err(error.into()),
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
