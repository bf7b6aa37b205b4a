//! The lines of an export, as `export` writes and `import` reads them.
//!
//! ```text
//!   {"namespace":{"name":"orders","settings":{…},…}}
//!   {"timer":{"id":"order:1",…}}                        pending timers, then dead letters
//!   {"end":{"namespace":"orders","timers":1,"dead":0,"trailer":true}}
//!   {"trailer":{"lines":3,"sha256":"…"}}                over all lines before it; the last line
//! ```

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::checksum::Trailer;

/// A line. Exactly one of its fields is set.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportLine {
    /// The beginning of a namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<Box<RawValue>>,
    /// A timer or dead letter of the namespace, in transport form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timer: Option<Box<RawValue>>,
    /// The end of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<NamespaceEnd>,
    /// The last line, behind all namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trailer: Option<Trailer>,
}

/// The end of a namespace, with the number of its lines.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamespaceEnd {
    /// Its name.
    pub(crate) namespace: String,
    /// Pending timers.
    pub(crate) timers: u64,
    /// Dead letters.
    pub(crate) dead: u64,
    /// `true`: the file ends with a trailer. Files of older versions have none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) trailer: bool,
}

/// The part of a namespace's line that is read, here and at a server.
#[derive(Deserialize)]
pub(crate) struct NamespaceHead {
    /// Its name.
    pub(crate) name: String,
    /// `true`: the namespace is paused, so it delivers no firing.
    #[serde(default)]
    pub(crate) paused: bool,
    /// Time at which the namespace resumes by itself.
    pub(crate) resumes_at: Option<String>,
    /// Settings of the namespace, in the form of a PUT.
    pub(crate) settings: Option<Box<RawValue>>,
    /// Fingerprints of the secrets that sign its webhooks.
    #[serde(default)]
    pub(crate) signing_secret_fingerprints: Vec<String>,
}
