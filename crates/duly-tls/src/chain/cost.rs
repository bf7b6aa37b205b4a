//! Cost of the search of a path from a peer's certificate to a trusted authority.
//!
//! The count walks the names as the search of `webpki` does, without its signatures, and stops at the first limit. Chains in
//! use have one to four certificates and cost a few signatures. Two certificates of one name are usual there: a root that
//! signs itself and is signed by an older root.

use std::{io, sync::Arc};

use rustls::{
    CertificateError, DistinguishedName, Error, OtherError,
    pki_types::{CertificateDer, SubjectPublicKeyInfoDer},
};
use webpki::EndEntityCert;

/// Most certificates behind that of the peer itself.
pub const INTERMEDIATES_MAX: usize = 8;
/// Most bytes of the whole chain.
pub const CHAIN_BYTES_MAX: usize = 16 << 10;
/// Most certificates that the search of a path visits; a certificate counts again behind each other certificate.
pub const STEPS_MAX: usize = 16;
/// Most signatures that the search of a path checks.
pub const SIGNATURES_MAX: usize = 32;

/// A refusal of a chain before its verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChainRefused {
    /// Too many certificates, or too large.
    #[error(
        "the peer sent {certificates} certificates of {bytes} bytes; allowed are {} of {CHAIN_BYTES_MAX} bytes",
        INTERMEDIATES_MAX + 1
    )]
    TooLong {
        /// Certificates, that of the peer included.
        certificates: usize,
        /// Size of all of them.
        bytes: usize,
    },
    /// Too many ways to an authority.
    #[error(
        "the names of the peer's {certificates} certificates allow too many paths to an authority: more than {STEPS_MAX} \
         steps or {SIGNATURES_MAX} signatures; send one path, without certificates that share a name"
    )]
    TooManyPaths {
        /// Certificates, that of the peer included.
        certificates: usize,
    },
}

impl ChainRefused {
    /// Finds the refusal of a chain in the error of a handshake. The error's own text does not show it.
    #[must_use]
    pub fn of(error: &Error) -> Option<Self> {
        match error {
            Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) => {
                cause.downcast_ref().copied()
            }
            _ => None,
        }
    }

    /// Finds the refusal of a chain in the error of a connection, which libraries wrap.
    #[must_use]
    pub fn of_io(error: &io::Error) -> Option<Self> {
        let inner = error.get_ref()?;
        match inner.downcast_ref() {
            Some(error) => Self::of(error),
            None => Self::of_io(inner.downcast_ref()?),
        }
    }
}

impl From<ChainRefused> for Error {
    fn from(refusal: ChainRefused) -> Self {
        CertificateError::Other(OtherError(Arc::new(refusal))).into()
    }
}

/// Checks the bound of a chain. A certificate that cannot be read is left to the verification, which does not search
/// behind it.
pub(super) fn check(
    own: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    authorities: &[DistinguishedName],
) -> Result<(), ChainRefused> {
    let certificates = intermediates.len() + 1;
    let bytes = intermediates.iter().map(|it| it.len()).sum::<usize>() + own.len();
    if intermediates.len() > INTERMEDIATES_MAX || bytes > CHAIN_BYTES_MAX {
        return Err(ChainRefused::TooLong { certificates, bytes });
    }
    let Some(own) = Link::read(own, authorities) else { return Ok(()) };
    let others: Vec<_> =
        intermediates.iter().filter_map(|it| Link::read(it, authorities)).collect();
    let mut search = Search { others: &others, steps: 0, signatures: 0 };
    if search.visit(&mut vec![&own]) {
        Ok(())
    } else {
        Err(ChainRefused::TooManyPaths { certificates })
    }
}

/// The parts of a certificate that decide its place on a path.
struct Link {
    subject: Vec<u8>,
    issuer: Vec<u8>,
    key: SubjectPublicKeyInfoDer<'static>,
    /// Trusted authorities with the issuer's name.
    authorities: usize,
}

impl Link {
    fn read(certificate: &CertificateDer<'_>, authorities: &[DistinguishedName]) -> Option<Self> {
        let read = EndEntityCert::try_from(certificate).ok()?;
        let issuer = DistinguishedName::in_sequence(read.issuer());
        Some(Self {
            subject: read.subject().to_owned(),
            issuer: read.issuer().to_owned(),
            key: read.subject_public_key_info(),
            authorities: authorities.iter().filter(|name| name.as_ref() == issuer.as_ref()).count(),
        })
    }
}

struct Search<'a> {
    others: &'a [Link],
    steps: usize,
    signatures: usize,
}

impl<'a> Search<'a> {
    /// Visits the end of a path and all certificates that may follow it. Returns `false` at a limit.
    fn visit(&mut self, path: &mut Vec<&'a Link>) -> bool {
        let Some(&end) = path.last() else { return true };
        self.steps += 1;
        // Each authority of this name may have signed the path: all its signatures are checked.
        self.signatures += path.len() * end.authorities;
        if self.steps > STEPS_MAX || self.signatures > SIGNATURES_MAX {
            return false;
        }
        for next in self.others.iter().filter(|next| next.subject == end.issuer) {
            // The search has this guard against circles (RFC 4158, section 5.2).
            if path.iter().any(|it| it.subject == next.subject && it.key == next.key) {
                continue;
            }
            path.push(next);
            let is_bounded = self.visit(path);
            path.pop();
            if !is_bounded {
                return false;
            }
        }
        true
    }
}
