//! File descriptors that are reserved for the data directory.
//!
//! They are taken when the directory is opened, and hold the directory itself. If the process or the
//! system may open no more files, one of them is closed to open the file that is needed. The pool is
//! filled again when descriptors are available. So connections that use up the limit do not keep the
//! store from its files.

use std::{fs::File, io, path::Path};

use parking_lot::Mutex;
use rustix::io::Errno;

/// Number of reserved descriptors: for the files of some rolls, a checkpoint and a rewrite.
pub(super) const KEPT: usize = 64;

/// The reserved descriptors.
#[derive(Debug, Default)]
pub(super) struct DescriptorPool(pub(super) Mutex<Vec<File>>);

impl DescriptorPool {
    /// Takes descriptors up to [`KEPT`]; fewer are not an error.
    pub(super) fn fill(&self, root: &Path) {
        let mut kept = self.0.lock();
        while kept.len() < KEPT
            && let Ok(file) = File::open(root)
        {
            kept.push(file);
        }
    }

    /// Opens a file. If no descriptor is available, closes a reserved one and tries again.
    pub(super) fn open<T>(
        &self,
        root: &Path,
        mut open: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match open() {
                Err(error) if is_shortage(&error) => {
                    let Some(released) = self.0.lock().pop() else {
                        return Err(error);
                    };
                    drop(released);
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
}

pub(super) fn is_shortage(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}
