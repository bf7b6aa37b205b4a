//! Destinations.

use duly_core::{Destination, Invalid, destination::HttpDestination, headers};
use duly_proto::v1::{self, destination::Kind};

use super::{
    super::{
        DestinationIn,
        destination::{HttpIn, PullIn, shown_url},
        headers::{Credentials, REDACTED},
    },
    headers_in,
    time::{duration_out, maybe_duration_in},
};

/// A destination as a caller wrote it; an error names the field below `field`.
pub(crate) fn destination_in(
    field: &str,
    destination: v1::Destination,
) -> Result<DestinationIn, Invalid> {
    let mut read = DestinationIn::default();
    match destination.kind {
        None => {}
        Some(Kind::Pull(v1::PullDestination {})) => read.pull = Some(PullIn {}),
        Some(Kind::Http(http)) => {
            let timeout = maybe_duration_in("http.timeout", http.timeout)
                .map_err(|invalid| invalid.within(field))?;
            read.http = Some(HttpIn {
                url: http.url,
                method: http.method,
                headers: headers_in(http.headers),
                timeout,
            });
        }
    }
    Ok(read)
}

/// A destination in an answer.
pub(crate) fn destination_out(destination: &Destination) -> v1::Destination {
    match destination {
        Destination::Pull => v1::Destination { kind: Some(Kind::Pull(v1::PullDestination {})) },
        Destination::Http(http) => http_out(http),
    }
}

/// A webhook receiver in an answer: credentials are not shown.
pub(super) fn http_out(http: &HttpDestination) -> v1::Destination {
    let shown = |(name, value): (&str, &str)| v1::Header {
        name: name.to_owned(),
        value: if headers::is_shown(name) { value } else { REDACTED }.to_owned(),
    };
    let http = v1::HttpDestination {
        url: shown_url(http, Credentials::Redacted).into_owned(),
        method: Some(http.method.as_str().to_owned()),
        headers: http.headers.iter().map(shown).collect(),
        timeout: Some(duration_out(http.timeout)),
    };
    v1::Destination { kind: Some(Kind::Http(http)) }
}
