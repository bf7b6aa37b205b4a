//! Tenants: the commands of an operator, and a tenant that takes more than its part.
//!
//! [`a_tenant_beyond_its_limits_leaves_another_alone`] runs for some seconds and checks that no call of the other
//! tenant is refused. With the variable `DULY_TENANT_LOAD` it runs that many seconds for each load, also with
//! limits that allow it, and checks the response times too: `DULY_TENANT_LOAD=5 cargo xtask torture`.

use std::{
    env, fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::harness::{DEADLINE, Process, Ran, duly, run, text};

#[test]
fn commands_of_many_calls_wait_for_the_limit_of_calls() {
    let at = Deployment::start(&["--call-per-second", "2"]);
    at.with("ops", &["namespace", "put", "noisy-1", "--schedule-per-second", "50"]).ok();
    let lines: String = (0..200)
        .map(|n| format!("{{\"schedule\":{{\"id\":\"t{n}\",\"delay\":\"1h\"}}}}\n"))
        .collect();
    let [operations, exported] =
        ["operations", "exported"].map(|name| at.directory.path().join(name));
    fs::write(&operations, lines).expect("written");
    let began = Instant::now();
    let printed = at.with("noisy", &["batch", "noisy-1", "--file", text(&operations)]).ok();
    assert_eq!(printed, "200 lines: 200 accepted, 0 refused\n");
    // A call for each line would take more than a minute.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    let export = ["export", "noisy-1", "--drain", "--to", text(&exported)];
    at.with("noisy", &export).ok();
    at.with("noisy", &["import", text(&exported)]).ok();
}

/// A server with an administrator and the tenants `noisy` and `quiet`.
struct Deployment {
    directory: TempDir,
    _server: Process,
    url: String,
}

impl Deployment {
    fn start(limits: &[&str]) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let data = text(&directory.path().join("data")).to_owned();
        let ops = run(&["key", "create", "ops", "--admin", "--data", &data]).ok();
        fs::write(directory.path().join("ops"), ops).expect("written");
        let mut command = duly();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", &data]);
        command.env("DULY_STORE__BACKUP_DIR", directory.path().join("backups"));
        let mut server = Process::of(command);
        let (url, _) = server.address();
        let deployment = Self { directory, _server: server, url };
        for tenant in ["noisy", "quiet"] {
            let pattern = format!("{tenant}-*");
            let put = ["tenant", "put", tenant, "--namespace", &pattern];
            deployment.with("ops", &[&put[..], limits].concat()).ok();
            let create = [
                "key",
                "create",
                tenant,
                "--allow",
                "operator,store,transfer",
                "--namespace",
                &pattern,
            ];
            let key = deployment.with("ops", &create).ok();
            fs::write(deployment.directory.path().join(tenant), key).expect("written");
        }
        deployment
    }

    /// Runs a command with the key in a file.
    fn with(&self, key: &str, arguments: &[&str]) -> Ran {
        let key = text(&self.directory.path().join(key)).to_owned();
        run(&[arguments, &["--server", &self.url, "--key-file", &key]].concat())
    }

    fn caller(&self, key: &str) -> Caller {
        let secret = fs::read_to_string(self.directory.path().join(key)).expect("a key");
        let address = self.url.strip_prefix("http://").expect("HTTP").parse().expect("an address");
        Caller { address, secret: secret.trim().to_owned(), stream: None }
    }
}

/// A caller of HTTP/1.1 with a connection of its own.
struct Caller {
    address: SocketAddr,
    secret: String,
    stream: Option<TcpStream>,
}

impl Caller {
    fn another(&self) -> Self {
        Self { address: self.address, secret: self.secret.clone(), stream: None }
    }

    /// Sends a call without waiting for its response.
    fn send(&mut self, method: &str, path: &str, body: &str) -> std::io::Result<()> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            stream.set_nodelay(true)?;
            self.stream = Some(stream);
        }
        let Self { address, secret, stream } = self;
        let stream = stream.as_mut().expect("it is connected");
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {secret}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes())
    }

    /// Makes a call, and returns the status of its response; `None` if the connection fails.
    fn call(&mut self, method: &str, path: &str, body: &str) -> Option<u16> {
        let status = self.send(method, path, body).ok().and_then(|()| self.receive());
        if status.is_none() {
            self.stream = None;
        }
        status
    }

    fn receive(&mut self) -> Option<u16> {
        let stream = self.stream.as_mut()?;
        let (mut bytes, mut part) = (Vec::new(), [0; 16 * 1024]);
        loop {
            let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
            bytes.extend(&part[..count]);
            let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().expect("a number"));
            if bytes.len() >= end + 4 + length {
                if head.contains("connection: close") {
                    self.stream = None;
                }
                return head.split(' ').nth(1)?.parse().ok();
            }
        }
    }
}

