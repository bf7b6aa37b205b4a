//! TLS of both directions: what a server and an outgoing connection share.
//!
//! * [`chain`] verifies the certificates of a peer, after a look at their number and size.
//! * [`client`] has the settings of connections to servers.
//! * [`files`] reads the files that a configuration names, such as certificates and keys.
//! * [`validity`] has the time of a certificate, and keeps a good one from being replaced by one out of its time.
//!
//! Every connection uses the verifiers of [`chain`]: those of callers, and those to any server.

pub mod chain;
pub mod client;
pub mod files;
pub mod validity;
