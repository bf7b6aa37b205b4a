//! HTTP/2 requests whose caller opens no flow-control window: written frame by frame, as no client does
//! it.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// Requests per connection: the most that a server accepts at once.
const STREAMS: u32 = 250;

/// Begins a connection, with SETTINGS_INITIAL_WINDOW_SIZE 0: no byte of a body may be sent.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x06\x04\x00\x00\x00\x00\x00\
    \x00\x04\x00\x00\x00\x00";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Opens connections that request these paths in turn, and read nothing of the responses.
pub(super) fn unread(address: SocketAddr, paths: &[&str], connections: usize) -> Vec<TcpStream> {
    let request = |i: usize, stream: u32, text: &mut Vec<u8>| {
        let fields = head("GET", paths[i % paths.len()], address);
        frame(text, HEADERS, END_STREAM | END_HEADERS, stream, &fields);
    };
    (0..connections).filter_map(|_| connection(address, &request)).collect()
}

/// Does the same with gRPC calls whose message has a namespace in its first field.
pub(super) fn unread_grpc(
    address: SocketAddr,
    method: &str,
    namespace: &str,
    connections: usize,
) -> Vec<TcpStream> {
    let request = |_: usize, stream: u32, text: &mut Vec<u8>| {
        let mut fields = head("POST", &format!("/duly.v1.{method}"), address);
        field(&mut fields, "content-type", "application/grpc");
        field(&mut fields, "te", "trailers");
        frame(text, HEADERS, END_HEADERS, stream, &fields);
        let name = namespace.as_bytes();
        let length = u8::try_from(name.len()).expect("a short name");
        let mut message = vec![0, 0, 0, 0, length + 2, 0x0A, length];
        message.extend_from_slice(name);
        frame(text, DATA, END_STREAM, stream, &message);
    };
    (0..connections).filter_map(|_| connection(address, &request)).collect()
}

/// Returns the bytes of a connection that opens streams and sends no body.
pub(super) fn opening(
    (method, path): (&str, &str),
    fields: &[(&str, &str)],
    streams: u32,
    address: SocketAddr,
) -> Vec<u8> {
    let mut fields_of_all = head(method, path, address);
    fields.iter().for_each(|(name, value)| field(&mut fields_of_all, name, value));
    let ends = if method == "POST" { 0 } else { END_STREAM };
    opened(&fields_of_all, ends, streams)
}

/// Returns the bytes of a connection whose heads have many fields of one byte: `accept-charset` of the static table,
/// without a value. In memory such a head takes a hundred times its bytes.
pub(super) fn opening_indexed(path: &str, streams: u32, address: SocketAddr) -> Vec<u8> {
    let mut fields = head("GET", path, address);
    fields.resize(fields.len() + 340, 0x80 | 15);
    opened(&fields, END_STREAM, streams)
}

fn opened(fields: &[u8], ends: u8, streams: u32) -> Vec<u8> {
    let mut text = PREFACE.to_vec();
    for i in 0..streams {
        frame(&mut text, HEADERS, ends | END_HEADERS, 2 * i + 1, fields);
    }
    text
}

fn connection(
    address: SocketAddr,
    request: &dyn Fn(usize, u32, &mut Vec<u8>),
) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_write_timeout(Some(Duration::from_millis(300))).ok()?;
    let mut text = PREFACE.to_vec();
    for i in 0..STREAMS {
        request(i as usize, 2 * i + 1, &mut text);
    }
    stream.write_all(&text).ok();
    Some(stream)
}

fn frame(text: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    text.extend_from_slice(&length[1..]);
    text.extend_from_slice(&[kind, flags]);
    text.extend_from_slice(&stream.to_be_bytes());
    text.extend_from_slice(payload);
}

fn head(method: &str, path: &str, address: SocketAddr) -> Vec<u8> {
    let mut fields = Vec::new();
    field(&mut fields, ":method", method);
    field(&mut fields, ":scheme", "http");
    field(&mut fields, ":path", path);
    field(&mut fields, ":authority", &address.to_string());
    fields
}

/// Writes a literal header field without an index (RFC 7541, 6.2.2).
fn field(fields: &mut Vec<u8>, name: &str, value: &str) {
    fields.push(0);
    for text in [name, value] {
        integer(fields, text.len());
        fields.extend_from_slice(text.as_bytes());
    }
}

/// Writes an integer with a prefix of seven bits (RFC 7541, 5.1).
fn integer(fields: &mut Vec<u8>, value: usize) {
    const PREFIX: usize = 127;
    let low = |value: usize| u8::try_from(value & PREFIX).expect("seven bits");
    if value < PREFIX {
        fields.push(low(value));
        return;
    }
    fields.push(low(PREFIX));
    let mut rest = value - PREFIX;
    while rest > PREFIX {
        fields.push(low(rest) | 0x80);
        rest >>= 7;
    }
    fields.push(low(rest));
}
