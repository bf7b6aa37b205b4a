//! The file of the audit log: appended to, renamed at a size, and retried while it cannot be written.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;

use super::{
    Queued, SharedFault,
    drops::{DropReason, Line, Shares, dropped},
};

/// Lines of one write.
const BATCH: usize = 8_192;
/// Time in which lines are gathered before they are written.
const GATHER: Duration = Duration::from_millis(10);
/// Time between two looks for a file that another program has moved.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time until a failed write is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// The file with what has been written.
#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    file: File,
    /// `true`: a regular file, which is renamed at its size.
    is_rotated: bool,
    bytes_max: u64,
    files_max: usize,
    fault: SharedFault,
    looked_at: Instant,
    /// Of lines about calls that changed nothing.
    shares: Shares,
}

impl AuditFile {
    /// Opens the file to append to it. It is created for its owner alone.
    pub(super) fn open(
        path: PathBuf,
        bytes_max: u64,
        files_max: usize,
        fault: SharedFault,
    ) -> io::Result<Self> {
        let file = open(&path)?;
        let is_rotated = file.metadata()?.is_file() && !duly_tls::files::is_stream(&path);
        let looked_at = Instant::now();
        let shares = Shares::new();
        Ok(Self { path, file, is_rotated, bytes_max, files_max, fault, looked_at, shares })
    }

    /// Writes lines until the server ends.
    pub(super) fn run(mut self, mut lines: mpsc::Receiver<Queued<Line>>) {
        let mut batch = Vec::new();
        while lines.blocking_recv_many(&mut batch, BATCH) > 0 {
            sleep(GATHER);
            while batch.len() < BATCH
                && let Ok(message) = lines.try_recv()
            {
                batch.push(message);
            }
            let (mut text, mut flushed, mut left_out) = (Vec::new(), Vec::new(), 0);
            for message in batch.drain(..) {
                match message {
                    Queued::Item(line) if self.has_place_for(&line) => text.extend(line.text),
                    Queued::Item(_) => left_out += 1,
                    Queued::Flush(reply) => flushed.push(reply),
                }
            }
            dropped("file", DropReason::Share, left_out);
            while let Err(error) = self.write(&text) {
                if self.fault.write().replace(error.to_string()).is_none() {
                    tracing::error!(
                        file = %self.path.display(),
                        %error,
                        "audit log not written; it is tried again, and lines wait"
                    );
                }
                sleep(RETRY_AFTER);
                // The file may have been moved, or its disk replaced.
                if let Ok(file) = open(&self.path) {
                    self.file = file;
                }
            }
            if self.fault.write().take().is_some() {
                tracing::info!(file = %self.path.display(), "audit log written again");
            }
            for reply in flushed {
                // No one waits any more if the server has ended.
                let _unheard = reply.send(());
            }
        }
    }

    /// Returns `true` if a line may be written to the present file.
    fn has_place_for(&mut self, line: &Line) -> bool {
        !self.is_rotated || self.shares.admit(line, self.bytes_max)
    }

    /// Writes lines whole or not at all.
    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.looked_at.elapsed() >= LOOK_EVERY {
            self.looked_at = Instant::now();
            if self.is_rotated && !self.is_at_its_path()? {
                // Another program has moved it, and may have created the next one.
                self.file = open(&self.path)?;
                self.shares.reset();
            }
        }
        let mut bytes = self.file.metadata()?.len();
        if self.is_rotated && bytes > 0 && bytes + text.len() as u64 > self.bytes_max {
            match self.rotate() {
                Ok(()) => bytes = 0,
                Err(error) => tracing::warn!(
                    file = %self.path.display(),
                    %error,
                    "audit log not renamed at its size; lines are appended to it"
                ),
            }
        }
        let written = self.file.write_all(text);
        if written.is_err() && self.is_rotated {
            // A part of a line may be there.
            self.file.set_len(bytes)?;
        }
        written
    }

    /// Returns `true` if the open file is the one at its path.
    fn is_at_its_path(&self) -> io::Result<bool> {
        let own = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Renames the file and those before it, and begins a new one.
    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..self.files_max).rev() {
            let from =
                if number == 1 { self.path.clone() } else { numbered(&self.path, number - 1) };
            match fs::rename(from, numbered(&self.path, number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        if self.files_max == 1 {
            self.file.set_len(0)?;
        }
        self.file = open(&self.path)?;
        self.shares.reset();
        Ok(())
    }
}

/// Opens a file to append to it. It is created for its owner alone.
fn open(path: &Path) -> io::Result<File> {
    duly_tls::files::open_to_append(path, OpenOptions::new().mode(0o600))
}

/// Returns the name of an earlier file.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, process::Command};

    use super::*;

    #[test]
    fn a_pipe_a_folder_or_a_device_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
        symlink(path("pipe"), path("link")).unwrap();
        let paths = [path("pipe"), path("link"), path(""), PathBuf::from("/dev/full")];
        for path in paths {
            let fault = SharedFault::default();
            let error = AuditFile::open(path.clone(), 20, 3, fault).unwrap_err();
            assert!(error.to_string().contains("not a regular file"), "{path:?}: {error}");
        }
        assert!(!path("link").metadata().unwrap().is_file(), "the pipe is left as it is");
    }

    fn file(path: &Path, files_max: usize) -> AuditFile {
        let fault = SharedFault::default();
        AuditFile::open(path.to_owned(), 20, files_max, fault).unwrap()
    }

    #[test]
    fn files_are_renamed_at_their_size_and_the_oldest_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit");
        let mut log = file(&path, 3);
        for number in 0..5 {
            log.write(format!("line {number} of 15\n").as_bytes()).unwrap();
        }
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!(read(&path), "line 4 of 15\n");
        assert_eq!(read(&numbered(&path, 1)), "line 3 of 15\n");
        assert_eq!(read(&numbered(&path, 2)), "line 2 of 15\n");
        assert!(!numbered(&path, 3).exists());
        // A program that rotates logs moves the file, and may create the next one.
        for creates in [false, true] {
            fs::rename(&path, directory.path().join("moved")).unwrap();
            if creates {
                fs::write(&path, "").unwrap();
            }
            log.looked_at -= LOOK_EVERY;
            log.write(b"next\n").unwrap();
            assert_eq!(read(&path), "next\n", "{creates}");
            fs::remove_file(&path).unwrap();
            log.looked_at -= LOOK_EVERY;
            log.write(b"next\n").unwrap();
        }
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_cannot_be_renamed_grows() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit");
        let mut log = file(&path, 2);
        // A directory with the name of the earlier file, which is not empty.
        fs::create_dir_all(numbered(&path, 1).join("x")).unwrap();
        for number in 0..3 {
            log.write(format!("line {number} of 15\n").as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3);
    }

    #[test]
    fn one_file_begins_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit");
        let mut log = file(&path, 1);
        for number in 0..3 {
            log.write(format!("line {number} of 15\n").as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "line 2 of 15\n");
    }
}
