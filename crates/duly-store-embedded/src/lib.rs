//! The embedded engine: durable timers in one data directory, no other process needed.
//!
//! ```text
//!   Store calls ─► shell (two threads) ─► engine ─┬─ journal   frames of records, group commit
//!                                                 ├─ index     24 bytes of RAM per timer
//!                                                 ├─ calendar  pending timers by due time
//!                                                 └─ lanes     what is due, exactly
//! ```
//!
//! * It keeps the promises P1–P12 of [`duly_store::Store`] on one machine. A change is on disk
//!   (`fdatasync`) before its call returns. If a write fails and its effect cannot be known, the call
//!   returns that it is in doubt. A directory that lost acknowledged data is not opened.
//! * It does not guess: damage in the middle of the journal stops the start, and the error names the
//!   file and the byte.
//!
//! Start reading at [`EmbeddedStore`], then read the module `engine`. The format is in `format` and in
//! `docs/internals/disk-format.md`.

pub mod access_file;
mod audit_file;
pub mod backup;
pub mod check;
mod checkpoint;
mod clock;
pub mod disk;
mod effect;
mod engine;
mod files;
mod format;
mod index;
mod journal;
mod json_file;
mod manifest;
mod numbered;
mod open;
mod options;
mod progress;
mod shell;
mod sorted_runs;
mod store;

pub use clock::SystemClock;
pub use format::{FEATURES, VERSION as FORMAT_VERSION};
pub use open::{OpenError, OpenProgress, OpenReport, Tail};
pub use options::{OnClockJump, Options, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, memory_limit};
pub use store::EmbeddedStore;
