use axum::Router;
use http::{Request, StatusCode};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::{auth::Caller, connection::Routers};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const HEADERS: u8 = 1;
const GOAWAY: u8 = 7;

/// Returns a GET request on a stream.
fn get(stream: u8) -> Vec<u8> {
    let fields = b"\x82\x86\x84\x01\x01a";
    let length = u8::try_from(fields.len()).expect("short");
    [&[0, 0, length, HEADERS, 5, 0, 0, 0, stream], &fields[..]].concat()
}

/// Reads until a frame of this type on this stream.
async fn read_until(connection: &mut TcpStream, wanted: (u8, u8)) {
    loop {
        let mut head = [0; 9];
        let read = timeout(Duration::from_secs(10), connection.read_exact(&mut head)).await;
        read.expect("a frame").unwrap_or_else(|error| panic!("{wanted:?}: {error}"));
        let [high, middle, low, kind, _, _, _, _, stream] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        connection.read_exact(&mut payload).await.expect("its payload");
        if (kind, stream) == wanted {
            return;
        }
    }
}

#[tokio::test]
async fn p10_a_connection_that_makes_way_ends_its_last_calls() {
    let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = socket.local_addr().expect("an address");
    let router = Router::new().fallback(async |request: Request<axum::body::Body>| {
        let connection = request.extensions().get::<Connection>().expect("its connection");
        connection.note_caller(&Caller::Anyone);
        StatusCode::NO_CONTENT
    });
    let switch = RouterSwitch::new(Routers::new(router.clone(), router, None));
    let settings = ConnectionSettings {
        connections_max: 1,
        per_address_max: 1,
        trusted_proxies: Vec::new(),
        request_memory_max: 1024 * 1024,
        header_timeout: Duration::from_secs(10),
        write_timeout: Duration::from_secs(10),
        drain_timeout: Duration::ZERO,
    };
    let listeners = vec![socket.try_into().expect("a listener")];
    let _serving = Serving::start((listeners, switch), None, None, settings, Metrics::install());
    let mut first = TcpStream::connect(address).await.expect("the only place");
    first.write_all(&[PREFACE, &get(1)].concat()).await.expect("open");
    read_until(&mut first, (HEADERS, 1)).await;
    let _second = TcpStream::connect(address).await.expect("its place");
    read_until(&mut first, (GOAWAY, 0)).await;
    // A client sends this before it has read the frame.
    first.write_all(&get(3)).await.expect("open");
    read_until(&mut first, (HEADERS, 3)).await;
}
