//! Receiver of the benchmark, in a child process: reads each whole request, replies 200, counts.
//!
//! It prints its port as the first line. When its standard input ends, it prints its count as the
//! second line.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};

use crate::error::{Error, Result};

/// The response to every request.
pub(super) const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// A running receiver process.
pub(super) struct FarSide {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    port: u16,
}

impl FarSide {
    /// Starts `program`, or this program, as a receiver.
    pub(super) fn start(program: Option<&Path>) -> Result<Self> {
        let own = || std::env::current_exe().map_err(Error::io("find", "this program"));
        let program: PathBuf = program.map_or_else(own, |program| Ok(program.to_owned()))?;
        let mut process = Command::new(&program)
            .arg("receiver")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(Error::io("start", &program))?;
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("it was asked for"));
        let mut far_side = Self { process, input, output, port: 0 };
        far_side.port = far_side.number()?;
        Ok(far_side)
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// Stops the receiver and returns how many requests it got.
    pub(super) fn end(mut self) -> Result<u64> {
        drop(self.input.take());
        self.number()
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(Error::io("read from", "the receiver"))?;
        line.trim().parse().map_err(|_| Error::Unexpected {
            expected: "a number of the receiver".to_owned(),
            found: format!("{line:?}; what went wrong stands above"),
        })
    }
}

impl Drop for FarSide {
    fn drop(&mut self) {
        // A receiver ends when its input ends. The kill is for one that hangs.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Runs the receiver until the standard input ends.
///
/// # Errors
/// When the receiver cannot listen, or cannot use its standard streams.
pub fn receive() -> Result<()> {
    let runtime = Runtime::new().map_err(Error::io("start", "the runtime"))?;
    let listener = runtime
        .block_on(TcpListener::bind("127.0.0.1:0"))
        .map_err(Error::io("listen on", "127.0.0.1"))?;
    let port = listener.local_addr().map_err(Error::io("listen on", "127.0.0.1"))?.port();
    say(port)?;
    let requests = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&requests);
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_all(stream, Arc::clone(&counter)));
        }
    });
    io::copy(&mut io::stdin(), &mut io::sink()).map_err(Error::io("read", "the input"))?;
    say(requests.load(Ordering::SeqCst))
}

fn say(number: impl std::fmt::Display) -> Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{number}").and_then(|()| out.flush()).map_err(Error::io("write", "a number"))
}

async fn answer_all(mut stream: TcpStream, requests: Arc<AtomicU64>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut seen = Vec::with_capacity(16 * 1024);
    loop {
        while let Some(length) = whole(&seen) {
            seen.drain(..length);
            requests.fetch_add(1, Ordering::SeqCst);
            stream.write_all(ANSWER).await?;
        }
        if stream.read_buf(&mut seen).await? == 0 {
            return Ok(());
        }
    }
}

/// Returns the length of the first request, if it is complete.
fn whole(seen: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length: ";
    let head = seen.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let at = seen[..head].windows(NAME.len()).position(|w| w.eq_ignore_ascii_case(NAME))?;
    let digits = seen[at + NAME.len()..head].split(|byte| !byte.is_ascii_digit()).next()?;
    let body: usize = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (seen.len() >= head + body).then_some(head + body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_whole_when_its_body_is_there() {
        let request = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab";
        for cut in 0..request.len() {
            assert_eq!(whole(&request[..cut]), None, "{cut}");
        }
        assert_eq!(whole(request), Some(request.len()));
        assert_eq!(whole(&[&request[..], b"POST"].concat()), Some(request.len()));
    }
}
