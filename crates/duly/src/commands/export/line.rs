//! The lines of an export: what `export` writes and `import` reads.
//!
//! ```text
//!   {"namespace":{"name":"orders","settings":{…},…}}
//!   {"timer":{"id":"order:1",…}}                        pending ones, then dead letters
//!   {"end":{"namespace":"orders","timers":1,"dead":0}}  without it the file was cut
//! ```

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One line: exactly one of its fields.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    /// A namespace begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<Box<RawValue>>,
    /// A timer or dead letter of it, in transport form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timer: Option<Box<RawValue>>,
    /// It is whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<End>,
}

/// How much of a namespace there is.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct End {
    /// Its name.
    pub(crate) namespace: String,
    /// Pending timers.
    pub(crate) timers: u64,
    /// Dead letters.
    pub(crate) dead: u64,
}

/// What is read of a namespace's line, here and at a server.
#[derive(Deserialize)]
pub(crate) struct Opening {
    /// Its name.
    pub(crate) name: String,
    /// Whether it hands out no firing.
    #[serde(default)]
    pub(crate) paused: bool,
    /// When it goes on by itself.
    pub(crate) resumes_at: Option<String>,
    /// Its settings, as a PUT takes them.
    pub(crate) settings: Option<Box<RawValue>>,
    /// The secrets that sign its webhooks.
    #[serde(default)]
    pub(crate) signing_secret_fingerprints: Vec<String>,
}
