//! Floods of connections and streams: by callers without a key, also over TLS, and of large heads by callers with
//! one. The server is never killed, and meanwhile each call of another caller with a key returns in time (P10).

use std::{
    fs,
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

use super::{Group, Limited, MIB, PATIENCE, SMALL_WITHIN, http2};
use crate::harness::{run, text};

/// Shortest and longest duration of a flood, which ends with its last connection.
const FLOOD: Duration = Duration::from_secs(5);
const FLOOD_MAX: Duration = Duration::from_secs(60);
/// Time limit of a call with a key, for 99 of 100. A build without optimization digests a flood slowly.
const WITHIN: Duration = if cfg!(debug_assertions) { FLOOD_MAX } else { SMALL_WITHIN };
/// Pause of a thread after each connection: the flood shares the machine with the server.
const PAUSE: Duration = Duration::from_millis(8);
/// The same for a flood from many addresses, which no pace holds back: a server without optimization digests its heads
/// slowly, also beside other programs.
const PAUSE_OF_MANY: Duration = Duration::from_millis(if cfg!(debug_assertions) { 40 } else { 8 });
/// Threads that open connections.
const THREADS: usize = 4;
/// Connections that a flood holds: more than a server of 512 MiB has.
const CONNECTIONS: usize = 1_300;
/// Addresses of a flood from many: a pace of each address alone does not end such a flood.
const ADDRESSES: usize = 20;

trait Io: Read + Write + Send {
    fn socket(&self) -> &TcpStream;
}

impl Io for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Io for StreamOwned<ClientConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }
}

/// Opens the connection with a number.
type Connect = fn(&Target, usize) -> Option<Box<dyn Io>>;

/// A server that admits callers with a key, and a caller with one.
struct Guarded {
    server: Limited,
    /// Of callers over HTTP/2.
    flooded: Target,
    /// Of callers over HTTP/1.1.
    own: Target,
    key: String,
    _directory: TempDir,
}

/// The address of a server, and the TLS that it takes.
#[derive(Clone)]
struct Target {
    address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
}

/// Returns the address of a caller on this machine.
fn source(number: usize) -> SocketAddr {
    let last = u8::try_from(number % ADDRESSES).expect("few");
    (Ipv4Addr::new(127, 0, 3, last + 1), 0).into()
}

fn connect_from(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&from.into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

impl Target {
    fn connect(&self) -> Option<Box<dyn Io>> {
        self.secured(TcpStream::connect(self.address).ok()?)
    }

    fn secured(&self, stream: TcpStream) -> Option<Box<dyn Io>> {
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_write_timeout(Some(Duration::from_millis(500))).ok()?;
        stream.set_nodelay(true).ok()?;
        let Some(tls) = &self.tls else { return Some(Box::new(stream)) };
        let name = ServerName::from(self.address.ip());
        let connection = ClientConnection::new(Arc::clone(tls), name).ok()?;
        let mut stream = StreamOwned::new(connection, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).ok()?;
        }
        Some(Box::new(stream))
    }

    /// Makes a call on a connection of its own. Returns the status of its response, or none.
    fn call(&self, key: &str) -> Option<u16> {
        self.call_on(&mut *self.connect()?, key)
    }

    /// Makes a call on this connection, which stays open.
    fn call_on(&self, stream: &mut dyn Io, key: &str) -> Option<u16> {
        let head = format!(
            "GET /v1/namespaces HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {key}\r\n\r\n",
            self.address
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.flush().ok()?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).ok()?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
        stream.read_exact(&mut vec![0; length.parse().ok()?]).ok()?;
        head.get(9..12)?.parse().ok()
    }
}

