//! Child processes of the `duly` binary: commands that end, and servers that must be stopped.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

/// Time limit of every wait.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The output and exit code of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        }
    }
}

impl Ran {
    /// Returns stdout of a command that succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }

    /// Returns stdout of a command that changed nothing.
    #[track_caller]
    pub(crate) fn unchanged(self) -> String {
        assert_eq!(self.code, Some(3), "{self:?}");
        assert!(self.stderr.contains("note: nothing changed: "), "{self:?}");
        self.stdout
    }

    /// Returns `true` if the command was carried out, also if it changed nothing: it was repeated.
    pub(crate) fn is_accepted(&self) -> bool {
        matches!(self.code, Some(0 | 3))
    }

    /// Returns the one JSON document of a command that succeeded.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Returns the message of a command that failed with this exit code.
    #[track_caller]
    pub(crate) fn refused(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        for mark in ["Error {", "Some(", "panicked", "Os {"] {
            assert!(!self.stderr.contains(mark), "not for people: {self:?}");
        }
        self.stderr
    }
}

/// The path of the binary.
const BINARY: &str = env!("CARGO_BIN_EXE_duly");

/// Variables with which a server accepts timers until the disk is full.
pub(crate) const WITHOUT_RESERVE: [(&str, &str); 2] =
    [("DULY_STORE__MIN_FREE_BYTES", "0"), ("DULY_STORE__MIN_FREE_PERCENT", "0")];

/// Returns the binary, without settings of the machine that runs the tests. As a server it keeps no
/// disk space in reserve.
pub(crate) fn duly() -> Command {
    let mut command = program(BINARY);
    command.envs(WITHOUT_RESERVE);
    command
}

/// Returns the binary under a umask that takes no rights away.
pub(crate) fn duly_without_umask() -> Command {
    let mut command = program("sh");
    command.args(["-c", r#"umask 000 && exec "$0" "$@""#, BINARY]).envs(WITHOUT_RESERVE);
    command
}

/// Returns a command that starts a node of the deployment at this URL.
pub(crate) fn node(url: &str) -> Command {
    let mut command = program(BINARY);
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", url]);
    // A loaded machine must not make a server silent.
    command.env("DULY_STORE__SILENCE_TIMEOUT", "10s");
    command
}

/// Returns a shell that runs this script, with the environment of [`duly`]. `$0` is the binary.
pub(crate) fn shell(script: &str) -> Command {
    let mut shell = program("sh");
    shell.args(["-c", script, BINARY]).envs(WITHOUT_RESERVE);
    shell
}

/// Returns a program without the environment of the tests, but with their `PATH`. All programs that tests start come from
/// here: a variable of a developer or of the test command must not reach a `duly` that one of them starts.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::null());
    command
}

/// Runs a command that calls no server.
pub(crate) fn run(args: &[&str]) -> Ran {
    program(BINARY).args(args).output().expect("duly starts").into()
}

/// A child whose stdout is read line by line; killed at the end.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
    stderr: Option<thread::JoinHandle<String>>,
}

impl Process {
    /// Starts `duly` with these arguments.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut command = duly();
        command.args(args);
        Self::of(command)
    }

    /// Starts a command that has its arguments.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("duly starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut stderr = child.stderr.take().expect("stderr is piped");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let stderr = thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).ok();
            text
        });
        Self { child, lines, stderr: Some(stderr) }
    }

    /// Returns the next line of stdout.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        match self.lines.recv_timeout(DEADLINE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("no line within {DEADLINE:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("ended: {:?}", self.ended()),
        }
    }

    /// Returns the first printed `http://…` or `https://…` address, and the lines up to there.
    #[track_caller]
    pub(crate) fn address(&mut self) -> (String, Vec<String>) {
        let mut lines = Vec::new();
        loop {
            let line = self.line();
            let found = line
                .split_whitespace()
                .find(|word| word.starts_with("http://") || word.starts_with("https://"))
                .map(|word| word.trim_end_matches('/').to_owned());
            lines.push(line);
            if let Some(address) = found {
                return (address, lines);
            }
        }
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a pid is an i32");
        let pid = Pid::from_raw(pid).expect("a child's pid is not zero");
        rustix::process::kill_process(pid, signal).expect("the child is there");
    }

    /// Returns the exit status and stderr, if the process has ended.
    pub(crate) fn try_ended(&mut self) -> Option<(ExitStatus, String)> {
        let status = self.child.try_wait().expect("the child is ours")?;
        let stderr = self.stderr.take().map(thread::JoinHandle::join);
        let stderr = stderr.and_then(Result::ok).unwrap_or_default();
        Some((status, stderr))
    }

    /// Waits for the end; returns the exit status and stderr.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> (ExitStatus, String) {
        let until = Instant::now() + DEADLINE;
        loop {
            if let Some(ended) = self.try_ended() {
                return ended;
            }
            assert!(Instant::now() < until, "still running after {DEADLINE:?}");
            thread::yield_now();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A data directory, and the server that runs on it.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) url: String,
    pub(crate) opening: Vec<String>,
    directory: TempDir,
}

