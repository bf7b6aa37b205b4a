//! Headers that travel with a firing: checked, in lower case, in the caller's order.

use crate::invalid::Invalid;

/// Maximum number of headers of one timer or destination.
pub const COUNT_MAX: usize = 64;
/// Maximum bytes of all names and values together.
pub const BYTES_MAX: usize = 8 * 1024;

/// Header names that are set by the transport or by Duly.
const REFUSED: [&str; 13] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "trailers",
    "transfer-encoding",
    "upgrade",
];
/// Prefixes of header names that are set by Duly.
const REFUSED_PREFIXES: [&str; 3] = ["ce-", "webhook-", "duly-"];

/// Headers in which proxies name the client that they forward for (RFC 7239 and its predecessors).
const FORWARDED: [&str; 2] = ["forwarded", "x-real-ip"];
/// The prefix of other such headers.
const FORWARDED_PREFIX: &str = "x-forwarded-";

/// Returns `true` if the header with this lower-case name tells for which client a request is forwarded.
/// Receivers trust Duly with this as they trust a proxy, so no caller may set it.
pub fn is_forwarded(name: &str) -> bool {
    FORWARDED.contains(&name) || name.starts_with(FORWARDED_PREFIX)
}

/// Header of every delivery, by which a server recognises a delivery of Duly. Callers cannot set it, and no
/// call of the API may have it (like `CDN-Loop`, RFC 8586).
pub const LOOP: &str = "duly-loop";

/// Headers whose values are shown. Any other header may hold a credential, whichever name it has.
const SHOWN: [&str; 17] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "date",
    "pragma",
    "prefer",
    "traceparent",
    "tracestate",
    "user-agent",
    "x-correlation-id",
    "x-request-id",
];

/// Returns `true` if the API shows the value of the header with this lower-case name.
pub fn is_shown(name: &str) -> bool {
    SHOWN.contains(&name)
}

/// Header names (lower case, unique) and values (visible ASCII with inner spaces), in the caller's order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// Creates headers from pairs of name and value, after checking them. The field of an error is the name of
    /// the header, if it is about one: as given if the name is refused, else in lower case.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, Invalid> {
        let mut checked: Vec<(String, String)> = Vec::new();
        let mut total_bytes = 0;
        for (given, value) in pairs {
            let name = check_name(&given).map_err(|invalid| invalid.within(&given))?;
            check_value(&name, &value)?;
            if checked.iter().any(|(known, _)| *known == name) {
                return Err(Invalid::new("", &name, "names that differ in more than case"));
            }
            total_bytes += name.len() + value.len();
            checked.push((name, value));
            if checked.len() > COUNT_MAX {
                return Err(Invalid::unseen("", format!("at most {COUNT_MAX} headers")));
            }
            if total_bytes > BYTES_MAX {
                let allowed = format!("at most {BYTES_MAX} bytes of names and values together");
                return Err(Invalid::unseen("", allowed));
            }
        }
        Ok(Self(checked))
    }

    /// Creates headers from pairs that were checked when they were accepted. Accepted pairs stay valid, even
    /// if the rules of [`Self::new`] have become stricter since.
    pub const fn from_stored(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// Returns the name and value of each header.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the value of a header, by its lower-case name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Returns the memory that they take besides their own size, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let texts = self.0.iter().map(|(name, value)| name.capacity() + value.capacity());
        self.0.capacity() * size_of::<(String, String)>() + texts.sum::<usize>()
    }

    /// Returns `true` if there are no headers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of headers.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

fn check_name(name: &str) -> Result<String, Invalid> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(token) {
        let allowed = "an HTTP header name (letters, digits and !#$%&'*+-.^_`|~)";
        return Err(Invalid::new("", name, allowed));
    }
    let name = name.to_ascii_lowercase();
    if is_forwarded(&name) {
        let allowed = "a header of your own: forwarded, x-forwarded-* and x-real-ip say for whom a \
                       proxy sends, and receivers would believe them";
        return Err(Invalid::new("", name, allowed));
    }
    let ours = REFUSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    if ours || REFUSED.contains(&name.as_str()) {
        let allowed = "a header of your own: ce-*, webhook-*, duly-*, hop-by-hop headers, host, \
                       content-length, te and expect are set by Duly";
        return Err(Invalid::new("", name, allowed));
    }
    Ok(name)
}

fn check_value(name: &str, value: &str) -> Result<(), Invalid> {
    let inner = value.bytes().all(|b| (0x20..=0x7e).contains(&b));
    if inner && !value.starts_with(' ') && !value.ends_with(' ') {
        Ok(())
    } else {
        // Any value may be a credential, so the error does not show it.
        Err(Invalid::unseen(name, "visible ASCII with spaces only inside"))
    }
}

#[cfg(test)]
mod tests;
