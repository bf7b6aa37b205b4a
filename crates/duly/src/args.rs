//! Parts of the command line that several commands share.

pub(crate) mod confirm;
pub(crate) mod destination;
pub(crate) mod filter;
pub(crate) mod identity;
pub(crate) mod input;
pub(crate) mod receiver_header;
pub(crate) mod reset;
pub(crate) mod retry;
pub(crate) mod secret;
pub(crate) mod server;
pub(crate) mod timer;
pub(crate) mod values;
