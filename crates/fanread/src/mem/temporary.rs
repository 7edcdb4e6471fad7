//! Files that are there only while they are written: under a name that nobody else has, or under none at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use super::file::{FileBytes, FileError};

/// How many names are tried. Taken ones are those of other files that this process is writing in the same folder, and of
/// processes of the same number that were ended while they wrote.
const NAMES: u32 = 10_000;

/// A new file beside another one, in whose place it can be put. It is gone with the value otherwise.
#[derive(Debug)]
pub(crate) struct Replacement {
    file: File,
    path: PathBuf,
    is_in_place: bool,
}

impl Replacement {
    /// Makes an empty file beside `path`.
    pub(crate) fn create_beside(path: &Path) -> io::Result<Self> {
        let (file, path) = create(path, OpenOptions::new().write(true))?;
        Ok(Self { file, path, is_in_place: false })
    }

    /// Returns the file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Puts the file in the place of what is at `path`.
    pub(crate) fn put(mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.is_in_place = true;
        Ok(())
    }
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
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
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
                made.put(&path).unwrap();
            } else {
                drop(made);
            }
            assert!(!beside.exists());
            assert_eq!(fs::read(&path).unwrap(), found);
        }
        fs::remove_file(path).unwrap();
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
