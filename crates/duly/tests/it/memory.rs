//! The memory test: a server that may use 512 MiB, and callers that try to make it use more (P10).
//!
//! The attacks use lists, streams, leases, large payloads and callers that read nothing, over HTTP/1,
//! HTTP/2 and gRPC. The server is never killed, and meanwhile a small request of another namespace
//! returns. The test needs Linux and a control group of its own, which only root can create; otherwise
//! it prints that it is skipped.
//!
//! `DULY_BIN` names another binary. With `--nocapture` the test prints the largest resident memory under
//! each attack.

mod floods;
mod http2;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use duly_redis_testkit::server::free_port;
use tempfile::TempDir;

use crate::harness::{WITHOUT_RESERVE, program};

const MIB: usize = 1024 * 1024;
/// Memory of the control group.
const LIMIT_BYTES: usize = 512 * MIB;
/// Duration of each attack.
const ATTACK: Duration = Duration::from_secs(3);
/// Time limit of a small request. A build without optimization needs much longer for a large payload,
/// and shares the machine with other tests.
const SMALL_WITHIN: Duration =
    Duration::from_millis(if cfg!(debug_assertions) { 5_000 } else { 100 });

/// Time limit of a call under attack, and of a start: longer than any that is not stuck. A build without optimization
/// digests an attack slowly, and shares the machine with other tests.
const PATIENCE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 180 } else { 30 });

