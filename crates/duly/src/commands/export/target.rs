//! The target of an export: stdout, or a file that appears only when it is complete.
//!
//! 1. The lines are written to a temporary file in the same directory. Only its owner can read it, since
//!    it contains secrets.
//! 2. When all bytes are on the disk, the temporary file is renamed.
//! 3. After a failure before the rename, the temporary file is removed. One that a killed export left is removed by the
//!    next export to the same file, and named by exports to others beside it; an export holds a lock on its own.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Read as _, Write},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::FlockOperation;

use crate::{Outcome, failure::Failure, output::warn};

/// Size of the write buffer.
const BUFFER_BYTES: usize = 256 * 1024;
/// The begin of each export.
const EXPORT_BEGIN: &[u8; 13] = br#"{"namespace":"#;

/// The target of lines.
pub(super) enum Target {
    /// Stdout.
    Stdout(BufWriter<io::Stdout>),
    /// A device or a pipe, such as `/dev/null`: it is no file that an export could replace.
    Device(BufWriter<File>, PathBuf),
    /// A file.
    File(Unfinished),
}

/// A file that is not complete yet.
pub(super) struct Unfinished {
    writer: BufWriter<File>,
    part: PathBuf,
    path: PathBuf,
    is_whole: bool,
}

impl Target {
    /// Opens the target; `-` is stdout, as is its path. A file that exists is refused unless `may_replace`.
    pub(super) fn open(path: &Path, may_replace: bool) -> Result<Self, Failure> {
        if ["-", "/dev/stdout", "/dev/fd/1"].iter().any(|stdout| path == Path::new(stdout)) {
            return Ok(Self::Stdout(BufWriter::with_capacity(BUFFER_BYTES, io::stdout())));
        }
        let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
            return Err(Failure::new(format_args!(
                "cannot write to {}: it is a directory; name a file, or `-` for stdout",
                path.display()
            )));
        };
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let device = OpenOptions::new().write(true).open(path);
            let device = device.map_err(|error| unwritable(path, &error))?;
            let writer = BufWriter::with_capacity(BUFFER_BYTES, device);
            return Ok(Self::Device(writer, path.to_owned()));
        }
        if !may_replace && fs::symlink_metadata(path).is_ok() {
            return Err(Failure::coded(
                "file_exists",
                format_args!(
                    "{} exists: name another file, or replace it with --force",
                    path.display()
                ),
            ));
        }
        handle_left_overs(path, name);
        let mut part = name.to_owned();
        part.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(part);
        let create = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part);
        let mut file = create().map_err(|error| unwritable(path, &error))?;
        // A file system without locks has no left-overs removed. Another export may have taken the file for one before it
        // was locked.
        is_locked(&file);
        if file.metadata().is_ok_and(|found| found.nlink() == 0) {
            file = create().map_err(|error| unwritable(path, &error))?;
            is_locked(&file);
        }
        let writer = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Self::File(Unfinished { writer, part, path: path.to_owned(), is_whole: false }))
    }

    /// Returns `true` for a file or a device: stdout is then free for the command's result.
    pub(super) fn is_file(&self) -> bool {
        !matches!(self, Self::Stdout(_))
    }

    /// Writes a line, without its line end.
    pub(super) fn line(&mut self, line: &[u8]) -> Outcome {
        match self {
            Self::Stdout(writer) => Ok(write(writer, line)?),
            Self::Device(writer, path) => {
                write(writer, line).map_err(|error| unwritable(path, &error))
            }
            Self::File(file) => {
                let path = &file.path;
                write(&mut file.writer, line).map_err(|error| unwritable(path, &error))
            }
        }
    }

    /// Completes the export.
    pub(super) fn finish(self) -> Outcome {
        match self {
            Self::Stdout(mut writer) => Ok(writer.flush()?),
            Self::Device(mut writer, path) => {
                writer.flush().map_err(|error| unwritable(&path, &error))
            }
            Self::File(mut file) => {
                let placed = file.place();
                placed.map_err(|error| unwritable(&file.path, &error))
            }
        }
    }
}

impl Unfinished {
    fn place(&mut self) -> io::Result<()> {
        self.writer.flush()?;
        self.writer.get_ref().sync_all()?;
        fs::rename(&self.part, &self.path)?;
        self.is_whole = true;
        // The new name is durable when its directory is synced.
        let directory = self.path.parent().filter(|parent| *parent != Path::new(""));
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// Removes the unfinished files of exports to this file that have ended: they hold secrets, and no other command would.
/// Names those of exports to other files of the directory, and those that cannot be removed.
fn handle_left_overs(path: &Path, name: &OsStr) {
    let directory = path.parent().filter(|parent| *parent != Path::new(""));
    let Ok(entries) = fs::read_dir(directory.unwrap_or(Path::new("."))) else { return };
    for entry in entries.flatten() {
        let found = entry.file_name();
        let Some(target) = target_of(found.as_encoded_bytes()) else { continue };
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let left = entry.path();
        // The lock is held until the file is gone.
        let Ok(mut file) = File::open(&left) else { continue };
        if !is_locked(&file) {
            continue;
        }
        let is_own = target == name.as_encoded_bytes();
        if is_own && fs::remove_file(&left).is_ok() {
            warn(&format!("{} is removed: an export that was killed left it", left.display()));
        } else if is_own || is_export(&mut file) {
            let left = left.display();
            warn(&format!(
                "an export that was killed left {left}, which contains secrets: remove it"
            ));
        }
    }
}

/// Returns the name of the target of an unfinished file.
fn target_of(name: &[u8]) -> Option<&[u8]> {
    let rest = name.strip_suffix(b".part")?;
    let dot = rest.iter().rposition(|byte| *byte == b'.')?;
    let (target, id) = (&rest[..dot], &rest[dot + 1..]);
    (!id.is_empty() && id.iter().all(u8::is_ascii_digit)).then_some(target)
}

/// Returns `true` if a file begins as an export does, whose first line has the settings of a namespace.
fn is_export(file: &mut File) -> bool {
    let mut first = [0; EXPORT_BEGIN.len()];
    file.read_exact(&mut first).is_ok() && first == *EXPORT_BEGIN
}

/// Locks a file; `false` if a running export has it.
fn is_locked(file: &File) -> bool {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_whole {
            fs::remove_file(&self.part).ok();
        }
    }
}

fn write(writer: &mut impl Write, line: &[u8]) -> io::Result<()> {
    writer.write_all(line)?;
    writer.write_all(b"\n")
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format_args!(
        "cannot write the export to {}: {error}; the unfinished file is removed",
        path.display()
    ))
}
