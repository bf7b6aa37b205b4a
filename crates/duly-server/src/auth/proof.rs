//! The other end of a connection, and its proof of who it is.

use std::{net::IpAddr, sync::Arc};

use duly_core::{
    Timestamp,
    access::{KeyId, PresentedKey, Subject},
};

use super::tokens::Verified;

/// The other end of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The address of the caller; a Unix socket has none.
    pub(crate) address: Option<IpAddr>,
    /// The certificate that the caller has proved to hold.
    pub(crate) certificate: Option<Arc<PeerCertificate>>,
}

/// The certificate of a caller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PeerCertificate {
    /// Its URIs, and then its DNS names.
    pub(crate) subjects: Arc<[Subject]>,
    /// The end of its validity.
    pub(crate) ends_at: Timestamp,
}

/// A caller as the audit log names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The id of its key.
    pub(crate) key: KeyId,
    /// The first subject of its certificate or token.
    pub(crate) subject: Option<Subject>,
    /// The key from which its key descends.
    pub(crate) origin: Option<KeyId>,
}

/// A caller's proof of who it is.
#[derive(Debug)]
pub(super) enum Proof {
    /// A key with its secret.
    Key(PresentedKey),
    /// The certificate of the connection.
    Certificate(Arc<PeerCertificate>),
    /// A signed token.
    Token(Verified),
}

impl Proof {
    /// Returns the subjects that are proved until a time.
    pub(super) fn subjects(&self) -> Option<(&Arc<[Subject]>, Timestamp)> {
        match self {
            Self::Key(_) => None,
            Self::Certificate(certificate) => Some((&certificate.subjects, certificate.ends_at)),
            Self::Token(verified) => Some((&verified.subjects, verified.ends_at)),
        }
    }
}
