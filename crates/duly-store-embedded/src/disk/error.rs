//! Errors of a disk, by cause, with the name and the operation.
//!
//! Both disks build them. The engine turns them into replies, and into the one line that a server prints
//! when it refuses to start. So each message says what to do.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// The operation that failed with an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creating a file.
    Create,
    /// Opening a file or a data directory.
    Open,
    /// Listing a directory.
    List,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Making a directory.
    MakeDir,
    /// Making the names in a directory durable.
    SyncDir,
    /// Asking for free space.
    Space,
    /// Taking the exclusive lock.
    Lock,
    /// Reading from a file.
    Read,
    /// Writing to a file.
    Write,
    /// Making a file durable.
    Sync,
    /// Asking for a file's length.
    Length,
    /// Changing a file's length.
    SetLength,
    /// Deallocating space within a file.
    PunchHole,
    /// Starting to write a file back.
    WriteBack,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Open => "open",
            Self::List => "list",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::MakeDir => "make directory",
            Self::SyncDir => "sync directory",
            Self::Space => "get the free space of",
            Self::Lock => "lock",
            Self::Read => "read",
            Self::Write => "write to",
            Self::Sync => "sync",
            Self::Length => "get the length of",
            Self::SetLength => "change the length of",
            Self::PunchHole => "punch a hole into",
            Self::WriteBack => "write back",
        })
    }
}

/// The result of a disk operation.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason that a disk refused or failed. `name` is the file or directory as messages show it: with
/// the data directory in front, if the disk knows one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such file, or its directory is missing.
    #[error("cannot {operation} {name}: it does not exist")]
    NotFound {
        /// The operation.
        operation: Operation,
        /// The file or directory.
        name: String,
    },

    /// A file to be created exists already.
    #[error("cannot {operation} {name}: it exists already")]
    AlreadyExists {
        /// The operation.
        operation: Operation,
        /// The file.
        name: String,
    },

    /// The user that runs this process lacks a permission.
    #[error(
        "data directory {directory} is not writable by uid {uid} (cannot {operation} {name}): \
         give the user that runs duly write access, or pass another --data"
    )]
    PermissionDenied {
        /// The operation.
        operation: Operation,
        /// The data directory.
        directory: String,
        /// The file or directory in it.
        name: String,
        /// The effective user of this process.
        uid: u32,
    },

    /// The file system is mounted read-only, or the directory was opened only to read it.
    #[error(
        "data directory {directory} is read-only (cannot {operation} {name}): \
         remount it for writing, or pass another --data"
    )]
    ReadOnly {
        /// The operation.
        operation: Operation,
        /// The data directory.
        directory: String,
        /// The file or directory in it.
        name: String,
    },

    /// The path that was given as data directory is something else.
    #[error("{path} is not a directory: pass another --data")]
    NotADirectory {
        /// The path.
        path: String,
    },

    /// A name is a symbolic link, a FIFO or a device, or a directory in place of a file.
    #[error(
        "cannot {operation} {name}: it is a symbolic link, or not of the kind that belongs there; Duly \
         follows no links and reads no FIFOs or devices: put the file or directory itself there"
    )]
    NotPlain {
        /// The operation.
        operation: Operation,
        /// The file or directory.
        name: String,
    },

    /// The file system, or this user's quota on it, is full.
    #[error("cannot {operation} {name}: no space left; free some, or move the data directory")]
    NoSpace {
        /// The operation.
        operation: Operation,
        /// The file or directory.
        name: String,
    },

    /// This process, or the whole system, may not open more files.
    #[error(
        "cannot {operation} {name}: too many files are open; raise the limit (ulimit -n, \
         LimitNOFILE of the unit) and try again"
    )]
    TooManyFiles {
        /// The operation.
        operation: Operation,
        /// The file or directory.
        name: String,
    },

    /// Another process serves this data directory.
    #[error(
        "data directory {path} is in use by {}: stop that one, or pass another --data",
        holder(*.holder_pid)
    )]
    Locked {
        /// The data directory.
        path: String,
        /// Process id of the holder of the lock, if it could be read.
        holder_pid: Option<u32>,
    },

    /// A file is shorter than its contents should be.
    #[error(
        "{name} ends early: {wanted_bytes} bytes wanted at offset {offset}, {read_bytes} there"
    )]
    UnexpectedEnd {
        /// The file.
        name: String,
        /// Offset of the read.
        offset: u64,
        /// Bytes asked for.
        wanted_bytes: usize,
        /// Bytes that there were.
        read_bytes: usize,
    },

    /// A name that is empty, absolute, or more than one level deep: an error in the caller.
    #[error("{name:?} is not a name within a data directory")]
    InvalidName {
        /// The name.
        name: String,
    },

    /// Any other error of the operating system.
    #[error("cannot {operation} {name}: {source}")]
    Io {
        /// The operation.
        operation: Operation,
        /// The file or directory.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl Error {
    /// Returns `true` if there was no space and nothing is lost: freeing space and trying again helps. A
    /// sync or write-back that found no space is not such a case, because it is unknown what it left
    /// undone.
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::NoSpace { operation, .. } => {
                !matches!(operation, Operation::Sync | Operation::SyncDir | Operation::WriteBack)
            }
            _ => false,
        }
    }

    /// Returns `true` if the file or directory did not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Returns `true` if this process lacks a resource (file descriptors, memory). The data on the disk
    /// may be intact.
    pub fn is_shortage(&self) -> bool {
        match self {
            Self::TooManyFiles { .. } => true,
            Self::Io { source, .. } => source.kind() == io::ErrorKind::OutOfMemory,
            _ => false,
        }
    }

    /// Returns `true` if the same operation can succeed later without an operator: the operating system
    /// refused it for a cause that may pass.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Io { source, .. } => source.raw_os_error().is_some(),
            Self::NoSpace { .. } | Self::TooManyFiles { .. } => true,
            _ => false,
        }
    }

    /// Makes an error that the operating system did not report.
    pub(crate) fn other(operation: Operation, name: &str, what: &str) -> Self {
        Self::Io { operation, name: name.to_owned(), source: io::Error::other(what) }
    }

    /// Sorts an error of the operating system by cause.
    pub(super) fn from_io(at: At<'_>, source: io::Error) -> Self {
        let At { operation, directory, name } = at;
        let name =
            if name.is_empty() { directory.to_owned() } else { format!("{directory}/{name}") };
        let directory = directory.to_owned();
        match Errno::from_io_error(&source) {
            Some(Errno::MFILE | Errno::NFILE) => return Self::TooManyFiles { operation, name },
            // A symbolic link, a directory, and a socket.
            Some(Errno::LOOP | Errno::ISDIR | Errno::NXIO) if operation == Operation::Open => {
                return Self::NotPlain { operation, name };
            }
            _ => {}
        }
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { operation, name },
            io::ErrorKind::AlreadyExists => Self::AlreadyExists { operation, name },
            io::ErrorKind::PermissionDenied => {
                let uid = rustix::process::geteuid().as_raw();
                Self::PermissionDenied { operation, directory, name, uid }
            }
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { operation, directory, name },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { operation, name }
            }
            _ => Self::Io { operation, name, source },
        }
    }
}

/// Operation, data directory and name of an error.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    pub(super) operation: Operation,
    pub(super) directory: &'a str,
    /// `""` is the data directory itself.
    pub(super) name: &'a str,
}

fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests;