/// A control group that is removed at the end. There is one at a time: attacks do not slow down each other.
struct Group {
    path: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Group {
    /// Returns a control group with the limit of the test, or the reason why it cannot be created.
    fn new() -> Result<Self, String> {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Self::create().map(|path| Self { path, _alone: alone })
    }

    fn create() -> Result<PathBuf, String> {
        static GROUPS: AtomicU32 = AtomicU32::new(0);
        let number = GROUPS.fetch_add(1, Ordering::Relaxed);
        let name = format!("duly-memory-{}-{number}", std::process::id());
        // Outside of a control group file system a directory is an ordinary one, without these files.
        let set = |file: PathBuf| {
            let mut file = fs::OpenOptions::new().write(true).open(file)?;
            file.write_all(LIMIT_BYTES.to_string().as_bytes())
        };
        let mut why = String::new();
        for (root, files) in [
            ("/sys/fs/cgroup", &["memory.max"][..]),
            ("/sys/fs/cgroup/memory", &["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]),
        ] {
            let path = Path::new(root).join(&name);
            match fs::create_dir(&path).and_then(|()| set(path.join(files[0]))) {
                Ok(()) => {
                    // Without swap accounting this file does not exist.
                    files[1..].iter().for_each(|file| drop(set(path.join(file))));
                    return Ok(path);
                }
                Err(error) => why = format!("{}: {error}", path.display()),
            }
            fs::remove_dir(&path).ok();
        }
        Err(why)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The processes in it have ended; a leftover directory does no harm.
        fs::remove_dir(&self.path).ok();
    }
}

/// A server in the group.
struct Limited {
    child: Child,
    address: SocketAddr,
    _directory: TempDir,
    _group: Group,
}

impl Limited {
    fn start(group: Group) -> Self {
        let limited = Self::start_with(group, &[]);
        let until = Instant::now() + PATIENCE;
        while limited.call("GET", "/readyz", "").is_none_or(|status| status != 200) {
            assert!(Instant::now() < until, "the server does not start");
            std::thread::yield_now();
        }
        limited
    }

    /// Starts a server with settings, without waiting for it.
    fn start_with(group: Group, settings: &[(&str, &str)]) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let address = ([127, 0, 0, 1], free_port()).into();
        let binary =
            std::env::var("DULY_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_duly").into());
        let script = format!(
            "echo $$ > {}/cgroup.procs && exec {binary} serve --data {}/data --listen {address}",
            group.path.display(),
            directory.path().display(),
        );
        let child = program("sh")
            .args(["-c", &script])
            .env("DULY_LOG__LEVEL", "error")
            .envs(WITHOUT_RESERVE)
            .envs(settings.iter().copied())
            .stdout(Stdio::null())
            .spawn()
            .expect("sh starts");
        Self { child, address, _directory: directory, _group: group }
    }

    fn head(&self, method: &str, path: &str, bytes: usize) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: \
             application/json\r\ncontent-length: {bytes}\r\n\r\n",
            self.address
        )
    }

    /// Makes a call. Returns the status of its response, or none.
    fn call(&self, method: &str, path: &str, body: &str) -> Option<u16> {
        self.response(method, path, body)?.get(9..12)?.parse().ok()
    }

    /// Makes a call. Returns its response, or none.
    fn response(&self, method: &str, path: &str, body: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.write_all(self.head(method, path, body.len()).as_bytes()).ok()?;
        stream.write_all(body.as_bytes()).ok();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok();
        Some(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Schedules a timer, repeating it until the server has capacity. A batch does not return the payload, which a build
    /// without optimization writes slowly.
    fn schedule(&self, namespace: &str, timer: &str) {
        let path = format!("{namespace}/batch");
        let body = format!(r#"{{"operations":[{{"schedule":{timer}}}]}}"#);
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = self.response("POST", &path, &body).unwrap_or_default();
            if answer.contains(r#""timer":"#) {
                return;
            }
            // After a flood the server may still be busy with its connections, and refuse others.
            let is_busy = answer.is_empty() || answer.contains("resource_exhausted");
            assert!(is_busy && Instant::now() < until, "a timer for {path}: {answer}");
            std::thread::sleep(ATTACK / 20);
        }
    }

    /// Sends a request and does not read its response.
    fn unread(&self, method: &str, path: &str, body: &str) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        // A server that stops reading must not block the attack.
        stream.set_write_timeout(Some(Duration::from_millis(300))).ok()?;
        let text = format!("{}{body}", self.head(method, path, body.len()));
        stream.write_all(text.as_bytes()).ok();
        Some(stream)
    }

    fn resident_bytes(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
        kib.unwrap_or(0) * 1024
    }

    /// Makes small requests of another namespace until the attack ends. Returns the time of the slowest
    /// one, if that was too long.
    fn watch(&mut self, attack: &str, until: Instant, number: &mut usize) -> Option<String> {
        let (mut most, mut slowest) = (0, Duration::ZERO);
        while Instant::now() < until {
            *number += 1;
            let body = format!(r#"{{"id":"s{number}","delay":"1h"}}"#);
            let asked = Instant::now();
            let status = self.call("POST", "/v1/namespaces/small/timers", &body);
            slowest = slowest.max(asked.elapsed());
            most = most.max(self.resident_bytes());
            let ended = self.child.try_wait().expect("the child is ours");
            assert!(ended.is_none(), "{attack}: the server was killed ({ended:?}) at {most} bytes");
            assert_eq!(status, Some(201), "{attack}: a small request of another namespace");
        }
        eprintln!("{attack}: {} MiB resident, small requests within {slowest:?}", most / MIB);
        (slowest > SMALL_WITHIN).then(|| format!("{attack}: {slowest:?}"))
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Returns a schedule that is due at once, with a payload of this many bytes.
fn timer_of(id: &str, bytes: usize) -> String {
    format!(r#"{{"id":"{id}","delay":"0s","payload_text":"{}"}}"#, "x".repeat(bytes))
}

/// Creates the data that the attacks request.
fn prepare(server: &Limited) {
    let large = r#"{"limits":{"namespace":{"max_payload_bytes":16777216}}}"#;
    assert_eq!(server.call("PUT", "/v1/namespaces/large", large), Some(201));
    let payload = "x".repeat(12 * MIB);
    for i in 0..4 {
        let timer = format!(r#"{{"id":"t{i}","delay":"1h","payload_text":"{payload}"}}"#);
        server.schedule("/v1/namespaces/large", &timer);
    }
    let payload = "x".repeat(200_000);
    for (namespace, delay) in [("many", "1h"), ("due", "0s")] {
        for i in 0..100 {
            let timer = format!(r#"{{"id":"t{i}","delay":"{delay}","payload_text":"{payload}"}}"#);
            server.schedule(&format!("/v1/namespaces/{namespace}"), &timer);
        }
    }
}

#[test]
fn p10_a_server_of_512_mib_is_never_killed() {
    let group = match Group::new() {
        Ok(group) => group,
        Err(why) => {
            eprintln!("SKIPPED: the memory test wants root and control groups of Linux ({why})");
            return;
        }
    };
    let mut server = Limited::start(group);
    prepare(&server);
    let (mut number, mut slow) = (0, Vec::new());
    eprintln!("before: {} MiB resident", server.resident_bytes() / MIB);
    let mut attack = |name: &str, begin: &dyn Fn(&Limited) -> Vec<TcpStream>| {
        let held = begin(&server);
        slow.extend(server.watch(name, Instant::now() + ATTACK, &mut number));
        drop(held);
    };
    let list = "/v1/namespaces/many/timers?limit=1000";
    attack("lists over HTTP/2", &|server| http2::unread(server.address, &[list], 2));
    attack("other reads over HTTP/2", &|server| {
        let paths = [
            "/v1/namespaces/many/export",
            "/v1/namespaces/many/stats",
            "/v1/namespaces/many/forecast?count=1000",
            "/v1/namespaces?limit=1000",
        ];
        http2::unread(server.address, &paths, 4)
    });
    attack("timers over HTTP/1", &|server| {
        let get = |i| server.unread("GET", &format!("/v1/namespaces/large/timers/t{}", i % 4), "");
        (0..400).filter_map(get).collect()
    });
    attack("streams", &|server| {
        let head = format!(
            "GET {list} HTTP/1.1\r\nhost: {}\r\naccept: application/x-ndjson\r\n\r\n",
            server.address
        );
        let open = |_| {
            let mut stream = TcpStream::connect(server.address).ok()?;
            stream.write_all(head.as_bytes()).ok()?;
            Some(stream)
        };
        (0..200).filter_map(open).collect()
    });
    attack("lists over gRPC", &|server| {
        http2::unread_grpc(server.address, "Timers/List", "many", 2)
    });
    attack("leases", &|server| {
        let lease = |_| server.unread("POST", "/v1/namespaces/due/lease", r#"{"max":1000}"#);
        let mut held: Vec<_> = (0..200).filter_map(lease).collect();
        held.extend(http2::unread_grpc(server.address, "Timers/Lease", "due", 2));
        held
    });
    attack("large payloads", &|server| {
        let payload = "x".repeat(16 * MIB);
        std::thread::scope(|scope| {
            let sent: Vec<_> = (0..24)
                .map(|i| {
                    let body =
                        format!(r#"{{"id":"p{i}","delay":"1h","payload_text":"{payload}"}}"#);
                    let send = move || server.unread("POST", "/v1/namespaces/large/timers", &body);
                    scope.spawn(send)
                })
                .collect();
            sent.into_iter().filter_map(|sent| sent.join().ok().flatten()).collect()
        })
    });
    attack("large payloads to consumers", &|server| {
        let large = r#"{"limits":{"namespace":{"max_payload_bytes":16777216}}}"#;
        let timer = timer_of("t", 15 * MIB);
        let namespaces: Vec<_> = (0..20).map(|i| format!("/v1/namespaces/due{i}")).collect();
        for namespace in &namespaces {
            assert_eq!(server.call("PUT", namespace, large), Some(201));
            server.schedule(namespace, &timer);
        }
        let lease = |namespace| server.unread("POST", &format!("{namespace}/lease"), "{}");
        namespaces.iter().filter_map(lease).collect()
    });
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    attack("large payloads to a receiver that reads nothing", &|server| {
        let url = format!("http://{}/", silent.local_addr().expect("its address"));
        let settings = format!(
            r#"{{"destination":{{"http":{{"url":"{url}"}}}},"limits":{{"namespace":{{"max_payload_bytes":16777216}}}}}}"#
        );
        assert_eq!(server.call("PUT", "/v1/namespaces/hooks", &settings), Some(201));
        for i in 0..36 {
            let timer = timer_of(&format!("t{i}"), 15 * MIB);
            server.schedule("/v1/namespaces/hooks", &timer);
        }
        Vec::new()
    });
    assert!(slow.is_empty(), "small requests took too long: {slow:?}");
    open_heads(&mut server);
}

/// Sends requests whose headers never end, on as many connections as this process can open. Those above
/// `server.connections_max` are refused, and so is a small request.
fn open_heads(server: &mut Limited) {
    let field = format!("x-a: {}\r\n", "y".repeat(1_000)).repeat(59);
    let head = format!("GET /v1/namespaces HTTP/1.1\r\nhost: {}\r\n{field}", server.address);
    let (mut held, mut most) = (Vec::new(), 0);
    for i in 0..8_000 {
        let Ok(mut stream) = TcpStream::connect(server.address) else { break };
        stream.set_write_timeout(Some(Duration::from_millis(300))).ok();
        stream.write_all(head.as_bytes()).ok();
        held.push(stream);
        if i % 500 == 0 {
            most = most.max(server.resident_bytes());
        }
    }
    most = most.max(server.resident_bytes());
    let ended = server.child.try_wait().expect("the child is ours");
    assert!(ended.is_none(), "open heads: the server was killed ({ended:?}) at {most} bytes");
    eprintln!("open heads on {} connections: {} MiB resident", held.len(), most / MIB);
    assert_eq!(server.call("GET", "/healthz", ""), Some(200));
    drop(held);
    let until = Instant::now() + PATIENCE;
    while server.call("GET", "/v1/namespaces", "") != Some(200) {
        assert!(Instant::now() < until, "connections stay in use");
        std::thread::sleep(ATTACK / 20);
    }
}