impl Server {
    /// Starts a server on an empty directory.
    pub(crate) fn start() -> Self {
        Self::on(TempDir::new().expect("a temporary directory"))
    }

    /// Starts a node of the deployment at this URL. A Cluster may lack replicas.
    pub(crate) fn on_store(url: &str) -> Self {
        Self::on_store_with(url, &[])
    }

    /// Starts a node of the deployment at this URL, with these variables of the environment.
    pub(crate) fn on_store_with(url: &str, settings: &[(&str, &str)]) -> Self {
        let mut command = node(url);
        command.env("DULY_STORE__ALLOW", "no_replicas").envs(settings.iter().copied());
        Self::of(Process::of(command))
    }

    /// Starts a server with these arguments and without a data directory.
    pub(crate) fn with(args: &[&str]) -> Self {
        Self::of(Process::start(args))
    }

    fn of(mut process: Process) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let (url, opening) = process.address();
        Self { process, url, opening, directory }
    }

    fn on(directory: TempDir) -> Self {
        let data = directory.path().join("data");
        let data = data.to_str().expect("UTF-8");
        let mut process = Process::start(&["serve", "--data", data, "--listen", "127.0.0.1:0"]);
        let (url, opening) = process.address();
        Self { process, url, opening, directory }
    }

    /// Returns the data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Kills the server with -9 and starts another one on the same directory.
    pub(crate) fn kill_and_restart(self) -> Self {
        let Self { process, directory, .. } = self;
        process.signal(Signal::KILL);
        drop(process);
        Self::on(directory)
    }

    /// Returns a command that calls this server.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = duly();
        command.args(args).env("DULY_SERVER", &self.url);
        command
    }

    /// Runs a command that calls this server.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.command(args).output().expect("duly starts").into()
    }

    /// Runs a command and reads its JSON.
    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let mut all = vec!["--output", "json"];
        all.extend(args);
        self.run(&all).json()
    }

    /// Runs a command with this input on its stdin.
    pub(crate) fn run_with_stdin(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("duly starts");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        stdin.write_all(input).expect("it reads its stdin");
        drop(stdin);
        child.wait_with_output().expect("it ends").into()
    }

    /// Repeats a command until its JSON meets a condition.
    #[track_caller]
    pub(crate) fn until(&self, args: &[&str], is_wanted: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + DEADLINE;
        loop {
            let seen = self.json(args);
            if is_wanted(&seen) {
                return seen;
            }
            assert!(Instant::now() < until, "after {DEADLINE:?} still {seen}");
        }
    }
}

/// Calls a server over HTTP/1.1 with these further headers; returns the body of the response.
pub(crate) fn http(
    url: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> String {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a read has a time limit");
    let headers: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         {headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("the request is sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("the response is read");
    let (_, body) = response.split_once("\r\n\r\n").expect("a response has a head");
    body.trim_end().to_owned()
}

/// Starts a receiver that accepts every request; returns its URL, and the heads of the requests.
pub(crate) fn receiver() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/hook", listener.local_addr().expect("bound"));
    let (sender, heads) = mpsc::channel();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let sender = sender.clone();
            thread::spawn(move || accept_requests(socket, &sender));
        }
    });
    (url, heads)
}

/// Accepts requests without a body until the connection ends.
fn accept_requests(mut socket: TcpStream, heads: &mpsc::Sender<String>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while socket.read_exact(&mut byte).is_ok() {
        head.extend(byte);
        if head.ends_with(b"\r\n\r\n") {
            socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok();
            let head = String::from_utf8(std::mem::take(&mut head)).expect("ASCII");
            heads.send(head.to_lowercase()).ok();
        }
    }
}

/// Returns a path as text.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Returns a file with this content; it is removed with the value.
pub(crate) fn file_of(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), text).expect("written");
    file
}
