//! TLS of both directions: what a server and an outgoing connection share.
//!
//! * [`chain`] verifies the certificates of a peer, after a look at their number and size.
//! * [`files`] reads the files that a configuration names, such as certificates and keys.
//!
//! Every connection whose peer may be a stranger uses the verifiers of [`chain`]: callers, receivers of webhooks, and
//! servers with keys of tokens.

pub mod chain;
pub mod files;
