//! A real `duly serve` as a child process.
//!
//! * The child has its own process group, so a Ctrl-C for the tool does not reach it.
//! * Signals go only to the pid of the child that was started here.
//! * Output goes to one log file per data directory.
//! * Dropping a [`Server`] kills the child.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::wire::{Connection, Network};

/// Options to start a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The `duly` binary.
    pub bin: PathBuf,
    /// Data directory; `None` if the settings name a shared store.
    pub data: Option<PathBuf>,
    /// Log file for the output; appended to.
    pub log: PathBuf,
    /// Listen address; port 0 picks a free port.
    pub listen: SocketAddr,
    /// Settings, as environment variables.
    pub settings: Vec<(String, String)>,
    /// Network in which the server runs.
    pub network: Arc<dyn Network>,
}

/// A running child process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
    network: Arc<dyn Network>,
}

/// Returns settings of a fixed list.
pub fn settings(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

impl Server {
    /// Starts the process. The server may not listen yet; see [`Starting::wait_for_address`].
    pub fn spawn(options: &Options) -> Result<Starting> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&options.log)
            .with_context(|| format!("cannot open {}", options.log.display()))?;
        let mut command = Command::new(&options.bin);
        command.arg("serve").arg("--listen").arg(options.listen.to_string());
        if let Some(data) = &options.data {
            command.arg("--data").arg(data);
        }
        command
            .envs(options.settings.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.try_clone()?)
            .process_group(0);
        let mut child = options
            .network
            .spawn(&mut command)
            .with_context(|| format!("cannot start {}", options.bin.display()))?;
        let stdout = child.stdout.take().context("the child has no stdout")?;
        Ok(Starting {
            address: read_address(stdout, log),
            server: Self { child, address: options.listen, network: Arc::clone(&options.network) },
        })
    }

    /// Starts the process and waits until the server is ready.
    pub async fn start(options: &Options, patience: Duration) -> Result<Self> {
        let mut server = Self::spawn(options)?.wait_for_address(patience).await?;
        server.wait_ready(patience).await?;
        Ok(server)
    }

    /// Returns the listen address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Polls `/readyz` until it succeeds, the process ends, or `patience` is over.
    pub async fn wait_ready(&mut self, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        let mut connection = Connection::within(Arc::clone(&self.network), self.address);
        loop {
            let one_try = Duration::from_secs(2);
            let answer = connection.call("GET", "/readyz", b"", one_try).await;
            if answer.as_ref().is_ok_and(crate::wire::Response::is_success) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status} before it was ready; see its log");
            }
            if Instant::now() > deadline {
                let last = match answer {
                    Ok(response) => String::from_utf8_lossy(&response.body).into_owned(),
                    Err(error) => error.to_string(),
                };
                bail!("the server was not ready within {patience:?}; it last said: {last}");
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Returns `true` if the process has ended by itself.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Kills the process with SIGKILL and waits for its end.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(|_| ())
    }

    /// Stops the process with SIGSTOP: its sockets stay open, and none of its threads run.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Resumes the process with SIGCONT.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id())?;
        let pid = Pid::from_raw(pid).context("a child's pid is not 0")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Stops the process with SIGTERM and waits. Returns `true` if it ended with success.
    pub async fn stop(&mut self, patience: Duration) -> Result<bool> {
        self.signal(Signal::TERM)?;
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.success());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.kill()?;
        bail!("the server did not stop within {patience:?}")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already; a drop cannot report an error.
        drop(self.kill());
    }
}

/// A process that may not listen yet.
#[derive(Debug)]
pub struct Starting {
    address: mpsc::Receiver<SocketAddr>,
    server: Server,
}

impl Starting {
    /// Kills the process at once.
    pub fn kill(mut self) -> io::Result<()> {
        self.server.kill()
    }

    /// Waits until the process has printed its listen address.
    pub async fn wait_for_address(mut self, patience: Duration) -> Result<Server> {
        let deadline = Instant::now() + patience;
        loop {
            if let Ok(address) = self.address.try_recv() {
                self.server.address = address;
                return Ok(self.server);
            }
            if let Some(status) = self.server.child.try_wait()? {
                bail!("the server ended with {status} before it listened; see its log");
            }
            if Instant::now() > deadline {
                bail!("the server did not say where it listens within {patience:?}");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Copies standard output to the log on a thread, and sends the first address found in it.
fn read_address(stdout: ChildStdout, mut log: File) -> mpsc::Receiver<SocketAddr> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some(address) = address_in(&line) {
                // The receiver may be dropped; the log continues.
                sender.send(address).unwrap_or(());
            }
            if writeln!(log, "{line}").is_err() {
                break;
            }
        }
    });
    receiver
}

fn address_in(line: &str) -> Option<SocketAddr> {
    let rest = &line[line.find("http://")? + "http://".len()..];
    let end = rest
        .find(|c: char| !(c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '[' | ']')))
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Returns the last lines of a log, for an error message.
pub fn tail(log: &Path, lines: usize) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_address_in_a_line() {
        for (line, found) in [
            ("listening  http://127.0.0.1:3859", Some("127.0.0.1:3859")),
            ("on http://[::1]:80/ and", Some("[::1]:80")),
            ("see http://docs", None),
            ("nothing", None),
        ] {
            let expected = found.map(|text| text.parse::<SocketAddr>().unwrap());
            assert_eq!(address_in(line), expected, "{line}");
        }
    }

    fn options(bin: PathBuf, dir: &Path) -> Options {
        Options {
            settings: Vec::new(),
            network: Arc::new(crate::wire::Here),
            bin,
            data: Some(dir.join("data")),
            log: dir.join("log"),
            listen: "127.0.0.1:0".parse().unwrap(),
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_stopped_child_waits_for_resume_or_kill() {
        let dir = tempfile::tempdir().unwrap();
        let bin = script(dir.path(), "exec sleep 600");
        let mut server = Server::spawn(&options(bin, dir.path())).unwrap().server;
        let stat = format!("/proc/{}/stat", server.pid());
        let stopped = || std::fs::read_to_string(&stat).unwrap().contains(") T ");
        assert!(!stopped());
        server.freeze().unwrap();
        while !stopped() {
            thread::yield_now();
        }
        server.thaw().unwrap();
        while stopped() {
            thread::yield_now();
        }
        server.freeze().unwrap();
        server.kill().unwrap();
    }

    fn script(dir: &Path, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;

        let bin = dir.join("script");
        std::fs::write(&bin, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&bin, std::fs::Permissions::from_mode(0o700)).unwrap();
        bin
    }

    #[tokio::test]
    async fn a_server_that_stays_unready_is_an_error_with_its_reason() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (caller, _) = listener.accept().unwrap();
            let lines = BufReader::new(&caller).lines().map_while(Result::ok);
            for _end_of_a_request in lines.filter(String::is_empty) {
                let response = "HTTP/1.1 503 x\r\ncontent-length: 16\r\n\r\nthe disk is full";
                (&caller).write_all(response.as_bytes()).unwrap();
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let bin = script(dir.path(), &format!("echo http://{address}; exec sleep 600"));
        let error = Server::start(&options(bin, dir.path()), Duration::from_secs(1)).await;
        let message = error.unwrap_err().to_string();
        assert!(message.ends_with("it last said: the disk is full"), "{message}");
    }

    #[tokio::test]
    async fn an_early_exit_of_the_child_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let options = options("/bin/false".into(), dir.path());
        let error = Server::start(&options, Duration::from_secs(10)).await;
        assert!(error.unwrap_err().to_string().contains("ended"));
    }
}
