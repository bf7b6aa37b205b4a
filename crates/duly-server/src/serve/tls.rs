//! TLS of connections, with a certificate that is read again when its files change.
//!
//! 1. A certificate that cannot be used, at a reload, leaves the present one in use.
//! 2. A connection keeps the certificate of its handshake.

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use duly_core::{Timestamp, metric_names as names};
use metrics::gauge;
use parking_lot::RwLock;
use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};
use tokio::{
    net::TcpStream,
    signal::unix::{SignalKind, signal},
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::either::Either;
use x509_parser::parse_x509_certificate;

use crate::{
    config::{TlsVersion, key},
    listen::Stream,
};

/// Protocols of the handshake, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// Time before the end of a certificate from which it is reported.
const EXPIRY_WARNING: Duration = Duration::from_secs(14 * 24 * 3_600);

/// Settings of TLS.
#[derive(Debug, Clone)]
pub(crate) struct TlsOptions {
    /// The certificate, with those that lead to its authority, in PEM.
    pub(crate) certificate: PathBuf,
    /// Its private key, in PEM.
    pub(crate) key: PathBuf,
    /// Oldest version that callers may use.
    pub(crate) min_version: TlsVersion,
    /// Interval at which the files are read again.
    pub(crate) reload: Duration,
}

impl TlsOptions {
    /// Reads the certificate and its key.
    ///
    /// # Errors
    /// The file that cannot be used, and the reason.
    pub(crate) fn read(&self, provider: &CryptoProvider) -> Result<CertifiedKey, TlsFileError> {
        let unusable =
            |key, path: &PathBuf, reason| TlsFileError { key, path: path.clone(), reason };
        let wrong_certificate =
            |reason| unusable(key!(tls.certificate_file), &self.certificate, reason);
        let wrong_key = |reason| unusable(key!(tls.key_file), &self.key, reason);
        let chain = CertificateDer::pem_file_iter(&self.certificate).and_then(Iterator::collect);
        let chain: Vec<_> = chain.map_err(|error| wrong_certificate(error.to_string()))?;
        if chain.is_empty() {
            return Err(wrong_certificate("there is no certificate in it".to_owned()));
        }
        let secret = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| wrong_key(format!("no private key can be read from it: {error}")))?;
        CertifiedKey::from_der(chain, secret, provider)
            .map_err(|error| wrong_key(format!("it does not match the certificate: {error}")))
    }
}

/// A file of a certificate that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub(crate) struct TlsFileError {
    /// The key of the configuration that names it.
    pub(crate) key: &'static str,
    pub(crate) path: PathBuf,
    /// The reason, without any content of the file.
    pub(crate) reason: String,
}

/// The TLS of a server.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    config: Arc<ServerConfig>,
    certificate: Arc<Certificate>,
    options: TlsOptions,
}

/// The certificate in use.
#[derive(Debug)]
struct Certificate(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read()))
    }
}

impl Tls {
    /// Reads the certificate and its key.
    ///
    /// # Errors
    /// The file that cannot be used, and the reason.
    pub(crate) fn new(options: TlsOptions) -> Result<Self, TlsFileError> {
        let provider = Arc::new(ring::default_provider());
        let read = Arc::new(options.read(&provider)?);
        report_expiry(&read);
        let certificate = Arc::new(Certificate(RwLock::new(read)));
        let versions = match options.min_version {
            TlsVersion::V1_2 => &[&TLS13, &TLS12][..],
            TlsVersion::V1_3 => &[&TLS13],
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("ring supports both versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&certificate) as _);
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Self { config: Arc::new(config), certificate, options })
    }

    /// Shakes hands on an accepted connection. On a Unix socket there is no TLS.
    pub(super) async fn accept(&self, stream: Stream) -> io::Result<SecureStream> {
        match stream {
            Either::Left(stream) => {
                let accepting = TlsAcceptor::from(Arc::clone(&self.config)).accept(stream);
                Ok(Either::Right(Box::new(accepting.await?)))
            }
            unix @ Either::Right(_) => Ok(Either::Left(unix)),
        }
    }

    /// Reads the files at an interval and at each SIGHUP, and uses a new certificate from then on.
    pub(super) async fn keep_fresh(self) {
        let mut ticks = interval(self.options.reload);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut hang_up = signal(SignalKind::hangup()).ok();
        let mut last_error = None;
        loop {
            let hung_up = async {
                match &mut hang_up {
                    Some(signals) => drop(signals.recv().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = ticks.tick() => {}
                () = hung_up => last_error = None,
            }
            let (options, config) = (self.options.clone(), Arc::clone(&self.config));
            let reading = spawn_blocking(move || options.read(config.crypto_provider()));
            let Ok(read) = reading.await else { continue };
            match read {
                Ok(read) => {
                    last_error = None;
                    if read.cert != self.certificate.0.read().cert {
                        report_expiry(&read);
                        *self.certificate.0.write() = Arc::new(read);
                        tracing::info!("TLS certificate reloaded");
                    }
                }
                // A file that stays wrong is reported once.
                Err(error) if last_error.as_ref() != Some(&error) => {
                    tracing::warn!(%error, "reading the TLS certificate failed; the present one stays in use");
                    last_error = Some(error);
                }
                Err(_) => {}
            }
        }
    }
}

/// A connection, after the handshake where it has TLS.
pub(super) type SecureStream = Either<Stream, Box<TlsStream<TcpStream>>>;

/// Shows the end of a certificate in the metrics, and warns if it is near.
fn report_expiry(read: &CertifiedKey) {
    let Some(end) = read.cert.first().and_then(|certificate| expiry(certificate)) else {
        return;
    };
    #[expect(clippy::cast_precision_loss)]
    gauge!(names::TLS_CERTIFICATE_EXPIRY).set(end as f64);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if end < (now + EXPIRY_WARNING).as_secs() {
        let expires_at = Timestamp::saturating_from_unix_ms(end.saturating_mul(1_000));
        tracing::warn!(%expires_at, "TLS certificate expires within two weeks; renew it");
    }
}

/// Returns the end of a certificate, in seconds of Unix time.
fn expiry(certificate: &CertificateDer<'_>) -> Option<u64> {
    let (_, parsed) = parse_x509_certificate(certificate).ok()?;
    u64::try_from(parsed.validity().not_after.timestamp()).ok()
}
