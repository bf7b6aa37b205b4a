//! TLS by rustls: trusted authorities, client certificate, offered protocols.
//!
//! Trusted are the system's certificate authorities (or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`) and
//! those of the extra file. Verification cannot be turned off. The named files are read when the sink is
//! created, and again at [`Tls::reload`]; connections keep what they began with. Deliveries of namespaces that show
//! the client certificate have connections and TLS sessions of their own.

use std::{path::Path, sync::Arc, time::SystemTime};

use duly_core::NamespaceName;
use duly_tls::{
    chain::ChainRefused,
    client::{http_client_config, system_authorities},
    files::{self, certificates, private_key},
    validity::check_replacement,
};
use parking_lot::{Mutex, RwLock};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, ServerName},
};
use tokio::io;
use tokio_rustls::{TlsConnector, client::TlsStream};
use url::Host;

use super::{
    failure,
    options::{ClientFiles, TlsFiles},
    socket::Socket,
    target::Target,
};
use crate::Error;

/// The key of the configuration that names the client certificate.
const CERTIFICATE_KEY: &str = "webhook.client_certificate_file";

/// Makes TLS connections.
pub(super) struct Tls {
    connectors: RwLock<Connectors>,
    files: TlsFiles,
    /// The content of the named files, as it is in use.
    content: Mutex<Vec<Option<Vec<u8>>>>,
}

/// Makes connections without and with the client certificate. They share no TLS session: a session that is resumed
/// has the certificate with which it began.
struct Connectors {
    plain: TlsConnector,
    /// The same as `plain` if there is no certificate.
    certified: TlsConnector,
    /// The client certificate, with those that lead to its authority; empty if there is none.
    chain: Vec<CertificateDer<'static>>,
}

impl Tls {
    /// Reads the certificates.
    ///
    /// # Errors
    /// When a file named by the options cannot be used. A system without certificates is no error: its
    /// `https://` deliveries fail one by one, with the reason in their history.
    pub(super) fn new(files: &TlsFiles) -> Result<Self, Error> {
        let content = Mutex::new(content(files));
        let connectors = RwLock::new(connectors(files)?);
        Ok(Self { connectors, files: files.clone(), content })
    }

    /// Reads the named files again, if they have changed. Returns `true` if they are used from now on.
    ///
    /// # Errors
    /// When a file cannot be used, or the client certificate is out of its time while the present one is within it;
    /// what was read before stays in use.
    pub(super) fn reload(&self) -> Result<bool, Error> {
        let mut present = self.content.lock();
        let read = content(&self.files);
        if *present == read {
            return Ok(false);
        }
        let new = connectors(&self.files)?;
        if let Some(ClientFiles { certificate, .. }) = &self.files.client {
            let wrong = unusable("client certificate", CERTIFICATE_KEY, certificate);
            let present = &self.connectors.read().chain;
            check_replacement(&new.chain, present, SystemTime::now()).map_err(wrong)?;
        }
        *self.connectors.write() = new;
        *present = read;
        Ok(true)
    }

    /// Returns `true` if deliveries of a namespace show the client certificate.
    pub(super) fn is_shown_by(&self, namespace: &NamespaceName) -> bool {
        self.files.is_shown_by(namespace)
    }

    /// Starts TLS on a connection to the host of `target`, whose certificate must be valid for it.
    ///
    /// # Errors
    /// A sentence for the history of the attempt.
    pub(super) async fn connect(
        &self,
        target: &Target<'_>,
        stream: Socket,
    ) -> Result<TlsStream<Socket>, String> {
        let name = match &target.host {
            // A name with a full stop at its end is the same name, but certificates have it without the
            // full stop.
            Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(name);
                ServerName::try_from(name.to_owned())
                    .map_err(|_| "no certificate can be valid for this host name".to_owned())?
            }
            Host::Ipv4(ip) => ServerName::IpAddress(std::net::IpAddr::from(*ip).into()),
            Host::Ipv6(ip) => ServerName::IpAddress(std::net::IpAddr::from(*ip).into()),
        };
        let connector = {
            let connectors = self.connectors.read();
            if target.is_certified {
                connectors.certified.clone()
            } else {
                connectors.plain.clone()
            }
        };
        connector.connect(name, stream).await.map_err(|error| explain(&error))
    }
}

