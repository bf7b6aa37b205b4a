//! Keys about callers: authentication, tokens, the audit log, TLS.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DAY, MINUTE, SECOND};
use crate::config::{
    numbers::{Bytes, Integer, KIB, MIB, TIB, TimeSpan},
    texts::{AbsolutePath, GroupsClaim, Instant, NonEmpty},
    urls::KeysUrl,
};
use crate::{audit::AuditLevel, serve::TlsVersion};

/// `[auth]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// Means by which callers prove who they are: `keys`, `mtls`, `jwt`. With one, no other caller is
    /// admitted, even if the store has no keys yet. Without one, callers need a key as soon as the
    /// store has had one.
    pub mode: Vec<AuthMode>,
    /// A file with one key, as `duly key generate` prints it. The key has every right until the store
    /// has a valid administrator key; use it to create that.
    pub root_key_file: Option<AbsolutePath>,
    /// `true`: a proxy or service mesh in front of the server encrypts connections and checks
    /// callers. Only then may `server.listen` and `server.admin_listen` be addresses that other
    /// machines reach without a certificate (`[tls]`) and `auth.mode`.
    pub external: bool,
    /// Keys of the store that were created before this time are refused, whatever the store says: for use
    /// after an incident. All of them are without it.
    pub not_before: Option<Instant>,
    /// Time for which a node admits the keys that it knows while it reaches no majority of the shards
    /// of Redis, and so does not learn of changes. After it calls with a key get 503.
    pub cache: TimeSpan<SECOND, DAY, MINUTE>,
    /// Calls without a valid key that an address may make in a second; five seconds' worth at once.
    /// Further ones get 429, and no line in the audit log. Calls with a valid key are not limited by it.
    #[schemars(extend("unit" = "calls"))]
    pub failures_per_second: Integer<1, 1_000_000, 10>,
}

/// A means by which callers prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthMode {
    /// A key in the header `authorization`.
    Keys,
    /// A certificate of an authority of `tls.client_ca_file`.
    Mtls,
    /// A token (JWT) in the header `authorization` that the issuer of `[jwt]` has signed.
    Jwt,
}

/// `[audit]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// A file that gets one line of JSON for each change and each refusal, with key, address, operation
    /// and namespace; created for its owner alone. `/dev/stdout` works too.
    pub file: Option<AbsolutePath>,
    /// Calls that get a line: `changes` (and refusals for want of a key or a right), `denied` (only
    /// these refusals), or `all`.
    pub level: AuditLevel,
    /// `true`: a call is refused with 503 if its line cannot be queued. Otherwise the line is dropped
    /// and counted.
    pub required: bool,
    /// Size at which the file is renamed to `FILE.1` and a new one begins.
    pub file_bytes_max: Bytes<KIB, TIB, { 100 * MIB }>,
    /// Files that are kept, with the present one.
    #[schemars(extend("unit" = "files"))]
    pub files_max: Integer<1, 1_000, 10>,
}

/// `[jwt]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Jwt {
    /// The issuer of tokens, exactly as in their claim `iss`. For `auth.mode = ["jwt"]`.
    pub issuer: Option<NonEmpty>,
    /// The audience that tokens must name in their claim `aud`.
    pub audience: Option<NonEmpty>,
    /// URL of the issuer's keys (JWKS). It is read without a proxy; variables such as `HTTP_PROXY` are
    /// not read.
    pub jwks_url: Option<KeysUrl>,
    /// File of the issuer's keys (JWKS), instead of a URL.
    pub jwks_file: Option<AbsolutePath>,
    /// Algorithms of signatures: `RS256`, `ES256`, `EdDSA`; all of them if it is empty.
    pub algorithms: Vec<JwtAlgorithm>,
    /// Claim with the groups of the caller, a list of texts.
    pub groups_claim: GroupsClaim,
    /// Interval at which the keys are read again; a token with an unknown key has them read at once.
    pub reload: TimeSpan<{ 10 * SECOND }, DAY, { 5 * MINUTE }>,
}

/// An algorithm of signatures of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum JwtAlgorithm {
    /// RSA with SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
    /// ECDSA with P-256.
    #[serde(rename = "ES256")]
    Es256,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

/// `[tls]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// The server's certificate in PEM, followed by those that lead to its authority. With it, every
    /// IP address of `server.listen` takes HTTPS only, and `server.admin_listen` too if other machines
    /// reach it.
    pub certificate_file: Option<AbsolutePath>,
    /// The private key of the certificate, in PEM.
    pub key_file: Option<AbsolutePath>,
    /// Authorities of the certificates of callers, in PEM, for `auth.mode = ["mtls"]`.
    pub client_ca_file: Option<AbsolutePath>,
    /// Oldest version of TLS that callers may use.
    pub min_version: TlsVersion,
    /// Interval at which the files are read again, and those of `[webhook]` too; SIGHUP reads them at once. Files that cannot be
    /// used are logged, and leave the present certificate in use.
    pub reload: TimeSpan<SECOND, DAY, { 30 * SECOND }>,
}
