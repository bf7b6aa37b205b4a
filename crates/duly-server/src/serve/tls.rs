//! TLS of connections, with files that are read again when they change.
//!
//! 1. Files that cannot be used, at a reload, leave the present certificate and authorities in use. So does a
//!    certificate that is out of its time while the present one is within it.
//! 2. Where certificates are the only proof, a handshake without one fails: a stranger gets no further. Connections
//!    that serve probes alone (`server.admin_listen`, and the reserve) need none.
//! 3. A connection keeps the certificates of its handshake. Those of callers end at their end all the same
//!    (`auth.rs`).

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use duly_core::{Timestamp, access::Subject, metric_names as names};
use duly_tls::{
    chain::client_verifier,
    files,
    validity::{Validity, check_replacement},
};
use metrics::gauge;
use parking_lot::RwLock;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::CertificateDer,
    server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
    version::{TLS12, TLS13},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::{
    net::TcpStream,
    signal::unix::{Signal, SignalKind, signal},
    task::spawn_blocking,
    time::{Interval, MissedTickBehavior, interval},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::either::Either;
use x509_parser::{extensions::GeneralName, parse_x509_certificate};

use super::plain_http;
use crate::{auth::PeerCertificate, listen::Stream};

/// Protocols of the handshake, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", HTTP1];
const HTTP1: &[u8] = b"http/1.1";
/// Time before the end of a certificate from which it is reported.
const EXPIRY_WARNING: Duration = Duration::from_secs(14 * 24 * 3_600);

/// A version of TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    #[serde(rename = "1.2")]
    V1_2,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    V1_3,
}

/// A file that a key of the configuration names.
#[derive(Debug, Clone)]
pub(crate) struct NamedFile {
    /// The key.
    pub(crate) key: &'static str,
    /// The path.
    pub(crate) path: PathBuf,
}

/// Settings of TLS.
#[derive(Debug, Clone)]
pub(crate) struct TlsOptions {
    /// The certificate, with those that lead to its authority, in PEM.
    pub(crate) certificate: NamedFile,
    /// Its private key, in PEM.
    pub(crate) key: NamedFile,
    /// Authorities of the callers' certificates, in PEM; without it callers have none.
    pub(crate) client_ca: Option<NamedFile>,
    /// `true`: a caller without a certificate has no other proof, so its handshake fails.
    pub(crate) requires_certificate: bool,
    /// Oldest version that callers may use.
    pub(crate) min_version: TlsVersion,
    /// Interval at which the files are read again.
    pub(crate) reload: Duration,
}

impl NamedFile {
    fn unusable(&self, reason: String) -> TlsFileError {
        TlsFileError { key: self.key, path: self.path.clone(), reason }
    }
}

impl TlsOptions {
    /// Reads the files.
    ///
    /// # Errors
    /// The file that cannot be used, and the reason.
    pub(crate) fn read(&self) -> Result<TlsFiles, TlsFileError> {
        let certificates = |file: &NamedFile| {
            files::certificates(&file.path).map_err(|reason| file.unusable(reason))
        };
        let chain = certificates(&self.certificate)?;
        let secret =
            files::private_key(&self.key.path).map_err(|reason| self.key.unusable(reason))?;
        let own = CertifiedKey::from_der(chain, secret, &ring::default_provider());
        let own = own.map_err(|error| {
            self.key.unusable(format!("it does not match the certificate: {error}"))
        })?;
        let mut authorities = None;
        if let Some(file) = &self.client_ca {
            let trusted = files::check_trusted(&file.path);
            trusted.map_err(|error| file.unusable(error.to_string()))?;
            let read = certificates(file)?;
            let (_, refused) = RootCertStore::empty().add_parsable_certificates(read.clone());
            if refused > 0 {
                let reason = format!("{refused} of its certificates are no authorities");
                return Err(file.unusable(reason));
            }
            authorities = Some(read);
        }
        Ok(TlsFiles { own, authorities })
    }

    /// Returns the settings of connections with these files.
    fn configs(&self, files: TlsFiles) -> TlsConfigs {
        let all = self.config(&files, self.requires_certificate);
        let mut probes = self.config(&files, false);
        probes.alpn_protocols = vec![HTTP1.to_vec()];
        TlsConfigs { files, all: Arc::new(all), probes: Arc::new(probes) }
    }

    fn config(&self, files: &TlsFiles, requires_certificate: bool) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let versions = match self.min_version {
            TlsVersion::V1_2 => &[&TLS13, &TLS12][..],
            TlsVersion::V1_3 => &[&TLS13],
        };
        let verifier = match &files.authorities {
            None => Arc::new(NoClientAuth) as Arc<dyn ClientCertVerifier>,
            Some(authorities) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(authorities.clone());
                let builder = WebPkiClientVerifier::builder_with_provider(
                    roots.into(),
                    Arc::clone(&provider),
                );
                let builder = match requires_certificate {
                    true => builder,
                    false => builder.allow_unauthenticated(),
                };
                client_verifier(builder.build().expect("there is an authority"))
            }
        };
        let own = SingleCertAndKey::from(files.own.clone());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("ring supports both versions")
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(own));
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        config
    }
}

/// The settings of connections.
#[derive(Debug)]
struct TlsConfigs {
    /// The files in use.
    files: TlsFiles,
    all: Arc<ServerConfig>,
    /// Of connections that serve probes alone, over HTTP/1.1.
    probes: Arc<ServerConfig>,
}