#[test]
fn an_operator_limits_a_tenant() {
    let at = Deployment::start(&["--max-pending", "2", "--max-namespaces", "1"]);
    at.with("noisy", &["namespace", "put", "noisy-a"]).ok();
    let message = at.with("noisy", &["namespace", "put", "noisy-b"]).refused(1);
    assert!(message.contains("tenant noisy") && message.contains("max_namespaces"), "{message}");
    for id in ["1", "2"] {
        at.with("noisy", &["schedule", "noisy-a", id, "--in", "1h"]).ok();
    }
    let message = at.with("noisy", &["schedule", "noisy-a", "3", "--in", "1h"]).refused(1);
    assert!(message.contains("an administrator") && message.contains("max_pending"), "{message}");
    let who = at.with("noisy", &["whoami"]).ok();
    assert!(who.contains("2 of 2"), "{who}");
    let message = at.with("noisy", &["tenant", "set", "noisy", "--max-pending", "9"]).refused(1);
    assert!(message.contains("admin"), "{message}");
    for _ in 0..2 {
        at.with("ops", &["tenant", "set", "noisy", "--max-pending", "3"]).ok();
    }
    assert!(at.with("ops", &["tenant", "set", "noisy"]).refused(2).contains("nothing to change"));
    at.with("noisy", &["schedule", "noisy-a", "3", "--in", "1h"]).ok();
    let listed = at.with("ops", &["tenant", "ls"]).ok();
    assert!(listed.contains("3/3") && listed.contains("0/2"), "{listed}");
    let other = ["tenant", "put", "other", "--namespace", "noisy-a"];
    assert!(at.with("ops", &other).refused(1).contains("noisy-*"));
    let above = ["tenant", "set", "noisy", "--max-connections", "1000000"];
    assert!(at.with("ops", &above).refused(1).contains("server.connections_max"));
    at.with("ops", &["tenant", "set", "noisy", "--reset", "max_pending"]).ok();
    let shown = at.with("ops", &["tenant", "get", "noisy"]).ok();
    assert!(shown.contains("3, no limit") && shown.contains("1 of 1"), "{shown}");
    at.with("ops", &["tenant", "rm", "noisy"]).ok();
    at.with("noisy", &["namespace", "put", "noisy-b"]).ok();
    let message = at.with("ops", &["tenant", "get", "noisy"]).refused(1);
    assert!(message.contains("duly tenant list"), "{message}");
}

/// Limits of both tenants under load.
const LIMITS: [&str; 12] = [
    "--max-namespaces",
    "5",
    "--max-pending",
    "50000",
    "--call-per-second",
    "300",
    "--max-connections",
    "48",
    "--max-waiting-calls",
    "8",
    "--max-request-bytes",
    "16777216",
];

/// Pause of each thread after a step. A server without optimization accepts fewer connections than eight threads open.
const PAUSE: Duration = Duration::from_millis(if cfg!(debug_assertions) { 5 } else { 0 });

/// A way to take more than one's part. Each thread does one step again and again.
#[derive(Debug, Clone, Copy)]
enum Load {
    Connections,
    WaitingCalls,
    Namespaces,
    /// Lists whose responses are not read.
    Lists,
    /// Streams that do not end.
    Streams,
    Backups,
}

impl Load {
    const BEYOND: [Self; 6] = [
        Self::Connections,
        Self::WaitingCalls,
        Self::Namespaces,
        Self::Lists,
        Self::Streams,
        Self::Backups,
    ];

