//! Values of keys: what each kind allows, read from text (environment, flags) or from TOML.

use std::{fmt, net::SocketAddr, ops::RangeInclusive, path::PathBuf};

use duly_core::{Invalid, Millis, invalid::shorten};
use ipnet::IpNet;
use serde::{Serialize, Serializer};

use super::{
    reach::{self, ProxyUrl},
    remote::{self, StoreUrl},
    web,
};
use crate::telemetry::logging;

/// What the value of a key may be.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Loopback address and port.
    LoopbackAddress,
    /// Loopback address and port, or nothing.
    LoopbackAddressOrNone,
    /// A list of names of hosts.
    Hosts,
    /// A list of origins of web pages.
    Origins,
    /// A number of bytes.
    Bytes {
        /// Least.
        low: u64,
        /// Most.
        high: u64,
    },
    /// A number of bytes, or `auto`.
    BytesOrAuto {
        /// Least.
        low: u64,
        /// Most.
        high: u64,
    },
    /// An integer.
    Integer {
        /// Least.
        low: u64,
        /// Most.
        high: u64,
        /// What it counts.
        unit: &'static str,
    },
    /// A duration.
    Duration {
        /// Least.
        low: Millis,
        /// Most.
        high: Millis,
    },
    /// A path.
    Path,
    /// An absolute path, or nothing.
    PathOrNone,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of networks.
    Networks,
    /// A list of ports and ranges of ports.
    Ports,
    /// The URL of an HTTP proxy, or nothing.
    ProxyOrNone,
    /// The URL of a store that nodes share, or nothing.
    StoreUrlOrNone,
    /// A list of some of these words.
    Words(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// A short name of letters, digits, `-`, `_` and `.`, or nothing.
    NameOrNone,
    /// A filter of log lines.
    LogFilter,
}

/// A checked value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Address and port.
    Address(SocketAddr),
    /// A list of texts.
    Texts(Vec<String>),
    /// A number; `None` is `auto`.
    Number(Option<u64>),
    /// A duration.
    Duration(Millis),
    /// A path.
    Path(PathBuf),
    /// A word.
    Word(String),
    /// A list of networks.
    Networks(Vec<IpNet>),
    /// A list of ranges of ports.
    Ports(Vec<RangeInclusive<u16>>),
    /// A proxy, if there is one.
    Proxy(Option<ProxyUrl>),
    /// A store that nodes share, if there is one.
    Store(Option<StoreUrl>),
    /// `true` or `false`.
    Flag(bool),
}

/// A value as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// Text; lists are separated by commas.
    Text(String),
    /// An integer of the file.
    Integer(i64),
    /// A flag of the file.
    Flag(bool),
    /// A list of texts of the file.
    List(Vec<String>),
    /// Anything else of the file.
    Other(String),
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&shorten(text)),
            Self::Integer(number) => number.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
            Self::List(texts) => f.write_str(&shorten(&texts.join(", "))),
            Self::Other(kind) => f.write_str(kind),
        }
    }
}

impl Kind {
    /// Checks a value.
    ///
    /// # Errors
    /// What is allowed, as the end of "the key must be …".
    pub fn check(self, written: &Written) -> Result<Value, String> {
        self.read(written).ok_or_else(|| self.allowed())
    }

    /// A refused value as it may be shown: a URL may hold a password.
    pub(super) fn shown(self, written: &Written) -> String {
        match self {
            Self::StoreUrlOrNone => match written {
                Written::Text(text) => remote::refused(text),
                _ => "something that is no text".to_owned(),
            },
            Self::ProxyOrNone => "another value (not shown: it may hold a password)".to_owned(),
            _ => written.to_string(),
        }
    }