/// What the files of TLS hold.
#[derive(Debug)]
pub(crate) struct TlsFiles {
    /// The server's certificate with its key.
    own: CertifiedKey,
    /// Authorities of the callers' certificates.
    authorities: Option<Vec<CertificateDer<'static>>>,
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
    configs: Arc<RwLock<TlsConfigs>>,
    /// `true`: connections serve probes alone.
    is_for_probes: bool,
    options: TlsOptions,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// The file that cannot be used, and the reason.
    pub(crate) fn new(options: TlsOptions) -> Result<Self, TlsFileError> {
        let files = options.read()?;
        report_expiry(&files.own);
        let configs = Arc::new(RwLock::new(options.configs(files)));
        Ok(Self { configs, is_for_probes: false, options })
    }

    /// Offers HTTP/1.1 alone, and asks for no certificate, for connections that serve probes alone.
    pub(super) fn for_probes(self) -> Self {
        Self { is_for_probes: true, ..self }
    }

    /// Shakes hands on an accepted connection. On a Unix socket there is no TLS.
    pub(super) async fn accept(&self, stream: Stream) -> io::Result<SecureStream> {
        match stream {
            Either::Left(stream) => {
                if plain_http::begins(&stream).await? {
                    plain_http::refuse(stream).await;
                    return Err(io::Error::other("the request came without TLS"));
                }
                let config = {
                    let configs = self.configs.read();
                    Arc::clone(if self.is_for_probes { &configs.probes } else { &configs.all })
                };
                Ok(Either::Right(Box::new(TlsAcceptor::from(config).accept(stream).await?)))
            }
            unix @ Either::Right(_) => Ok(Either::Left(unix)),
        }
    }

    /// Reads the files at an interval and at each SIGHUP, and uses a new certificate from then on.
    pub(super) async fn keep_fresh(self) {
        let mut triggers = ReloadTriggers::new(self.options.reload);
        let mut last_error = None;
        loop {
            if triggers.next().await == ReloadTrigger::HungUp {
                last_error = None;
            }
            let options = self.options.clone();
            let Ok(read) = spawn_blocking(move || options.read()).await else { continue };
            let read = read.and_then(|read| {
                let own = &self.configs.read().files.own;
                check_replacement(&read.own.cert, &own.cert, SystemTime::now())
                    .map_err(|reason| self.options.certificate.unusable(reason))?;
                Ok(read)
            });
            match read {
                Ok(read) => {
                    last_error = None;
                    let is_new = {
                        let present = &self.configs.read().files;
                        read.own.cert != present.own.cert || read.authorities != present.authorities
                    };
                    if is_new {
                        report_expiry(&read.own);
                        *self.configs.write() = self.options.configs(read);
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

/// The moments at which files are read again.
#[derive(Debug)]
pub(crate) struct ReloadTriggers {
    ticks: Interval,
    hang_up: Option<Signal>,
}

/// The reason for which files are read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReloadTrigger {
    /// The interval is over.
    Tick,
    /// The process got SIGHUP.
    HungUp,
}

impl ReloadTriggers {
    /// Creates triggers at an interval and at each SIGHUP. From then on SIGHUP does not end the process.
    pub(crate) fn new(every: Duration) -> Self {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { ticks, hang_up: signal(SignalKind::hangup()).ok() }
    }

    /// Waits for the next one. Cancel safe.
    pub(crate) async fn next(&mut self) -> ReloadTrigger {
        let hung_up = async {
            match &mut self.hang_up {
                Some(signals) => drop(signals.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.ticks.tick() => ReloadTrigger::Tick,
            () = hung_up => ReloadTrigger::HungUp,
        }
    }
}

/// A connection, after the handshake where it has TLS.
pub(super) type SecureStream = Either<Stream, Box<TlsStream<TcpStream>>>;

/// Returns the certificate of the caller of a connection, which was verified in the handshake.
pub(super) fn peer_certificate(stream: &SecureStream) -> Option<Arc<PeerCertificate>> {
    let Either::Right(stream) = stream else { return None };
    let certificate = stream.get_ref().1.peer_certificates()?.first()?;
    let (_, parsed) = parse_x509_certificate(certificate).ok()?;
    let names = parsed.subject_alternative_name().ok().flatten();
    let names = names.map_or(&[][..], |names| &names.value.general_names);
    let uris = names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => Some(*uri),
        _ => None,
    });
    let hosts = names.iter().filter_map(|name| match name {
        GeneralName::DNSName(host) => Some(*host),
        _ => None,
    });
    let subjects = uris.chain(hosts).filter_map(|name| Subject::new(&format!("cert:{name}")).ok());
    let ends_at = Validity::of(std::slice::from_ref(certificate))?.end;
    Some(Arc::new(PeerCertificate { subjects: subjects.collect(), ends_at: timestamp(ends_at) }))
}

/// Shows the end of a certificate in the metrics, and warns if it is near.
fn report_expiry(read: &CertifiedKey) {
    let Some(Validity { end, .. }) = Validity::of(&read.cert) else { return };
    gauge!(names::TLS_CERTIFICATE_EXPIRY).set(end.as_secs_f64());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if end < now + EXPIRY_WARNING {
        let expires_at = timestamp(end);
        tracing::warn!(%expires_at, "TLS certificate expires within two weeks; renew it");
    }
}

/// Returns the time that is this long after the beginning of Unix time.
fn timestamp(since_epoch: Duration) -> Timestamp {
    let ms = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX);
    Timestamp::saturating_from_unix_ms(ms)
}
