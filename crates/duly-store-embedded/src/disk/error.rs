//! What can go wrong on a disk, by cause, with the name and the operation in hand.
//!
//! Both disks build these; the engine turns them into answers and into the one line that a person
//! sees when a server refuses to start. So each message says what to do.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// What was being done when an [`Error`] came up.
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
    /// Giving room within a file back.
    PunchHole,
    /// Beginning to write a file out.
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

/// The result of an operation of a disk.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a disk refused or failed. `name` is the file or directory as a message should show it: with
/// the data directory in front where the disk knows one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such file, or its directory is missing.
    #[error("cannot {operation} {name}: it does not exist")]
    NotFound {
        /// What was being done.
        operation: Operation,
        /// To what.
        name: String,
    },

    /// A file to be created exists already.
    #[error("cannot {operation} {name}: it exists already")]
    AlreadyExists {
        /// What was being done.
        operation: Operation,
        /// To what.
        name: String,
    },

    /// The user that runs this process lacks a permission.
    #[error(
        "data directory {directory} is not writable by uid {uid} (cannot {operation} {name}): \
         give the user that runs duly write access, or pass another --data"
    )]
    PermissionDenied {
        /// What was being done.
        operation: Operation,
        /// The data directory.
        directory: String,
        /// To what in it.
        name: String,
        /// The effective user of this process.
        uid: u32,
    },

    /// The file system is mounted read-only, or the directory was opened only to look at it.
    #[error(
        "data directory {directory} is read-only (cannot {operation} {name}): \
         remount it for writing, or pass another --data"
    )]
    ReadOnly {
        /// What was being done.
        operation: Operation,
        /// The data directory.
        directory: String,
        /// To what in it.
        name: String,
    },

    /// The path given as data directory is something else.
    #[error("{path} is not a directory: pass another --data")]
    NotADirectory {
        /// That path.
        path: String,
    },

    /// A name is a symbolic link, a FIFO or a device, or a directory in place of a file.
    #[error(
        "cannot {operation} {name}: it is a symbolic link, or not of the kind that belongs there; Duly \
         follows no links and reads no FIFOs or devices: put the file or directory itself there"
    )]
    NotPlain {
        /// What was being done.
        operation: Operation,
        /// To what.
        name: String,
    },

    /// The file system, or this user's quota on it, is full.
    #[error("cannot {operation} {name}: no space left; free some, or move the data directory")]
    NoSpace {
        /// What was being done.
        operation: Operation,
        /// To what.
        name: String,
    },

    /// This process, or the whole system, may not open any more files.
    #[error(
        "cannot {operation} {name}: too many files are open; raise the limit (ulimit -n, \
         LimitNOFILE of the unit) and try again"
    )]
    TooManyFiles {
        /// What was being done.
        operation: Operation,
        /// To what.
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
        /// Who holds the lock, where it could be read.
        holder_pid: Option<u32>,
    },

    /// A file is shorter than what should be in it.
    #[error(
        "{name} ends early: {wanted_bytes} bytes wanted at offset {offset}, {read_bytes} there"
    )]
    UnexpectedEnd {
        /// The file.
        name: String,
        /// Where the read began.
        offset: u64,
        /// How much was asked for.
        wanted_bytes: usize,
        /// How much there was.
        read_bytes: usize,
    },

    /// A name that is empty, absolute, or more than one level deep: an error in the caller.
    #[error("{name:?} is not a name within a data directory")]
    InvalidName {
        /// That name.
        name: String,
    },

    /// Anything else the operating system answered.
    #[error("cannot {operation} {name}: {source}")]
    Io {
        /// What was being done.
        operation: Operation,
        /// To what.
        name: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl Error {
    /// Whether there was no room, and nothing is lost: freeing some and trying again helps. A sync
    /// or write-back that found no room is no such case; nobody knows what it left undone.
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::NoSpace { operation, .. } => {
                !matches!(operation, Operation::Sync | Operation::SyncDir | Operation::WriteBack)
            }
            _ => false,
        }
    }

    /// Whether the file or directory was not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether this process has too little of something to look: what is on the disk may be well.
    pub fn is_shortage(&self) -> bool {
        match self {
            Self::TooManyFiles { .. } => true,
            Self::Io { source, .. } => source.kind() == io::ErrorKind::OutOfMemory,
            _ => false,
        }
    }

    /// Whether the same operation can succeed later without a person: the operating system refused it
    /// for what may pass.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Io { source, .. } => source.raw_os_error().is_some(),
            Self::NoSpace { .. } | Self::TooManyFiles { .. } => true,
            _ => false,
        }
    }

    /// Sorts an answer of the operating system by cause.
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

/// What was being done to which name in which data directory.
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
