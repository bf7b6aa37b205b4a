//! The on-disk format: every constant, and the codecs of everything that is written.
//!
//! `docs/internals/disk-format.md` shows the same layouts for people. All numbers are little endian. All
//! checksums are CRC-32C.
//!
//! **The rule for changing it.** A released layout never changes its meaning.
//!
//! 1. A new optional field takes a new tag. Old readers refuse unknown tags of records that they must
//!    understand, so it also takes a feature bit.
//! 2. Any other change bumps [`VERSION`], and also [`READER_MIN`] unless builds of the version before
//!    can read it. It keeps a reader of the old version, and adds a golden directory to the tests.

pub(crate) mod checkpoint;
pub(crate) mod fields;
pub(crate) mod frame;
pub(crate) mod record;
pub(crate) mod segment;
pub(crate) mod settings;
pub(crate) mod sorted_run;
pub(crate) mod timer;
pub(crate) mod tombstone;

#[cfg(test)]
mod documented;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
pub(crate) mod strategies;

/// Version of the format that this build writes.
pub const VERSION: u32 = 1;
/// Oldest version that this build reads.
pub(crate) const VERSION_READ_MIN: u32 = 1;
/// Oldest version whose builds may read what this build writes; raised when they cannot.
pub(crate) const READER_MIN: u32 = 1;
/// Feature bit: the journal has closing frames ([`frame`]), which older builds take for its end.
pub(crate) const CLOSING_FRAMES: u64 = 1;
/// Feature bit: records of namespaces may be marked as implicit ([`settings`]), which older builds do
/// not understand.
const IMPLICIT_NAMESPACES: u64 = 2;
/// Feature bit: the store has keys of callers ([`crate::access_file`]). Older builds would admit every
/// caller. It is set with the first key.
pub(crate) const KEYS: u64 = 4;
/// Feature bit: leases may be marked as stopped ([`record`]). Older builds would repeat the attempt of a
/// timer that its caller has cancelled.
const STOPPED_LEASES: u64 = 8;
/// Feature bits of every store that this build writes.
pub const FEATURES: u64 = CLOSING_FRAMES | IMPLICIT_NAMESPACES | STOPPED_LEASES;
/// Feature bits that this build understands.
pub(crate) const KNOWN_FEATURES: u64 = FEATURES | KEYS;

/// Alignment of records; an index entry counts offsets in this unit.
pub(crate) const ALIGN: u64 = 16;

/// Rounds up to [`ALIGN`].
pub(crate) const fn align_up(bytes: u64) -> u64 {
    bytes.div_ceil(ALIGN) * ALIGN
}

/// The reason that bytes could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    /// The bytes end too early.
    #[error("the bytes end at {0}")]
    Truncated(usize),
    /// The checksum differs.
    #[error("the checksum differs")]
    Checksum,
    /// A field has a value that this build does not know.
    #[error("unknown {what} {value}")]
    Unknown {
        /// Name of the field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// A value that breaks a rule of its type.
    #[error("impossible value: {0}")]
    Impossible(String),
}

impl DecodeError {
    pub(crate) fn unknown(what: &'static str, value: impl Into<u64>) -> Self {
        Self::Unknown { what, value: value.into() }
    }
}

impl duly_record::ReadError for DecodeError {
    fn unknown(what: &'static str, code: u64) -> Self {
        Self::unknown(what, code)
    }

    fn impossible(why: &str) -> Self {
        Self::Impossible(why.to_owned())
    }
}

impl From<duly_core::Invalid> for DecodeError {
    fn from(invalid: duly_core::Invalid) -> Self {
        Self::Impossible(invalid.to_string())
    }
}
