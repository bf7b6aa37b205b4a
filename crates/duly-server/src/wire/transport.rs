//! The transport form: a timer with everything that another store needs to go on with it.
//!
//! What an export gives an import takes, so that delivery id (P7), attempts, history and payload
//! bytes (P11) stay what they are. It is one line of text: a JSON payload whose own text has more than
//! one travels as text in `payload_json`.
//!
//! * It shows what other answers hide: the credentials in the headers of destinations. Without them a
//!   moved timer could not be delivered. Signing secrets of namespaces are not in it.
//! * A firing under a lease travels as one whose attempt has an unknown outcome, to be tried again when
//!   the lease ends. The token of a settlement does not travel: no consumer settles at another server.
//! * The rules for what comes in are those of a schedule, plus [`take`]'s own for what has happened
//!   since.
//!
//! Called by `http::export` and `http::import`.

pub mod give;
pub mod take;

pub use give::{ExportOut, TransportOut};
pub use take::{ImportIn, ImportOut, TransportIn};

/// Most attempts that a timer can come with, so that those to come can be counted.
pub const ATTEMPTS_MAX: u32 = 1_000_000_000;

#[cfg(test)]
mod tests;
