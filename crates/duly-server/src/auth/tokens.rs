//! Signed tokens of an identity provider (JWT, OpenID Connect).
//!
//! 1. A token is good if one of the issuer's keys has signed it with an allowed algorithm, and if it names the
//!    issuer and the audience and has not ended. Algorithms with a shared secret, and `none`, never are.
//! 2. The issuer's keys come from a file, or from a URL that is read again at an interval and when a token
//!    names an unknown key. The last set with a key stays in use if a read fails or has none: an empty set would end
//!    every token. Keys that can verify no token are left out (`issuer_keys.rs`; RFC 7517, section 5).
//! 3. A verified token is remembered until it ends, so a signature is checked once.

mod issuer_keys;
mod signatures;

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use duly_core::{Timestamp, access::Subject};
use duly_tls::files;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header, jwk::JwkSet};
use parking_lot::{Mutex, RwLock};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Number, Value};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use self::issuer_keys::parse;
use crate::outgoing;

/// Longest token that is looked at, in bytes.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Most bytes of a set of keys.
const KEYS_BYTES_MAX: usize = 1024 * 1024;
/// Tokens that are remembered; all are forgotten at once when they are too many.
const VERIFIED_MAX: usize = 5_000;
/// Groups of a token that are looked at.
const GROUPS_MAX: usize = 200;
/// Difference of clocks that is tolerated, in milliseconds.
const LEEWAY_MS: u64 = 30_000;
/// Shortest time between two reads because of unknown keys.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Time-out of a read over HTTP.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The place of an issuer's keys.
#[derive(Debug, Clone)]
pub(crate) enum KeysPlace {
    /// A file.
    File(PathBuf),
    /// A URL, and its form for logs and errors, without a secret.
    Url { url: String, shown: String },
}

/// Options for tokens.
#[derive(Debug, Clone)]
pub(crate) struct TokenOptions {
    /// The claim `iss`.
    pub(crate) issuer: String,
    /// The claim `aud`, or one of its values.
    pub(crate) audience: String,
    /// The place of the issuer's keys.
    pub(crate) keys: KeysPlace,
    /// Allowed algorithms.
    pub(crate) algorithms: Vec<Algorithm>,
    /// The claim with the groups.
    pub(crate) groups_claim: String,
    /// Interval at which the keys are read again.
    pub(crate) reload: Duration,
}

/// The tokens of an issuer.
#[derive(Debug)]
pub(crate) struct Tokens {
    options: TokenOptions,
    keys: RwLock<Arc<JwkSet>>,
    verified: Mutex<HashMap<[u8; 32], Verified>>,
    /// Notified when a token names an unknown key.
    unknown_key: Notify,
    /// The reason why the last read failed.
    last_error: RwLock<Option<String>>,
}

/// The subjects of a verified token.
#[derive(Debug, Clone)]
pub(crate) struct Verified {
    /// The subject itself, and then its groups.
    pub(crate) subjects: Arc<[Subject]>,
    /// From this time on the token is not good any more.
    pub(crate) ends_at: Timestamp,
    /// The issuer's keys that verified it.
    keys: Arc<JwkSet>,
}

/// Claims that are looked at.
#[derive(Debug, Deserialize)]
struct Claims {
    /// One text: a list of issuers is none (RFC 7519, section 4.1.1).
    iss: String,
    exp: NumericDate,
    nbf: Option<NumericDate>,
    #[serde(rename = "iat")]
    _iat: Option<NumericDate>,
    sub: Option<String>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// A time in seconds, possibly with a fraction (RFC 7519, section 2), in milliseconds.
#[derive(Debug, Clone, Copy)]
struct NumericDate(u64);

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?;
        if let Some(seconds) = number.as_u64() {
            return Ok(Self(seconds.saturating_mul(1_000)));
        }
        let seconds = number.as_f64().filter(|seconds| *seconds >= 0.0);
        let seconds = seconds.ok_or_else(|| D::Error::custom("a time before 1970"))?;
        // A cast saturates. Times are compared with a leeway of seconds.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let ms = (seconds * 1_000.0) as u64;
        Ok(Self(ms))
    }
}

impl Tokens {
    /// Creates it. Reads the keys if they are in a file.
    ///
    /// # Errors
    /// The reason for which the file cannot be used.
    pub(crate) fn new(options: TokenOptions) -> Result<Self, String> {
        signatures::install();
        let keys = match &options.keys {
            KeysPlace::File(path) => read_file(path, &options.algorithms)?,
            KeysPlace::Url { .. } => JwkSet { keys: Vec::new() },
        };
        let keys = RwLock::new(Arc::new(keys));
        let (verified, unknown_key) = (Mutex::default(), Notify::new());
        Ok(Self { options, keys, verified, unknown_key, last_error: RwLock::default() })
    }

    /// Returns `true` if there is a key of the issuer that can verify a token.
    pub(crate) fn has_keys(&self) -> bool {
        !self.keys.read().keys.is_empty()
    }

