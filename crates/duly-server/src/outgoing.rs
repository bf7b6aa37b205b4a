//! The clients of HTTP calls that the server makes for itself: to issuers of tokens, and to collectors of
//! traces. Webhooks have their own, `duly-sink`.
//!
//! 1. Variables such as `HTTP_PROXY` are not read. A proxy from the environment would take the place of the
//!    issuer, also for an address of this machine, and could hand out keys of its own.
//! 2. Redirects are not followed, so the configuration names each server that is called.
//! 3. Certificates are checked as those of webhook receivers.

use duly_tls::client::{http_client_config, system_authorities};
use reqwest::{ClientBuilder, redirect::Policy};

/// Creates the builder of a client for URLs of this scheme. Without TLS it needs no certificates of
/// authorities.
///
/// # Errors
/// The reason for which the system's certificates cannot be used.
pub(crate) fn builder(scheme: &str) -> Result<ClientBuilder, String> {
    let builder = ClientBuilder::new()
        .user_agent(concat!("duly/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .no_proxy();
    if !scheme.eq_ignore_ascii_case("https") {
        return Ok(builder.tls_certs_only([]));
    }
    let config = system_authorities().and_then(|trusted| http_client_config(trusted, None));
    let config = config.map_err(|error| error.to_string())?;
    Ok(builder.tls_backend_preconfigured(config))
}