    /// What is allowed.
    pub fn allowed(self) -> String {
        match self {
            Self::LoopbackAddressOrNone => {
                format!("{}, or nothing", Self::LoopbackAddress.allowed())
            }
            Self::LoopbackAddress => "a loopback address with a port, such as 127.0.0.1:3859 or \
                                      [::1]:3859 (other addresses are refused until API keys \
                                      exist)"
                .to_owned(),
            Self::Hosts => "a list of host names or addresses without scheme and port, such as \
                            duly.example.com (in the environment and on the command line \
                            separated by commas)"
                .to_owned(),
            Self::Origins => "a list of origins of web pages, scheme://name or \
                              scheme://name:port without a path, such as \
                              https://console.example.com (in the environment and on the command \
                              line separated by commas)"
                .to_owned(),
            Self::Bytes { low, high } => format!(
                "a number of bytes from {} to {}, such as 65536, 64KiB, 32MiB or 2GiB",
                Bytes(low),
                Bytes(high)
            ),
            Self::BytesOrAuto { low, high } => format!(
                "auto, or a number of bytes from {} to {}, such as 64KiB, 32MiB or 2GiB",
                Bytes(low),
                Bytes(high)
            ),
            Self::Integer { low, high, unit } => {
                format!("an integer from {low} to {high} ({unit})")
            }
            Self::Duration { low, high } => {
                format!("a duration from {low} to {high}, such as 30s or 1m30s")
            }
            Self::Path => "a path".to_owned(),
            Self::PathOrNone => "an absolute path, or nothing".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Networks => "a list of networks such as 10.1.0.0/16 or fd00::/8 (in the \
                               environment and on the command line separated by commas)"
                .to_owned(),
            Self::Ports => {
                "a list of ports from 1 to 65535 and ranges of them such as 8000-8999 (in \
                            the environment and on the command line separated by commas)"
                    .to_owned()
            }
            Self::ProxyOrNone => {
                "http://host:port of an HTTP proxy, without user name and password \
                                  (they go into the file of webhook.proxy_credentials_file), or \
                                  nothing"
                    .to_owned()
            }
            Self::StoreUrlOrNone => {
                "redis://host:port, redis-cluster://host:port,host:port, the same with rediss for \
                 TLS, each with user@ in front of the hosts where there is a user, or nothing"
                    .to_owned()
            }
            Self::Words(words) => format!(
                "a list of some of {} (in the environment and on the command line separated by \
                 commas)",
                words.join(", ")
            ),
            Self::Flag => "true or false".to_owned(),
            Self::NameOrNone => {
                "1 to 64 letters, digits, '-', '_' and '.', such as orders-prod, or nothing"
                    .to_owned()
            }
            Self::LogFilter => {
                "a level (error, warn, info, debug, trace) or a filter such as info,duly_node=debug"
                    .to_owned()
            }
        }
    }

    /// What numbers of this kind count; texts have no unit.
    pub const fn unit(self) -> Option<&'static str> {
        match self {
            Self::Bytes { .. } | Self::BytesOrAuto { .. } => {
                Some("bytes, or text with KiB, MiB, GiB or TiB")
            }
            Self::Duration { .. } => Some("milliseconds, or text with d, h, m, s and ms"),
            Self::Integer { unit, .. } => Some(unit),
            _ => None,
        }
    }

    fn read(self, written: &Written) -> Option<Value> {
        match (self, written) {
            (Self::LoopbackAddressOrNone, Written::Text(text)) if text.trim().is_empty() => {
                Some(Value::Word(String::new()))
            }
            (Self::LoopbackAddressOrNone, written) => Self::LoopbackAddress.read(written),
            (Self::LoopbackAddress, Written::Text(text)) => {
                let address: SocketAddr = text.trim().parse().ok()?;
                address.ip().is_loopback().then_some(Value::Address(address))
            }
            (Self::Hosts, written) => {
                let hosts = list(written)?.into_iter().map(|text| web::host(&text));
                hosts.collect::<Option<_>>().map(Value::Texts)
            }
            (Self::Origins, written) => {
                let origins = list(written)?.into_iter().map(|text| web::origin(&text));
                origins.collect::<Option<_>>().map(Value::Texts)
            }
            (Self::Networks, written) => {
                let networks = list(written)?.into_iter().map(|text| text.parse().ok());
                networks.collect::<Option<_>>().map(Value::Networks)
            }
            (Self::Ports, Written::Integer(port)) => {
                reach::ports(&port.to_string()).map(|range| Value::Ports(vec![range]))
            }
            (Self::Ports, written) => {
                let ranges = list(written)?.into_iter().map(|text| reach::ports(&text));
                ranges.collect::<Option<_>>().map(Value::Ports)
            }
            (Self::ProxyOrNone, Written::Text(text)) if text.trim().is_empty() => {
                Some(Value::Proxy(None))
            }
            (Self::ProxyOrNone, Written::Text(text)) => {
                ProxyUrl::parse(text.trim()).map(|proxy| Value::Proxy(Some(proxy)))
            }
            (Self::StoreUrlOrNone, Written::Text(text)) if text.trim().is_empty() => {
                Some(Value::Store(None))
            }
            (Self::StoreUrlOrNone, Written::Text(text)) => {
                StoreUrl::parse(text.trim()).ok().map(|url| Value::Store(Some(url)))
            }
            (Self::Words(words), written) => {
                let texts = list(written)?;
                let are_known = texts.iter().all(|text| words.contains(&text.as_str()));
                are_known.then_some(Value::Texts(texts))
            }
            (Self::BytesOrAuto { .. }, Written::Text(text)) if text.trim() == "auto" => {
                Some(Value::Number(None))
            }
            (Self::Bytes { low, high } | Self::BytesOrAuto { low, high }, written) => {
                let bytes = match written {
                    Written::Integer(number) => u64::try_from(*number).ok()?,
                    Written::Text(text) => parse_bytes(text.trim())?,
                    _ => return None,
                };
                (low..=high).contains(&bytes).then_some(())?;
                Some(Value::Number(Some(bytes)))
            }
            (Self::Integer { low, high, .. }, written) => {
                let number = match written {
                    Written::Integer(number) => u64::try_from(*number).ok()?,
                    Written::Text(text) => text.trim().parse().ok()?,
                    _ => return None,
                };
                (low..=high).contains(&number).then_some(())?;
                Some(Value::Number(Some(number)))
            }
            (Self::Duration { low, high }, written) => {
                let duration = match written {
                    Written::Integer(ms) => Millis::from_integer(i128::from(*ms)).ok()?,
                    Written::Text(text) => parse_duration(text.trim()).ok()?,
                    _ => return None,
                };
                duration.within(low, high).ok().map(Value::Duration)
            }
            (Self::PathOrNone, Written::Text(text)) => {
                let path = PathBuf::from(text);
                (text.is_empty() || path.is_absolute()).then_some(Value::Path(path))
            }
            (Self::Path, Written::Text(text)) if !text.is_empty() => {
                Some(Value::Path(PathBuf::from(text)))
            }
            (Self::Choice(words), Written::Text(text)) => {
                let text = text.trim();
                words.contains(&text).then(|| Value::Word(text.to_owned()))
            }
            (Self::Flag, Written::Flag(flag)) => Some(Value::Flag(*flag)),
            (Self::Flag, Written::Text(text)) => text.trim().parse().ok().map(Value::Flag),
            (Self::NameOrNone, Written::Text(text)) => {
                let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                let is_name = text.len() <= 64 && text.chars().all(fits);
                is_name.then(|| Value::Word(text.clone()))
            }
            (Self::LogFilter, Written::Text(text)) => {
                logging::is_filter(text).then(|| Value::Word(text.clone()))
            }
            _ => None,
        }
    }
}

