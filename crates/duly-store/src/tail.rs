//! The end of a journal, as a start finds it.

use serde::Serialize;

/// The end of a store's journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tail {
    /// The last frame is confirmed: by a closing frame, by a checkpoint, or by a segment that begins
    /// behind it.
    #[default]
    Closed,
    /// The last frame is complete and nothing follows it, as after a kill of the process. If another
    /// frame followed and left no trace, that cannot be known.
    Open,
    /// Bytes follow that are not a complete frame. They are cut off. Usually it is a frame that a crash
    /// left half written and that was never acknowledged. But it cannot be distinguished from a complete
    /// frame that was damaged later.
    Unknown,
}

impl Tail {
    /// Returns a warning if nothing confirms the last frame.
    pub const fn warning(self) -> Option<&'static str> {
        match self {
            Self::Closed => None,
            Self::Open => Some(
                "the journal ends without a closing frame, as after kill -9: it is unknown if \
                 another frame followed",
            ),
            Self::Unknown => Some(
                "the journal ends in an incomplete frame, which is cut off: it is unknown if it \
                 was acknowledged. After a crash or a power loss it was not; otherwise check the \
                 disk, and compare with a backup",
            ),
        }
    }
}
