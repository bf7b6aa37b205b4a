//! Damage to a call: to its body, its query, its path, its headers, its method.

use http::{HeaderName, HeaderValue, Request, Uri};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    body::{self, InBody},
    calls::{Call, JSON, NDJSON, Sent},
};

/// A call that is being damaged.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    method: &'static str,
    /// Namespace and id in the path.
    names: [String; 2],
    path: String,
    query: Vec<String>,
    headers: Vec<(HeaderName, HeaderValue)>,
    sent: Sent,
    body: Vec<u8>,
}

/// One kind of damage to a call.
#[derive(Debug, Clone)]
pub(super) enum Damage {
    Body(InBody),
    Query(InQuery),
    Path(InPath),
    /// A header gets another value or a second one, or is removed.
    Header(&'static str, InHeader),
    Method(&'static str),
}

#[derive(Debug, Clone)]
pub(super) enum InQuery {
    /// The n-th parameter gets another value.
    Value(usize, String),
    /// The n-th parameter gets another name.
    Key(usize, String),
    /// The n-th parameter is repeated.
    Repeat(usize),
    Remove(usize),
    /// A text is appended.
    Add(String),
}

#[derive(Debug, Clone)]
pub(super) enum InPath {
    /// Another namespace (0) or id (1).
    Name(usize, String),
    /// The n-th part is replaced.
    Part(usize, String),
    Add(String),
}

#[derive(Debug, Clone)]
pub(super) enum InHeader {
    Put(Vec<u8>),
    Repeat(Vec<u8>),
    /// The header is repeated unchanged.
    Double,
    Remove,
}

/// Headers that the server reads, or that could be thought to matter.
const HEADERS: [&str; 17] = [
    "content-type",
    "accept",
    "traceparent",
    "tracestate",
    "host",
    "origin",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "accept-encoding",
    "if-match",
    "if-none-match",
    "idempotency-key",
    "expect",
    "x-http-method-override",
    "access-control-request-method",
    "access-control-request-headers",
];
const METHODS: [&str; 8] =
    ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"];
/// Encoded texts in place of a value in a path or a query.
const PIECES: [&str; 32] = [
    "",
    ".",
    "..",
    "%2e%2e",
    "%2F",
    "a%2Fb",
    "%",
    "%4",
    "%zz",
    "%00",
    "%ff%fe",
    "%C3%28",
    "%E2%80%AE",
    "+",
    "b",
    "dead",
    "held",
    "*",
    ";x=y",
    "a=b",
    "0",
    "-1",
    "1",
    "99999999999999999999",
    "1e9",
    "0.5",
    "2026-02-30T25:61:61Z",
    "2031-01-01T00:00:00+01:00",
    "1h1h",
    "all",
    "pending",
    "true",
];
/// Names of query parameters.
const KEYS: [&str; 16] = [
    "limit",
    "cursor",
    "state",
    "due_from",
    "due_to",
    "id_prefix",
    "tag",
    "force",
    "results",
    "bucket",
    "count",
    "if_revision",
    "unknown",
    "LIMIT",
    "limit%00",
    "",
];
const VALUES: [&str; 24] = [
    "",
    JSON,
    NDJSON,
    "application/json; charset=utf-16",
    "application/json;",
    "application/json, text/plain",
    "APPLICATION/JSON",
    "text/plain",
    "multipart/form-data; boundary=x",
    "application/grpc",
    "*/*;q=0",
    ";;;,,,",
    "application/x-ndjson;q=0, application/json;q=2",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "00-00000000000000000000000000000000-b7ad6b7169203331-01",
    "ff-0-0-0",
    "evil.example",
    "localhost:99999",
    "[::1",
    "http://evil.example",
    "https://console.example",
    "99999999999999999999",
    "gzip, br",
    "*",
];

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => proptest::sample::select(&PIECES[..]).prop_map(str::to_owned),
        2 => any::<String>().prop_map(|text| escaped(&text, |_| false)),
        2 => any::<String>(),
        1 => proptest::sample::select(&[200_usize, 256, 257, 1_000, 20_000][..])
            .prop_map(|length| "9".repeat(length)),
    ]
}