impl Guarded {
    fn start(group: Group, uses_tls: bool) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let path = |name: &str| directory.path().join(name);
        let (key_file, certificate_file, secret_file) = (path("key"), path("crt"), path("secret"));
        let key = run(&["key", "generate"]).ok().trim().to_owned();
        fs::write(&key_file, &key).expect("written");
        let mut settings =
            vec![("DULY_AUTH__MODE", "keys"), ("DULY_AUTH__ROOT_KEY_FILE", text(&key_file))];
        let mut tls = None;
        if uses_tls {
            let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
            let made = made.expect("a certificate");
            fs::write(&certificate_file, made.cert.pem()).expect("written");
            fs::write(&secret_file, made.signing_key.serialize_pem()).expect("written");
            settings.push(("DULY_TLS__CERTIFICATE_FILE", text(&certificate_file)));
            settings.push(("DULY_TLS__KEY_FILE", text(&secret_file)));
            let mut roots = RootCertStore::empty();
            let pem = made.cert.pem();
            let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
            roots.add(certificate).expect("an authority");
            let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("ring supports them");
            let mut config = builder.with_root_certificates(roots).with_no_client_auth();
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            tls = Some(config);
        }
        let server = Limited::start_with(group, &settings);
        let mut caller = tls.clone();
        if let Some(config) = &mut caller {
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
        }
        let target = Target { address: server.address, tls: tls.map(Arc::new) };
        let own = Target { address: server.address, tls: caller.map(Arc::new) };
        let until = Instant::now() + PATIENCE;
        while own.call(&key) != Some(200) {
            assert!(Instant::now() < until, "the server does not start");
            thread::sleep(Duration::from_millis(20));
        }
        Self { server, flooded: target, own, key, _directory: directory }
    }

    /// Makes calls with the key until the flood ends: each returns, and the server is never killed. Every second call
    /// has a connection of its own, the others share `kept`. Returns the 99th percentiles of their times that were
    /// too long.
    ///
    /// `repeats`: a call on a new connection may need more than one.
    fn watch(
        &mut self,
        flood: &str,
        (kept, repeats): (&mut dyn Io, bool),
        is_over: impl Fn() -> bool,
    ) -> Option<String> {
        let (mut most, mut times) = (0, [Vec::new(), Vec::new()]);
        let mut is_kept = false;
        while !is_over() {
            is_kept = !is_kept;
            let asked = Instant::now();
            let mut status = match is_kept {
                true => self.own.call_on(kept, &self.key),
                false => self.own.call(&self.key),
            };
            // A server without optimization beside other programs may not read a new connection within the second
            // after which it makes way.
            while repeats && !is_kept && status != Some(200) && asked.elapsed() < WITHIN {
                status = self.own.call(&self.key);
            }
            times[usize::from(is_kept)].push(asked.elapsed());
            most = most.max(self.server.resident_bytes());
            let ended = self.server.child.try_wait().expect("the child is ours");
            assert!(ended.is_none(), "{flood}: the server was killed ({ended:?}) at {most} bytes");
            assert_eq!(status, Some(200), "{flood}: a call with a key");
            thread::sleep(Duration::from_millis(10));
        }
        let slow = times.into_iter().zip(["new", "kept"]).filter_map(|(mut times, connection)| {
            times.sort_unstable();
            let (calls, p50) = (times.len(), times[times.len() / 2]);
            let p99 = times[calls * 99 / 100];
            eprintln!(
                "{flood}: {} MiB resident, {calls} calls on {connection} connections: p50 {p50:.1?}, p99 {p99:.1?}",
                most / MIB
            );
            (p99 > WITHIN).then(|| format!("{flood}, {connection} connections: {p99:?}"))
        });
        slow.reduce(|first, second| format!("{first}, {second}"))
    }

    /// Floods the server with connections that send these bytes, and opens each again that the server closes.
    fn flood(&mut self, flood: &str, bytes: &[u8]) -> Option<String> {
        let connect = |target: &Target, _| target.connect();
        self.flood_by(flood, bytes, (connect, PAUSE))
    }

    /// Does the same from many addresses.
    fn flood_from_many(&mut self, flood: &str, bytes: &[u8]) -> Option<String> {
        let connect = |target: &Target, number| {
            target.secured(connect_from(source(number), target.address).ok()?)
        };
        self.flood_by(flood, bytes, (connect, PAUSE_OF_MANY))
    }

    fn flood_by(
        &mut self,
        flood: &str,
        bytes: &[u8],
        connect: (Connect, Duration),
    ) -> Option<String> {
        // A kept connection has shown its key before the flood: until then it waits behind those of the flood.
        let mut kept = self.own.connect().expect("a connection");
        assert_eq!(self.own.call_on(&mut *kept, &self.key), Some(200), "{flood}: before it");
        let (stops, opened) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (target, began) = (self.flooded.clone(), Instant::now());
        let is_over = || {
            let is_whole = opened.load(Ordering::Relaxed) >= CONNECTIONS;
            began.elapsed() >= if is_whole { FLOOD } else { FLOOD_MAX }
        };
        let slow = thread::scope(|scope| {
            // Also when a check of the watch fails: the threads would flood for ever.
            let _stop = Stop(&stops);
            for _ in 0..THREADS {
                scope.spawn(|| hold(&target, bytes, connect, &stops, &opened));
            }
            self.watch(flood, (&mut *kept, connect.1 != PAUSE), is_over)
        });
        let opened = opened.into_inner();
        eprintln!("{flood}: {opened} connections opened");
        assert!(opened >= CONNECTIONS, "{flood}: {opened} connections are no flood");
        slow
    }
}

/// Stops a flood when it is dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Holds a share of the connections until the flood stops.
fn hold(
    target: &Target,
    bytes: &[u8],
    (connect, pause): (Connect, Duration),
    stops: &AtomicBool,
    opened: &AtomicUsize,
) {
    let mut held: Vec<Option<Box<dyn Io>>> = Vec::new();
    held.resize_with(CONNECTIONS / THREADS + 1, || None);
    let is_open = |stream: &dyn Io| {
        let socket = stream.socket();
        socket.set_nonblocking(true).ok();
        let mut part = [0; 4096];
        loop {
            match socket.peek(&mut part[..1]) {
                Ok(0) => return false,
                // A caller that reads what comes, but opens no window.
                Ok(_) => drop((&*socket).read(&mut part)),
                Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
            }
        }
    };
    while !stops.load(Ordering::Relaxed) {
        for place in &mut held {
            if stops.load(Ordering::Relaxed) {
                break;
            }
            if place.as_deref().is_some_and(is_open) {
                continue;
            }
            *place = connect(target, opened.load(Ordering::Relaxed));
            if let Some(stream) = place {
                stream.write_all(bytes).and_then(|()| stream.flush()).ok();
                opened.fetch_add(1, Ordering::Relaxed);
            }
            thread::sleep(pause);
        }
        thread::sleep(Duration::from_millis(20));
    }
    held.iter().flatten().for_each(|stream| drop(stream.socket().shutdown(Shutdown::Both)));
}

