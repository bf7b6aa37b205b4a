//! Messages for a server whose certificate is refused: the cause, and the cure of exactly that cause.

use std::io;

use duly_tls::chain::ChainRefused;
use rustls::{CertificateError, Error};

use crate::failure::Failure;

/// Returns the error of TLS in the error of a connection, which libraries wrap.
pub(super) fn error_of(error: &io::Error) -> Option<&CertificateError> {
    let inner = error.get_ref()?;
    match inner.downcast_ref() {
        Some(Error::InvalidCertificate(error)) => Some(error),
        Some(_) => None,
        None => error_of(inner.downcast_ref()?),
    }
}

/// Returns the failure for a server with such a certificate.
pub(super) fn refused(server: &str, error: &CertificateError) -> Failure {
    let (cause, cure) = cause_and_cure(error);
    Failure::coded(
        "unreachable",
        format_args!("the certificate of {server} is refused ({cause}): {cure}"),
    )
}

fn cause_and_cure(error: &CertificateError) -> (String, String) {
    use CertificateError as Cause;
    let cure = match error {
        Cause::NotValidForNameContext { presented, .. } => {
            let names: Vec<_> = presented.iter().map(|name| bare(name)).collect();
            let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
            return (
                format!("it is for {names}"),
                "name the server with --server as its certificate does, or give it a certificate for this name"
                    .to_owned(),
            );
        }
        Cause::NotValidForName => {
            "name the server with --server as its certificate does, or give it a certificate for this name"
        }
        Cause::UnknownIssuer => "name its authority with --ca-file or DULY_CA_FILE",
        Cause::Expired | Cause::ExpiredContext { .. } => {
            "renew it; if it is still valid, the clock of this machine is wrong"
        }
        Cause::NotValidYet | Cause::NotValidYetContext { .. } => {
            "wait until it is valid; if it is already, the clock of this machine is wrong"
        }
        Cause::InvalidPurpose | Cause::InvalidPurposeContext { .. } => {
            "give the server one whose extended key usage has serverAuth"
        }
        Cause::Other(_) => return of_other(error),
        _ => "give the server another one",
    };
    (error.to_string(), cure.to_owned())
}

/// Returns the cause and the cure of an error that this library or the bound on chains added.
fn of_other(error: &CertificateError) -> (String, String) {
    if let Some(refused) = ChainRefused::of(&Error::InvalidCertificate(error.clone())) {
        let cure =
            "the server must send its own certificate and those up to the authority, each once";
        return (refused.to_string(), cure.to_owned());
    }
    let cause = error.to_string();
    let cure = if cause.contains("CaUsedAsEndEntity") {
        "it is the certificate of an authority: give the server one of its own, made without CA:TRUE"
    } else {
        "give the server another one"
    };
    (cause, cure.to_owned())
}

/// Returns a name without the kind that the library writes around it: `DnsName("a")`, `IpAddress(127.0.0.1)`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, inner)| inner.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{ServerName, UnixTime};

    use super::*;

    #[test]
    fn each_cause_has_its_own_cure() {
        let time = UnixTime::now();
        let presented =
            vec!["DnsName(\"timers.example\")".to_owned(), "IpAddress(10.0.0.1)".to_owned()];
        let expected = ServerName::try_from("localhost").expect("a name");
        let of_name = CertificateError::NotValidForNameContext { expected, presented };
        for (error, cure) in [
            (of_name.clone(), "it is for timers.example, 10.0.0.1): name the server with --server"),
            (CertificateError::NotValidForName, "name the server with --server"),
            (CertificateError::UnknownIssuer, "--ca-file"),
            (CertificateError::Expired, "renew it"),
            (CertificateError::ExpiredContext { time, not_after: time }, "renew it"),
            (CertificateError::NotValidYet, "the clock of this machine"),
            (
                CertificateError::NotValidYetContext { time, not_before: time },
                "the clock of this machine",
            ),
            (CertificateError::InvalidPurpose, "serverAuth"),
            (CertificateError::BadSignature, "give the server another one"),
            (CertificateError::Revoked, "give the server another one"),
        ] {
            let message = refused("https://localhost:1", &error).to_string();
            assert!(message.contains(cure), "{message}");
            let is_unknown = matches!(error, CertificateError::UnknownIssuer);
            assert_eq!(message.contains("--ca-file"), is_unknown, "{message}");
        }
        let wrapped =
            io::Error::other(io::Error::other(Error::InvalidCertificate(of_name.clone())));
        assert_eq!(error_of(&wrapped), Some(&of_name));
        assert_eq!(error_of(&io::Error::other("no certificate")), None);
    }
}