    /// Does one step. `held` keeps connections open.
    fn step(self, caller: &mut Caller, held: &mut Vec<Caller>, number: u64) {
        let namespace = "/v1/namespaces/noisy-a";
        let mut hold = |method: &str, path: &str, body: &str| {
            let mut other = caller.another();
            other.send(method, path, body).ok();
            held.push(other);
            if held.len() > 300 {
                held.drain(..100);
            }
        };
        match self {
            Self::Connections => hold("GET", &format!("{namespace}/stats"), ""),
            Self::WaitingCalls => hold("POST", &format!("{namespace}/lease"), r#"{"wait":"20s"}"#),
            Self::Namespaces => {
                caller.call("PUT", &format!("/v1/namespaces/noisy-{number}"), "{}");
            }
            Self::Lists => hold("GET", &format!("{namespace}/timers?limit=1000"), ""),
            Self::Streams => hold("GET", &format!("{namespace}/export"), ""),
            Self::Backups => {
                let body = format!(r#"{{"path":"b{number}"}}"#);
                caller.call("POST", "/v1/store/backup", &body);
            }
        }
    }
}

/// Response times of calls of the quiet tenant beside a load, in order; and the refused calls of both.
fn measure(at: &Deployment, load: Load, time: Duration) -> (Vec<Duration>, u64) {
    let (mut caller, mut times) = (at.caller("quiet"), Vec::new());
    // New connections wait for those of the load, which come from the same address.
    assert_eq!(caller.call("GET", "/v1/namespaces/quiet-a/stats", ""), Some(200), "{load:?}");
    let (stop, steps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (stop, steps, mut caller) =
                (Arc::clone(&stop), Arc::clone(&steps), at.caller("noisy"));
            thread::spawn(move || {
                let mut held = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    load.step(&mut caller, &mut held, steps.fetch_add(1, Ordering::Relaxed));
                    thread::sleep(PAUSE);
                }
            })
        })
        .collect();
    let began = Instant::now();
    let (mut next, mut refused) = (Duration::ZERO, 0);
    while next < time {
        thread::sleep(next.saturating_sub(began.elapsed()));
        let body = format!(r#"{{"delay":"1h","payload_text":"{}"}}"#, times.len());
        let status = caller.call("POST", "/v1/namespaces/quiet-a/timers", &body);
        refused += u64::from(status != Some(201));
        // From the time at which it was to be sent.
        times.push(began.elapsed().saturating_sub(next));
        next += Duration::from_millis(10);
    }
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
    times.sort_unstable();
    (times, refused)
}

#[test]
fn a_tenant_beyond_its_limits_leaves_another_alone() {
    let at = Deployment::start(&LIMITS);
    at.with("noisy", &["namespace", "put", "noisy-a"]).ok();
    at.with("quiet", &["namespace", "put", "quiet-a"]).ok();
    let mut caller = at.caller("noisy");
    let payload = "x".repeat(10_000);
    for batch in 0..4 {
        let operations: Vec<_> = (0..250)
            .map(|number| {
                format!(
                    r#"{{"schedule":{{"id":"{batch}-{number}","delay":"1h","payload_text":"{payload}"}}}}"#
                )
            })
            .collect();
        let body = format!(r#"{{"operations":[{}]}}"#, operations.join(","));
        assert_eq!(caller.call("POST", "/v1/namespaces/noisy-a/batch", &body), Some(200));
    }
    let seconds = env::var("DULY_TENANT_LOAD").ok().map(|text| text.parse().expect("seconds"));
    let time = Duration::from_secs(seconds.unwrap_or(1));
    let p99 = |times: &[Duration]| times[times.len() * 99 / 100 - 1];
    for load in Load::BEYOND {
        if seconds.is_some() {
            at.with("ops", &["tenant", "set", "noisy", "--reset", "limits"]).ok();
            let (times, refused) = measure(&at, load, time);
            println!("{load:?}, allowed: p99 {:?}, {refused} calls refused", p99(&times));
            at.with("ops", &[&["tenant", "set", "noisy"], &LIMITS[..]].concat()).ok();
            // Its connections end.
            thread::sleep(Duration::from_secs(2));
        }
        let (times, refused) = measure(&at, load, time);
        println!("{load:?}, beyond the limits: p99 {:?}", p99(&times));
        assert_eq!(refused, 0, "{load:?}");
        let is_fast = p99(&times) <= Duration::from_millis(20);
        assert!(is_fast || seconds.is_none(), "{load:?}: {:?}", p99(&times));
    }
    for (limit, load) in [
        ("max_connections", Load::Connections),
        ("max_waiting_calls", Load::WaitingCalls),
        ("call_per_second", Load::Namespaces),
    ] {
        let is_refusal = |line: &str| {
            let words = ["duly_tenant_refusals_total", "noisy", limit];
            words.iter().all(|word| line.contains(word))
        };
        // A loaded machine may be too slow for a limit, or the other limits refuse all calls before this one.
        if limit == "call_per_second" {
            at.with("ops", &["tenant", "set", "noisy", "--call-per-second", "5"]).ok();
        }
        let deadline = Instant::now() + DEADLINE;
        let mut held = Vec::new();
        while !at.with("ops", &["metrics"]).ok().lines().any(is_refusal) {
            assert!(Instant::now() < deadline, "{load:?} does not reach {limit}");
            (0..64).for_each(|number| load.step(&mut caller, &mut held, number));
        }
    }
}
