//! A `redis-server` as a child process: on a free port, in a directory of its own.
//!
//! `DULY_REDIS_SERVER` names another program, such as `valkey-server`. Dropping a server kills its
//! process.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    ops::Range,
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// Longest wait for a reply of a server.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// A server that can be killed and started again on the same data.
#[derive(Debug)]
pub struct Server {
    directory: TempDir,
    port: u16,
    extra: Vec<String>,
    child: Option<Child>,
}

impl Server {
    /// Starts a server that keeps every write it acknowledges (`appendfsync always`). With `everysec` a
    /// server replies while a sync is under way, before the write is handed to the system, so a kill too
    /// would lose changes.
    pub fn start(extra: &[&str]) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let extra = extra.iter().map(ToString::to_string).collect();
        let mut server = Self { directory, port: 0, extra, child: None };
        // Another process may take the port in between: then try another port.
        for _ in 0..20 {
            server.port = free_port();
            if server.start_process() {
                return server;
            }
        }
        panic!("no redis-server could be started: {}", server.log());
    }

    /// Returns the port of the server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL of a store on this server.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns the port by which the servers of a Cluster talk to each other.
    pub fn bus_port(&self) -> u16 {
        let at = self.extra.iter().position(|argument| argument == "--cluster-port");
        at.and_then(|at| self.extra.get(at + 1)?.parse().ok()).expect("it is of a Cluster")
    }

    /// Returns the process id, while the server runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Kills the server as `kill -9` does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a child of ours can be killed");
            child.wait().expect("and ends");
        }
    }

    /// Starts the server again on the same port and directory.
    pub fn start_again(&mut self) {
        assert!(self.start_process(), "the server does not start again: {}", self.log());
    }

    /// Removes all data of the server, which must be down. It comes back without data, in a Cluster as
    /// the same server.
    pub fn lose_data(&self) {
        assert!(self.child.is_none(), "only a server that is down loses its data");
        let files = std::fs::read_dir(self.directory.path()).expect("its directory is there");
        for file in files.map(|file| file.expect("it can be listed").path()) {
            if file.is_dir() {
                std::fs::remove_dir_all(&file).expect("it can be removed");
            } else if file.extension().is_some_and(|kind| kind == "rdb" || kind == "aof") {
                std::fs::remove_file(&file).expect("it can be removed");
            }
        }
    }

    /// Returns `true` if the server could start from its saved view of a Cluster of this size. Valkey saves, while replicas join,
    /// views in which a replica and its master belong to two shards, and refuses such a view at a start ("corrupted
    /// cluster config file").
    pub(crate) fn can_start_from_its_files(&self, servers: usize) -> bool {
        let view = std::fs::read_to_string(self.directory.path().join("nodes.conf"));
        view.is_ok_and(|view| has_whole_shards(&view, servers))
    }

    /// Copies the present data, as a snapshot of the disk would. The server may run.
    pub fn copy_data(&self, to: &Path) {
        copy_files(&self.data(), to);
    }

    /// Replaces the data by a copy from [`Self::copy_data`]. The server must be down, and comes back
    /// with older data.
    pub fn restore_data(&self, from: &Path) {
        self.lose_data();
        copy_files(from, &self.data());
    }

    /// Returns the folder of the append-only files.
    fn data(&self) -> PathBuf {
        self.directory.path().join("appendonlydir")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// Returns `false` if the process of another test serves the port: then the own process is about to end.
    fn is_reached(&self) -> bool {
        let info = tell(self.port, "INFO server");
        let own = self.pid().map(|pid| format!("process_id:{pid}"));
        info.starts_with("-NOAUTH") || own.is_some_and(|own| info.lines().any(|line| line == own))
    }

    fn start_process(&mut self) -> bool {
        let program = std::env::var("DULY_REDIS_SERVER").unwrap_or("redis-server".to_owned());
        let mut command = Command::new(&program);
        command
            .current_dir(self.directory.path())
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--save", ""])
            .args(["--logfile", "log", "--loglevel", "notice"])
            .args(&self.extra)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn();
        self.child = Some(child.unwrap_or_else(|error| {
            panic!("cannot start {program}: {error}; install it (Debian: `redis-server`)")
        }));
        let until = Instant::now() + WAIT_MAX;
        while Instant::now() < until {
            let child = self.child.as_mut().expect("it was just started");
            if child.try_wait().expect("a child can be asked").is_some() {
                self.child = None;
                return false;
            }
            if is_ready(self.port) && self.is_reached() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("{program} does not reply: {}", self.log());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder can be made");
    for file in std::fs::read_dir(from).expect("the folder is there") {
        let file = file.expect("it can be listed").path();
        let name = file.file_name().expect("a file has a name");
        std::fs::copy(&file, to.join(name)).expect("a file can be copied");
    }
}

/// Returns `true` if a server is up and has loaded its data.
fn is_ready(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let _slow = stream.set_read_timeout(Some(Duration::from_secs(5)));
    if stream.write_all(b"PING\r\n").is_err() {
        return false;
    }
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).is_ok() && [*b"+PONG\r\n", *b"-NOAUTH"].contains(&reply)
}

/// Returns `true` if a view (`nodes.conf`) has all servers, and each replica in the shard of its master.
fn has_whole_shards(view: &str, expected: usize) -> bool {
    let servers: Vec<Vec<&str>> = view
        .lines()
        .map(|line| line.split(' ').collect())
        .filter(|it: &Vec<_>| it.len() > 3 && it[0] != "vars")
        .collect();
    let shard = |server: &[&str]| server[1].split_once("shard-id=").map(|(_, id)| id.to_owned());
    let is_with = |replica: &[&str]| {
        let master = servers.iter().find(|server| server[0] == replica[3]);
        master.is_some_and(|master| shard(master) == shard(replica))
    };
    let mut replicas = servers.iter().filter(|server| server[2].contains("slave"));
    servers.len() == expected && replicas.all(|replica| is_with(replica))
}

/// Returns a free port of 127.0.0.1 that stays free until a test uses it.
///
/// The kernel gives the ports from 32768 on to outgoing connections, and to listeners that name port 0. So a port of
/// that range that a test sets free may belong to another socket when the test needs it.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const PORTS: Range<u32> = 10_000..32_768;
    // Processes that run side by side begin at different ports.
    let first = process::id().wrapping_mul(211);
    loop {
        let number = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + number % (PORTS.end - PORTS.start);
        let port = u16::try_from(port).expect("a port");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Sends one command and returns the reply: the text of a bulk string, else the line.
pub fn tell(port: u16, command: &str) -> String {
    reply(&mut send(port, command))
}

/// Sends one command and returns the texts of its list; bytes that are no UTF-8 are replaced.
pub fn list(port: u16, command: &str) -> Vec<String> {
    let mut stream = send(port, command);
    let count = reply(&mut stream);
    let count: usize = count.strip_prefix('*').and_then(|n| n.parse().ok()).expect("a number");
    (0..count).map(|_| reply(&mut stream)).collect()
}

fn send(port: u16, command: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server is there");
    stream.write_all(format!("{command}\r\n").as_bytes()).expect("it reads");
    BufReader::new(stream)
}

/// Reads a line, and the bulk string that it announces.
fn reply(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = Vec::new();
    // A server that is killed meanwhile has no more to say.
    stream.read_until(b'\n', &mut line).ok();
    let line = String::from_utf8_lossy(&line).trim().to_owned();
    let Some(bytes) = line.strip_prefix('$').and_then(|bytes| bytes.parse::<usize>().ok()) else {
        return line;
    };
    let mut bulk = vec![0; bytes + 2];
    stream.read_exact(&mut bulk).expect("the bulk comes whole");
    String::from_utf8_lossy(&bulk).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::has_whole_shards;

    #[test]
    fn a_replica_of_another_shard_than_its_master_is_found() {
        let view = |shard: &str| {
            format!(
                "a 127.0.0.1:1@2,,shard-id=one myself,master - 0 0 1 connected 0-16383\n\
                 b 127.0.0.1:3@4,,shard-id={shard} slave a 0 0 1 connected\n\
                 vars currentEpoch 1 lastVoteEpoch 0\n"
            )
        };
        assert!(has_whole_shards(&view("one"), 2));
        assert!(!has_whole_shards(&view("two"), 2));
        assert!(!has_whole_shards(&view("one"), 3));
        assert!(!has_whole_shards("", 2));
        // Redis 7.0 knows no shards.
        assert!(has_whole_shards("a 127.0.0.1:1@2 master - 0\nb 127.0.0.1:3@4 slave a 0\n", 2));
    }
}
