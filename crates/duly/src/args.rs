//! Pieces of the command line that several commands share.

pub(crate) mod confirm;
pub(crate) mod due;
pub(crate) mod fields;
pub(crate) mod filter;
pub(crate) mod input;
pub(crate) mod labels;
pub(crate) mod named;
pub(crate) mod payload;
pub(crate) mod place;
pub(crate) mod receiver_header;
pub(crate) mod retry;
pub(crate) mod secret;
pub(crate) mod server;
pub(crate) mod values;