fn in_query() -> impl Strategy<Value = InQuery> {
    let key =
        prop_oneof![4 => proptest::sample::select(&KEYS[..]).prop_map(str::to_owned), 1 => piece()];
    prop_oneof![
        4 => (0..7_usize, piece()).prop_map(|(at, text)| InQuery::Value(at, text)),
        1 => (0..7_usize, piece()).prop_map(|(at, text)| InQuery::Key(at, text)),
        1 => (0..7_usize).prop_map(InQuery::Repeat),
        1 => (0..7_usize).prop_map(InQuery::Remove),
        3 => (key, piece()).prop_map(|(key, text)| InQuery::Add(format!("{key}={text}"))),
        1 => piece().prop_map(InQuery::Add),
    ]
}

fn in_path() -> impl Strategy<Value = InPath> {
    prop_oneof![
        6 => (0..2_usize, piece()).prop_map(|(which, text)| InPath::Name(which, text)),
        1 => (0..7_usize, piece()).prop_map(|(at, text)| InPath::Part(at, text)),
        1 => piece().prop_map(|text| InPath::Add(format!("/{text}"))),
    ]
}

fn in_header() -> impl Strategy<Value = InHeader> {
    let value = || {
        prop_oneof![
            6 => proptest::sample::select(&VALUES[..]).prop_map(|text| text.as_bytes().to_vec()),
            2 => proptest::collection::vec(prop_oneof![0x20..=0x7e_u8, 0x80..=0xff_u8], 0..40),
            1 => Just(vec![b'a'; 20_000]),
        ]
    };
    prop_oneof![
        5 => value().prop_map(InHeader::Put),
        2 => value().prop_map(InHeader::Repeat),
        2 => Just(InHeader::Double),
        1 => Just(InHeader::Remove),
    ]
}

pub(super) fn damage() -> impl Strategy<Value = Damage> {
    let header = prop_oneof![
        1 => proptest::sample::select(&HEADERS[..3]),
        1 => proptest::sample::select(&HEADERS[..]),
    ];
    prop_oneof![
        10 => body::damage().prop_map(Damage::Body),
        6 => in_query().prop_map(Damage::Query),
        4 => in_path().prop_map(Damage::Path),
        4 => (header, in_header()).prop_map(|(name, what)| Damage::Header(name, what)),
        1 => proptest::sample::select(&METHODS[..]).prop_map(Damage::Method),
    ]
}