fn group() -> Option<Group> {
    let made = Group::new();
    if let Err(why) = &made {
        eprintln!("SKIPPED: the flood test wants root and control groups of Linux ({why})");
    }
    made.ok()
}

fn floods_without_a_key(uses_tls: bool) {
    let Some(group) = group() else { return };
    let mut server = Guarded::start(group, uses_tls);
    let address = server.flooded.address;
    let get = http2::opening(("GET", "/v1/namespaces"), &[], 250, address);
    let cookie = "x".repeat(12_000);
    let post = [("content-type", "application/json"), ("cookie", &cookie)];
    let post = http2::opening(("POST", "/v1/namespaces/a/timers"), &post, 40, address);
    let mut slow = Vec::new();
    slow.extend(server.flood("calls without a key", &get));
    slow.extend(server.flood("large heads without a key", &post));
    slow.extend(server.flood("silent connections", b""));
    let indexed = http2::opening_indexed("/v1/namespaces", 250, address);
    slow.extend(server.flood_from_many("indexed fields from many addresses", &indexed));
    assert!(slow.is_empty(), "calls with a key took too long: {slow:?}");
}

#[test]
fn p10_callers_without_a_key_do_not_stop_a_server_of_512_mib() {
    floods_without_a_key(false);
}

#[test]
fn p10_callers_without_a_key_do_not_stop_a_server_with_tls() {
    floods_without_a_key(true);
}

#[test]
fn p10_large_heads_of_any_caller_do_not_stop_a_server() {
    let Some(group) = group() else { return };
    let mut server = Limited::start(group);
    // Small fields take more memory than text on the wire.
    let names: Vec<_> = (0..300).map(|i| format!("a{i}")).collect();
    let fields =
        names.iter().map(|name| (name.as_str(), "")).chain([("content-type", "application/json")]);
    let fields: Vec<_> = fields.collect();
    let bytes = http2::opening(("POST", "/v1/namespaces/a/timers"), &fields, 60, server.address);
    let mut held = Vec::new();
    for _ in 0..300 {
        let Ok(mut stream) = TcpStream::connect(server.address) else { continue };
        stream.set_write_timeout(Some(Duration::from_millis(500))).ok();
        stream.write_all(&bytes).ok();
        held.push(stream);
        let ended = server.child.try_wait().expect("the child is ours");
        assert!(ended.is_none(), "heads: the server was killed ({ended:?})");
    }
    // The heads come all at once, from callers like any other: small requests return, but may wait for them.
    let mut number = 0;
    server.watch("heads over HTTP/2", Instant::now() + FLOOD, &mut number);
    held.clear();
    let bytes = http2::opening_indexed("/v1/whoami", 250, server.address);
    for number in 0..600 {
        let Ok(mut stream) = connect_from(source(number), server.address) else { continue };
        stream.set_write_timeout(Some(Duration::from_millis(500))).ok();
        stream.write_all(&bytes).ok();
        held.push(stream);
        let ended = server.child.try_wait().expect("the child is ours");
        assert!(ended.is_none(), "indexed fields: the server was killed ({ended:?})");
    }
    server.watch("indexed fields", Instant::now() + FLOOD, &mut number);
}

#[test]
fn p10_many_streams_of_any_caller_do_not_stop_a_server() {
    let Some(group) = group() else { return };
    let mut server = Limited::start(group);
    let bytes = http2::opening(("GET", "/v1/whoami"), &[], 1_000, server.address);
    let (mut held, mut most) = (Vec::new(), 0);
    let mut look = |server: &mut Limited| {
        most = most.max(server.resident_bytes());
        let ended = server.child.try_wait().expect("the child is ours");
        assert!(ended.is_none(), "streams: the server was killed ({ended:?}) at {most} bytes");
    };
    // Nothing is read of the responses, and their windows stay closed.
    for _ in 0..CONNECTIONS {
        let Ok(mut stream) = TcpStream::connect(server.address) else { continue };
        stream.set_write_timeout(Some(Duration::from_millis(500))).ok();
        stream.write_all(&bytes).ok();
        held.push(stream);
        look(&mut server);
    }
    let until = Instant::now() + FLOOD;
    while Instant::now() < until {
        thread::sleep(PAUSE);
        look(&mut server);
    }
    eprintln!("many streams: {} connections, {} MiB resident", held.len(), most / MIB);
    drop(held);
    server.schedule("/v1/namespaces/small", r#"{"id":"after","delay":"1h"}"#);
}