    /// Verifies a token. Returns `None` if it is not good at `now`.
    pub(crate) fn verify(&self, token: &str, now: Timestamp) -> Option<Verified> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let hash: [u8; 32] = digest(&SHA256, token.as_bytes()).as_ref().try_into().ok()?;
        if let Some(known) = self.verified.lock().get(&hash) {
            return Some(known.clone()).filter(|known| now < known.ends_at);
        }
        let verified = self.verify_anew(token, now)?;
        let mut all = self.verified.lock();
        if all.len() >= VERIFIED_MAX {
            all.retain(|_, known| now < known.ends_at);
        }
        if all.len() >= VERIFIED_MAX {
            all.clear();
        }
        // The issuer's keys may have changed meanwhile.
        if self.is_current(&verified) {
            all.insert(hash, verified.clone());
        }
        Some(verified)
    }

    /// Returns `true` if the issuer's keys that verified a token are still in use.
    pub(crate) fn is_current(&self, verified: &Verified) -> bool {
        Arc::ptr_eq(&verified.keys, &self.keys.read())
    }

    /// Returns the warning that the issuer's keys cannot be read.
    pub(crate) fn warning(&self) -> Option<String> {
        let error = self.last_error.read().clone()?;
        Some(format!(
            "the keys of the token issuer cannot be read, and those read before stay in use: {error}"
        ))
    }

    fn verify_anew(&self, token: &str, now: Timestamp) -> Option<Verified> {
        let header = decode_header(token).ok()?;
        if !self.options.algorithms.contains(&header.alg) || header.crit.is_some() {
            return None;
        }
        let keys = Arc::clone(&self.keys.read());
        let key = match &header.kid {
            Some(kid) => keys.find(kid),
            None => keys.keys.first().filter(|_| keys.keys.len() == 1),
        };
        let Some(key) = key else {
            self.unknown_key.notify_one();
            return None;
        };
        let mut validation = Validation::new(header.alg);
        validation.set_audience(&[&self.options.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        // Both are compared with the clock of the server below.
        (validation.validate_exp, validation.validate_nbf) = (false, false);
        let key = DecodingKey::from_jwk(key).ok()?;
        let claims = decode::<Claims>(token, &key, &validation).ok()?.claims;
        let ends_at = claims.exp.0.saturating_add(LEEWAY_MS);
        let ends_at = Timestamp::saturating_from_unix_ms(ends_at);
        let begins_at = claims.nbf.map_or(0, |nbf| nbf.0.saturating_sub(LEEWAY_MS));
        let begins_at = Timestamp::saturating_from_unix_ms(begins_at);
        if claims.iss != self.options.issuer || now >= ends_at || now < begins_at {
            return None;
        }
        let subject = claims.sub.map(|sub| format!("jwt:sub:{sub}"));
        let groups = match claims.others.get(&self.options.groups_claim) {
            Some(Value::Array(groups)) => groups.as_slice(),
            Some(group @ Value::String(_)) => std::slice::from_ref(group),
            _ => &[],
        };
        let groups = groups.iter().take(GROUPS_MAX).filter_map(Value::as_str);
        let groups = groups.map(|group| format!("jwt:group:{group}"));
        let subjects = subject.into_iter().chain(groups);
        let subjects = subjects.filter_map(|subject| Subject::new(&subject).ok()).collect();
        Some(Verified { subjects, ends_at, keys })
    }

    /// Keeps the issuer's keys current, until it is aborted.
    pub(crate) async fn keep_fresh(self: Arc<Self>) {
        loop {
            let began = Instant::now();
            match self.read_keys().await {
                Ok(keys) => {
                    *self.last_error.write() = None;
                    if *self.keys.read().as_ref() != keys {
                        *self.keys.write() = Arc::new(keys);
                        self.verified.lock().clear();
                        tracing::info!("keys of the token issuer read");
                    }
                }
                Err(error) if self.last_error.read().as_ref() != Some(&error) => {
                    tracing::warn!(
                        %error,
                        "reading the keys of the token issuer failed; those read before stay in use"
                    );
                    *self.last_error.write() = Some(error);
                }
                Err(_) => {}
            }
            tokio::select! {
                () = sleep_until(began + self.options.reload) => {}
                () = self.unknown_key.notified() => {
                    sleep_until(began + READ_AGAIN_AFTER.min(self.options.reload)).await;
                }
            }
        }
    }

    async fn read_keys(&self) -> Result<JwkSet, String> {
        match &self.options.keys {
            KeysPlace::File(path) => {
                let (own, algorithms) = (path.clone(), self.options.algorithms.clone());
                let read = tokio::task::spawn_blocking(move || read_file(&own, &algorithms)).await;
                let read = read.unwrap_or_else(|error| Err(error.to_string()));
                read.map_err(|error| format!("{}: {error}", path.display()))
            }
            KeysPlace::Url { url, shown } => {
                let fetched = tokio::time::timeout(READ_TIMEOUT, fetch(url)).await;
                let fetched = fetched.unwrap_or_else(|_| Err("no response in time".to_owned()));
                let read = fetched.and_then(|bytes| parse(&bytes, &self.options.algorithms));
                read.map_err(|error| format!("{shown}: {error}"))
            }
        }
    }
}

/// Checks that a file holds a set of keys for these algorithms.
///
/// # Errors
/// The reason for which it cannot be used.
pub(crate) fn check_file(path: &Path, algorithms: &[Algorithm]) -> Result<(), String> {
    read_file(path, algorithms).map(drop)
}

fn read_file(path: &Path, algorithms: &[Algorithm]) -> Result<JwkSet, String> {
    let bytes = files::check_trusted(path).and_then(|()| files::read(path));
    parse(&bytes.map_err(|error| error.to_string())?, algorithms)
}

/// Reads a URL.
async fn fetch(url: &str) -> Result<Vec<u8>, String> {
    let scheme = url.split(':').next().unwrap_or_default();
    let client = outgoing::builder(scheme)?.build().map_err(|error| error.to_string())?;
    // The library's errors name the URL with its query.
    let failed = |error: reqwest::Error| error.without_url().to_string();
    let mut response = client.get(url).send().await.map_err(failed)?;
    if !response.status().is_success() {
        return Err(format!("status {}", response.status()));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        bytes.extend(chunk);
        if bytes.len() > KEYS_BYTES_MAX {
            return Err(format!("more than {KEYS_BYTES_MAX} bytes"));
        }
    }
    Ok(bytes)
}

#[cfg(test)]
pub(super) mod tests;