impl Draft {
    pub(super) fn of(call: &Call) -> Self {
        let mut headers = vec![("host", "localhost")];
        headers.extend(call.content_type().map(|kind| ("content-type", kind)));
        headers.extend(call.accept.map(|kind| ("accept", kind)));
        let header =
            |(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        Self {
            method: call.method,
            names: ["a".into(), "t".into()],
            path: call.path.into(),
            query: call
                .query
                .split('&')
                .filter(|pair| !pair.is_empty())
                .map(str::to_owned)
                .collect(),
            headers: headers.into_iter().map(header).collect(),
            body: body::text(&call.sent),
            sent: call.sent.clone(),
        }
    }

    pub(super) fn suffer(&mut self, damage: &Damage) {
        match damage {
            Damage::Body(damage) => self.body = body::damaged(&self.sent, damage),
            Damage::Query(damage) => self.suffer_query(damage),
            Damage::Path(InPath::Name(which, text)) => self.names[*which].clone_from(text),
            Damage::Path(InPath::Add(text)) => self.path.push_str(text),
            Damage::Path(InPath::Part(at, text)) => {
                let mut parts: Vec<_> = self.path.split('/').collect();
                let at = 1 + at % (parts.len() - 1);
                parts[at] = text;
                self.path = parts.join("/");
            }
            Damage::Header(name, damage) => {
                let name = HeaderName::from_static(name);
                if matches!(damage, InHeader::Double) {
                    let same = self.headers.iter().find(|(it, _)| *it == name).cloned();
                    return self.headers.extend(same);
                }
                let (InHeader::Put(value) | InHeader::Repeat(value)) = damage else {
                    return self.headers.retain(|(it, _)| *it != name);
                };
                if matches!(damage, InHeader::Put(_)) {
                    self.headers.retain(|(it, _)| *it != name);
                }
                let value = HeaderValue::from_bytes(value).expect("it has no control characters");
                self.headers.push((name, value));
            }
            Damage::Method(method) => self.method = method,
        }
    }

    fn suffer_query(&mut self, damage: &InQuery) {
        if self.query.is_empty() {
            self.query.push("x=y".into());
        }
        let total = self.query.len();
        match damage {
            InQuery::Value(at, text) => {
                let pair = &mut self.query[at % total];
                let key = pair.split('=').next().unwrap_or_default();
                *pair = format!("{key}={text}");
            }
            InQuery::Key(at, text) => {
                let pair = &mut self.query[at % total];
                let value = pair.split_once('=').map_or("", |(_, value)| value);
                *pair = format!("{text}={value}");
            }
            InQuery::Repeat(at) => self.query.push(self.query[at % total].clone()),
            InQuery::Remove(at) => drop(self.query.remove(at % total)),
            InQuery::Add(text) => self.query.push(text.clone()),
        }
    }

    /// Returns the request. Characters that a URI cannot hold are escaped.
    pub(super) fn request(self) -> Request<axum::body::Body> {
        let [namespace, id] = &self.names;
        let path = self
            .path
            .replace("{namespace}", namespace)
            .replace("{id}", id)
            .replace("{tenant}", "acme");
        let query = self.query.join("&");
        let mark = if query.is_empty() { "" } else { "?" };
        let uri = format!("{path}{mark}{query}");
        let uri = Uri::try_from(uri.as_str()).unwrap_or_else(|_| {
            let allowed = |byte: u8| b"%/?=&;+*".contains(&byte);
            Uri::try_from(escaped(&uri, allowed)).expect("it is escaped")
        });
        let mut request = Request::builder().method(self.method).uri(uri);
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        request.body(self.body.into()).expect("its parts are proper")
    }

    /// Returns the call as text for people.
    pub(super) fn shown(&self) -> String {
        let names = json!(self.names);
        let query = self.query.join("&");
        let body = String::from_utf8_lossy(&self.body);
        let text =
            format!("{} {} {names} ?{query} {:?} {body}", self.method, self.path, self.headers);
        text.chars().take(4_000).collect()
    }
}

fn escaped(text: &str, allowed: impl Fn(u8) -> bool) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || allowed(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Returns values in place of a value of a body.
pub(super) fn odd() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        Just(json!(0)),
        Just(json!(-1)),
        Just(json!(u64::MAX)),
        Just(json!(i64::MIN)),
        Just(json!(1e300)),
        Just(json!(0.1)),
        Just(json!(4_102_444_800_000_u64)),
        Just(json!(7_258_118_400_000_u64)),
        any::<i64>().prop_map(|n| json!(n)),
    ];
    let text = prop_oneof![
        Just(json!("")),
        Just(json!("\u{0}")),
        Just(json!("..")),
        Just(json!("9".repeat(400))),
        Just(json!("1h1h")),
        Just(json!("99999999999999999999d")),
        Just(json!("2026-02-30T25:61:61Z")),
        Just(json!("http://user:pw@[::ffff:7f00:1]:0/")),
        Just(json!("é\u{202e}%2F")),
        any::<String>().prop_map(|text| json!(text)),
    ];
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number,
        text,
        Just(json!([])),
        Just(json!({})),
        Just(json!([[[[]]]])),
        Just(json!({"a": {"b": null}})),
    ]
}