/// Reads the certificates, and returns what makes connections with them.
fn connectors(files: &TlsFiles) -> Result<Connectors, Error> {
    let mut authorities = system_authorities().unwrap_or_else(|error| {
        if files.ca.is_none() {
            tracing::warn!(
                reason = %error,
                "no trusted certificates found: https:// deliveries will fail; set webhook.ca_file"
            );
        }
        RootCertStore::empty()
    });
    if let Some(path) = &files.ca {
        let wrong = unusable("file of authorities", "webhook.ca_file", path);
        for certificate in certificates(path).map_err(&wrong)? {
            authorities.add(certificate).map_err(|error| wrong(error.to_string()))?;
        }
    }
    let plain = http_client_config(authorities.clone(), None)
        .map_err(|error| Error::Client(error.to_string()))?;
    let plain = TlsConnector::from(Arc::new(plain));
    let Some(ClientFiles { certificate, key, .. }) = &files.client else {
        return Ok(Connectors { certified: plain.clone(), plain, chain: Vec::new() });
    };
    let wrong_certificate = unusable("client certificate", CERTIFICATE_KEY, certificate);
    let wrong_key = unusable("client key", "webhook.client_key_file", key);
    let chain = certificates(certificate).map_err(wrong_certificate)?;
    let secret = private_key(key).map_err(&wrong_key)?;
    let certified = http_client_config(authorities, Some((chain.clone(), secret)))
        .map_err(|error| wrong_key(format!("it does not match the certificate: {error}")))?;
    Ok(Connectors { plain, certified: TlsConnector::from(Arc::new(certified)), chain })
}

/// Returns the content of the named files; nothing for one that cannot be read.
fn content(named: &TlsFiles) -> Vec<Option<Vec<u8>>> {
    let client = named.client.iter().flat_map(|client| [&client.certificate, &client.key]);
    named.ca.iter().chain(client).map(|path| files::read(path).ok()).collect()
}

/// Checks that the certificate and key files can be read and used, as a sink does, and keeps nothing of
/// them.
///
/// Returns at most one error for the authorities and one for the client certificate and its key.
pub fn check_files(files: &TlsFiles) -> Vec<Error> {
    let ca = TlsFiles { ca: files.ca.clone(), client: None };
    let client = TlsFiles { ca: None, client: files.client.clone() };
    let named = [ca, client].into_iter().filter(|it| it.ca.is_some() || it.client.is_some());
    named.filter_map(|files| connectors(&files).err()).collect()
}

/// Returns `true` if HTTP/2 was negotiated.
pub(super) fn chose_http2(stream: &TlsStream<Socket>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(&b"h2"[..])
}

/// Formats the error of a failed handshake, with a hint.
fn explain(error: &io::Error) -> String {
    use rustls::{CertificateError, Error as Tls};
    let cause = failure::caused_by::<Tls>(error);
    if let Some(refusal) = cause.and_then(ChainRefused::of) {
        return format!("TLS: {refusal}");
    }
    let help = match cause {
        Some(Tls::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "; if the receiver's certificate is of a private authority, set webhook.ca_file to \
             that authority's certificate"
        }
        Some(Tls::InvalidMessage(_)) => "; does the receiver speak TLS on this port?",
        _ => "",
    };
    format!("TLS: {}{help}", failure::causes(error))
}

/// Returns a function that creates the error of an unusable file from the reason.
fn unusable(what: &'static str, key: &'static str, path: &Path) -> impl Fn(String) -> Error {
    move |reason| Error::File { what, key, path: path.to_owned(), reason }
}