fn list(written: &Written) -> Option<Vec<String>> {
    let texts: Vec<String> = match written {
        Written::Text(text) => text.split(',').map(|t| t.trim().to_owned()).collect(),
        Written::List(texts) => texts.clone(),
        _ => return None,
    };
    Some(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

/// Environment and flags know only text: a bare number counts milliseconds there, too.
fn parse_duration(text: &str) -> Result<Millis, Invalid> {
    match text.parse() {
        Ok(ms) => Millis::from_integer(ms),
        Err(_) => Millis::parse(text),
    }
}

const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

fn parse_bytes(text: &str) -> Option<u64> {
    for (unit, shift) in UNITS {
        if let Some(number) = text.strip_suffix(unit) {
            let number: u64 = number.trim().parse().ok()?;
            return number.checked_mul(1 << shift);
        }
    }
    text.parse().ok()
}

/// A number of bytes, as text for people.
pub(super) fn bytes_text(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// A number of bytes, in the largest unit that it is a whole multiple of.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, shift)| self.0 != 0 && self.0.is_multiple_of(1 << shift));
        match unit {
            Some((unit, shift)) => write!(f, "{}{unit}", self.0 >> shift),
            None => self.0.fmt(f),
        }
    }
}

/// A value as the file would have it.
pub(super) fn toml_text(kind: Kind, value: &Value) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let array = |texts: Vec<String>| format!("[{}]", texts.join(", "));
    match (kind, value) {
        (_, Value::Address(address)) => quoted(&address.to_string()),
        (_, Value::Texts(texts)) => array(texts.iter().map(|t| quoted(t)).collect()),
        (_, Value::Networks(nets)) => array(nets.iter().map(|n| quoted(&n.to_string())).collect()),
        (_, Value::Ports(ranges)) => {
            array(ranges.iter().map(|range| quoted(&reach::ports_text(range))).collect())
        }
        (_, Value::Proxy(proxy)) => {
            quoted(&proxy.as_ref().map(ToString::to_string).unwrap_or_default())
        }
        (_, Value::Store(url)) => {
            quoted(&url.as_ref().map(ToString::to_string).unwrap_or_default())
        }
        (Kind::Integer { .. }, Value::Number(Some(number))) => number.to_string(),
        (_, Value::Number(Some(bytes))) => quoted(&Bytes(*bytes).to_string()),
        (_, Value::Number(None)) => quoted("auto"),
        (_, Value::Duration(duration)) => quoted(&duration.to_string()),
        (_, Value::Path(path)) => quoted(&path.to_string_lossy()),
        (_, Value::Word(word)) => quoted(word),
        (_, Value::Flag(flag)) => flag.to_string(),
    }
}

/// For programs: lists and numbers as such, sizes in bytes, everything else as its text. A file may
/// have it just so.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Address(address) => serializer.collect_str(address),
            Self::Texts(texts) => serializer.collect_seq(texts),
            Self::Number(Some(number)) => serializer.serialize_u64(*number),
            Self::Number(None) => serializer.serialize_str("auto"),
            Self::Duration(duration) => serializer.collect_str(duration),
            Self::Path(path) => serializer.serialize_str(&path.to_string_lossy()),
            Self::Word(word) => serializer.serialize_str(word),
            Self::Networks(nets) => serializer.collect_seq(nets.iter().map(ToString::to_string)),
            Self::Ports(ranges) => serializer.collect_seq(ranges.iter().map(reach::ports_text)),
            Self::Proxy(Some(proxy)) => serializer.collect_str(proxy),
            Self::Store(Some(url)) => serializer.collect_str(url),
            Self::Proxy(None) | Self::Store(None) => serializer.serialize_str(""),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
        }
    }
}
