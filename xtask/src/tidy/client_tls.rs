//! Checks that every TLS connection to a server has the bound of `duly-tls` on the chains of certificates.
//!
//! One file builds the settings of such connections. A library that builds its own has no bound, so its options for that
//! are refused too.

use super::Complaint;
use super::tree::File;

/// The file that builds the settings.
const BUILDER: &str = "crates/duly-tls/src/client.rs";
/// Options that build settings without a bound.
const UNBOUNDED: &[&str] = &[
    "ClientConfig::builder",
    ".tls_config(",
    "TlsCertificates",
    "tls_certs_merge",
    "add_root_certificate",
    "danger_accept_invalid",
];
/// Constructors of the client of an HTTP library, and its option to take settings.
const HTTP: [&str; 2] = ["Client::builder()", "ClientBuilder::new()"];
const TAKES: &str = "tls_backend_preconfigured";

/// Complains of each line that builds TLS settings without a bound.
pub(super) fn check(source: &File) -> Vec<Complaint> {
    let is_product = source.path.starts_with("crates/") && !source.is_test();
    if !is_product || source.path == BUILDER {
        return Vec::new();
    }
    let has_settings = source.text.contains(TAKES);
    let refuses = |line: &str| {
        let has = |options: &[&str]| options.iter().any(|option| line.contains(option));
        has(UNBOUNDED) || has(&HTTP) && !has_settings
    };
    let lines = source.text.lines().zip(1..).filter(|(line, _)| refuses(line));
    let text =
        "TLS without a bound on chains of certificates: use the settings of duly_tls::client";
    lines.map(|(_, number)| Complaint::at(&source.path, number, text)).collect()
}
