//! File descriptors that are kept for the data directory, whatever else the process opens.
//!
//! They are taken at the opening and hold the directory itself. Where the process, or the system, may
//! open no further file, one of them is given up for the file that is needed, and taken again when
//! there are some. So connections that use up the limit do not keep the store from its files.

use std::{fs::File, io, path::Path};

use parking_lot::Mutex;
use rustix::io::Errno;

/// How many are kept: for the files of some rolls, a checkpoint and a rewrite.
pub(super) const KEPT: usize = 64;

/// The descriptors.
#[derive(Debug, Default)]
pub(super) struct FilesKept(Mutex<Vec<File>>);

impl FilesKept {
    /// Takes as many as there may be; fewer are no error.
    pub(super) fn fill(&self, root: &Path) {
        let mut kept = self.0.lock();
        while kept.len() < KEPT
            && let Ok(file) = File::open(root)
        {
            kept.push(file);
        }
    }

    /// Opens a file, with the room of a kept one where there is no other.
    pub(super) fn open<T>(
        &self,
        root: &Path,
        mut open: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match open() {
                Err(error) if is_shortage(&error) => {
                    let Some(given_up) = self.0.lock().pop() else {
                        return Err(error);
                    };
                    drop(given_up);
                }
                opened => {
                    if opened.is_ok() && self.0.lock().len() < KEPT {
                        self.fill(root);
                    }
                    return opened;
                }
            }
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.lock().len()
    }
}

pub(super) fn is_shortage(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}
