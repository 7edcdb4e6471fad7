//! Files that are there only while they are written: under a name that nobody else has, or under none at all. One that takes the place of
//! another goes where links lead, and has its permissions.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Deref;
#[cfg(unix)]
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::file::{FileBytes, FileError};

/// How many names are tried. Taken ones are those of other files that this process is writing in the same folder, and of
/// processes of the same number that were ended while they wrote.
const NAMES: u32 = 10_000;

/// Who may read, write and run a file, without what would make it run as its owner, who may be another one for the new file.
#[cfg(unix)]
const MODE_BITS: u32 = 0o777;

/// How many links lead from one to the next at most: what Linux follows itself.
const LINKS: u32 = 40;

/// A new file beside another one, in whose place it can be put. It is gone with the value otherwise.
#[derive(Debug)]
pub(crate) struct Replacement {
    file: File,
    /// Where it is as long as it is not in its place.
    path: PathBuf,
    place: PathBuf,
    is_in_place: bool,
}

impl Replacement {
    /// Makes an empty file for the place of `path`: beside what that names, which is the target if it is a link. The permissions are those of
    /// the file that is there; owner and group are those of this process.
    ///
    /// # Errors
    ///
    /// Those of the system, and one if something is there that is no regular file: a device or a folder has no other in its place.
    pub(crate) fn create_beside(path: &Path) -> io::Result<Self> {
        let place = target(path)?;
        let old = match fs::metadata(&place) {
            Ok(old) if !old.is_file() => {
                let what = "something is there that is no regular file";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
            }
            Ok(old) => Some(old),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        let mut options = OpenOptions::new();
        options.write(true);
        #[cfg(unix)]
        let mode = old.map(|old| old.permissions().mode() & MODE_BITS);
        #[cfg(unix)]
        if let Some(mode) = mode {
            // From the first moment nobody can open it who could not open the old one.
            options.mode(mode);
        }
        #[cfg(not(unix))]
        drop(old);
        let (file, path) = create(&place, &mut options)?;
        let new = Self { file, path, place, is_in_place: false };
        #[cfg(unix)]
        if let Some(mode) = mode {
            // What the process masks for new files, the old one may have all the same.
            new.file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        Ok(new)
    }

    /// Returns the file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Puts the file in its place, and lets its name survive a power cut. If only that fails it is in its place.
    pub(crate) fn put(mut self) -> io::Result<()> {
        fs::rename(&self.path, &self.place)?;
        self.is_in_place = true;
        sync_folder(&self.place)
    }
}

/// Returns what `path` names, which may not be there: the end of links that begin at it.
fn target(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&target) {
            // A path from the root takes the place of the folder.
            Ok(next) => target = target.parent().unwrap_or(Path::new("")).join(next),
            // No link, or nothing at all; what is wrong otherwise is wrong for whoever uses it as well.
            Err(_) => return Ok(target),
        }
    }
    let what = "too many links lead from one to the next";
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

impl Drop for Replacement {
    fn drop(&mut self) {
        // Once it is in place, somebody else may have a file of that name.
        if !self.is_in_place {
            // Nothing else can be done about a name that stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes a new file beside `path`, opened as `options` say. Its name is hidden, and short whatever that of `path` is.
pub(crate) fn create(path: &Path, options: &mut OpenOptions) -> io::Result<(File, PathBuf)> {
    if path.file_name().is_none() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for number in 0..NAMES {
        let name = format!(".fanread-{}-{number}.tmp", std::process::id());
        let beside = path.with_file_name(name);
        match options.create_new(true).open(&beside) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (file, beside)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Lets the name of the file at `path` survive a power cut, which is not said of the file's bytes. Elsewhere than on Unix
/// nothing is done: a folder cannot be opened there.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// A file without a name: it is gone with the value, however the process ends.
#[derive(Debug)]
pub(crate) struct Unnamed {
    file: File,
    bytes: u64,
}

/// The bytes of an [`Unnamed`] file, which cannot be written to meanwhile.
#[derive(Debug)]
pub(crate) struct Mapped<'a> {
    bytes: FileBytes,
    file: &'a Unnamed,
}

impl Unnamed {
    /// Makes an empty file in `folder`, which decides on which device its bytes are.
    pub(crate) fn create_in(folder: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        #[cfg(unix)]
        options.mode(0o600);
        let (file, path) = create(&folder.join("fanread"), &mut options)?;
        fs::remove_file(path)?;
        Ok(Self { file, bytes: 0 })
    }

    /// Returns the length of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes `bytes` behind all others; if that fails, the next ones come in their place.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_at(self.bytes, bytes)
    }

    /// Writes `bytes` from byte `at` on, which may be behind the end.
    pub(crate) fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(bytes)?;
        self.bytes = self.bytes.max(at + bytes.len() as u64);
        Ok(())
    }

    /// Reads as many bytes as there is room for, from byte `at` on.
    pub(crate) fn read_at(&mut self, at: u64, room: &mut [u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(room)
    }

    /// Maps all bytes.
    pub(crate) fn map(&self) -> Result<Mapped<'_>, FileError> {
        // SAFETY: nobody else can open the file, since it has no name, and this process writes to it by `&mut self`
        // only, which the borrow in the result excludes. A process that took the name before it was gone, or takes
        // another one's descriptors, has the rights of this one, and could write to its memory as well.
        let bytes = unsafe { FileBytes::map(&self.file) }?;
        Ok(Mapped { bytes, file: self })
    }
}

impl Deref for Mapped<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // A failed `append` may have left bytes behind the end.
        &self.bytes[..self.file.bytes as usize]
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn files_beside_one_path_have_names_of_their_own() {
        let path = std::env::temp_dir().join(format!("fanread-beside-{}", std::process::id()));
        let made: Vec<_> = (0..3).map(|_| Replacement::create_beside(&path).unwrap()).collect();
        let names: Vec<_> = made.iter().map(|made| made.path.clone()).collect();
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
        drop(made);
        assert!(names.iter().all(|name| !name.exists()));
    }

    #[test]
    fn the_longest_names_are_those_of_the_files_that_are_asked_for() {
        let path = std::env::temp_dir().join("n".repeat(255));
        let made = Replacement::create_beside(&path).unwrap();
        assert_eq!(made.path.parent(), path.parent());
        let none = Replacement::create_beside(Path::new("..")).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_replacement_has_one_name_at_a_time() {
        let path = std::env::temp_dir().join(format!("fanread-replaced-{}", std::process::id()));
        fs::write(&path, b"old").unwrap();
        for (is_put, found) in [(false, &b"old"[..]), (true, b"new")] {
            let made = Replacement::create_beside(&path).unwrap();
            let beside = made.path.clone();
            made.file().write_all(b"new").unwrap();
            if is_put {
                made.put().unwrap();
            } else {
                drop(made);
            }
            assert!(!beside.exists());
            assert_eq!(fs::read(&path).unwrap(), found);
        }
        fs::remove_file(path).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_replacement_is_beside_what_links_lead_to_and_as_private_as_the_old_file() {
        use std::os::unix::fs::symlink;

        let folder = std::env::temp_dir().join(format!("fanread-links-{}", std::process::id()));
        fs::create_dir_all(folder.join("there")).unwrap();
        let at = |name: &str| folder.join(name);
        symlink("there/second", at("first")).unwrap();
        symlink(at("there/file"), at("there/second")).unwrap();
        symlink("circle", at("circle")).unwrap();
        // There is no file at the end of the links at first.
        for (old_mode, new_mode) in
            [(None, None), (Some(0o600), Some(0o600)), (Some(0o4777), Some(0o777))]
        {
            if let Some(mode) = old_mode {
                fs::set_permissions(at("there/file"), fs::Permissions::from_mode(mode)).unwrap();
            }
            let made = Replacement::create_beside(&at("first")).unwrap();
            assert_eq!(made.path.parent(), Some(&*at("there")));
            if let Some(mode) = new_mode {
                assert_eq!(made.file.metadata().unwrap().permissions().mode() & 0o7777, mode);
            }
            made.put().unwrap();
            assert!(at("there/file").symlink_metadata().unwrap().is_file());
        }
        for wrong in ["circle", "there"] {
            let none = Replacement::create_beside(&at(wrong)).unwrap_err();
            assert_eq!(none.kind(), io::ErrorKind::InvalidInput, "{wrong}");
        }
        assert_eq!(fs::read_dir(at("there")).unwrap().count(), 2);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_folder_of_a_path_is_synced_if_there_is_one() {
        sync_folder(&std::env::temp_dir().join("fanread-any")).unwrap();
        sync_folder(Path::new("fanread-any")).unwrap();
        let missing = sync_folder(Path::new("/no/such/folder/fanread-any"));
        assert_eq!(missing.is_err(), cfg!(unix));
    }

    #[test]
    fn an_unnamed_file_is_in_no_folder_and_holds_what_was_written() {
        let folder = std::env::temp_dir().join(format!("fanread-unnamed-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let mut file = Unnamed::create_in(&folder).unwrap();
        // The folder goes, the file stays.
        fs::remove_dir(&folder).unwrap();
        file.append(b"abc").unwrap();
        file.append(b"def").unwrap();
        file.write_at(1, b"x").unwrap();
        assert_eq!(file.bytes(), 6);
        assert_eq!(&*file.map().unwrap(), b"axcdef");
        let mut room = [0; 3];
        file.read_at(2, &mut room).unwrap();
        assert_eq!(&room, b"cde");
        file.read_at(4, &mut room).unwrap_err();
        Unnamed::create_in(&folder).unwrap_err();
    }
}
