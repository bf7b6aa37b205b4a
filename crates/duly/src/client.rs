//! How `duly-client` is set up for the command line: who waits is a person or a script.
//!
//! Commands about timers and firings go through it. What passes documents, lines or text on as they
//! are goes over HTTP ([`crate::http`]), as its module says in its first lines.

use std::time::Duration;

use duly_client::{Client, Retries};
use percent_encoding::percent_decode_str;
use reqwest::Url;

use crate::{
    answer::problem,
    failure::Failure,
    http::{CONNECT, EXCHANGE},
    output::note,
};

/// Most bytes of an answer: a page of 1000 timers with large payloads, and no more.
const RESPONSE_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// What is safe to repeat is repeated twice, so that a connection that breaks is no matter, and an
/// address where nobody listens is told at once.
const RETRIES: Retries = Retries {
    tries_max: 3,
    first_wait: Duration::from_millis(50),
    longest_wait: Duration::from_millis(200),
};

/// A client of `server`, whose name and password, if it has any, are shown to the proxy there.
pub(crate) fn of(server: &Url) -> Result<Client, Failure> {
    let mut address = server.clone();
    // Refused where there is no room for them: then there are none.
    address.set_password(None).ok();
    address.set_username("").ok();
    let mut builder = Client::builder(address)
        .user_agent(concat!("duly-cli/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .timeout(EXCHANGE)
        .message_bytes_max(RESPONSE_BYTES_MAX)
        .retries(RETRIES)
        .on_notice(note);
    if !server.username().is_empty() || server.password().is_some() {
        let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        builder = builder.basic(plain(server.username()), plain(server.password().unwrap_or("")));
    }
    // Changes go one by one, so that they answer the timer whole.
    let client = builder.build().map_err(|error| problem::failure(&error, &[]))?;
    Ok(client.unbatched())
}
