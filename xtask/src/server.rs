//! A `duly` server that requires keys, on a fresh directory below `target/`, and plain HTTP calls to it.
//!
//! Used by [`crate::fuzz_http`], [`crate::http_docs`] and [`crate::clients`], and with other directories by
//! [`crate::upgrade`]. The server is killed when dropped.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process;

/// Longest wait for a response: a lease call may wait for a minute.
const RESPONSE_WITHIN: Duration = Duration::from_secs(75);

/// A running server.
pub(crate) struct Server {
    child: Child,
    /// Its address: `http://127.0.0.1:PORT`.
    pub(crate) address: String,
    /// The key of its administrator; empty if it requires none.
    pub(crate) key: String,
}

impl Server {
    /// Starts a server with an empty store below `directory`. If `backups` is given, it is emptied
    /// first, and the server makes backups in it.
    pub(crate) fn start(duly: &Path, directory: &Path, backups: Option<&Path>) -> Result<Self> {
        let data = directory.join("data");
        for old in std::iter::once(data.as_path()).chain(backups).filter(|path| path.exists()) {
            fs::remove_dir_all(old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
        let mut command = process::program(duly);
        command.args(["key", "create", "tools", "--admin", "--data"]).arg(&data);
        let created = command.output().context("cannot start duly")?;
        let key = String::from_utf8(created.stdout)?.trim().to_owned();
        if key.is_empty() {
            bail!("no key was created: {}", String::from_utf8_lossy(&created.stderr));
        }
        let mut command = process::program(duly);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
            .env("DULY_STORE__MIN_FREE_BYTES", "0")
            .env("DULY_STORE__MIN_FREE_PERCENT", "0")
            .env("DULY_STORE__SEGMENT_BYTES", "16MiB")
            .env("DULY_LOG__LEVEL", "error");
        if let Some(backups) = backups {
            fs::create_dir_all(backups)
                .with_context(|| format!("cannot make {}", backups.display()))?;
            command.env("DULY_STORE__BACKUP_DIR", backups);
        }
        Self::spawn(&mut command, key)
    }

    /// Starts a server with this command, and waits until it listens.
    pub(crate) fn spawn(command: &mut Command, key: String) -> Result<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start duly")?;
        let output = child.stdout.take().context("the child has no standard output")?;
        let mut server = Self { child, address: String::new(), key };
        for line in BufReader::new(output).lines() {
            let line = line?;
            if let Some(address) = line.split_whitespace().find(|word| word.starts_with("http://"))
            {
                server.address = address.trim_end_matches('/').to_owned();
                return Ok(server);
            }
        }
        bail!("duly ended before it listened");
    }

    /// Stops the server. Returns an error if the server ended by itself before.
    pub(crate) fn stop(mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("duly ended while it was called: {status}"),
            None => Ok(()),
        }
    }

    /// Stops the server with SIGTERM and waits for its end. Returns an error if it fails.
    pub(crate) fn terminate(mut self) -> Result<()> {
        let pid = self.child.id().to_string();
        process::output(process::program("kill").args(["-TERM", &pid]))?;
        let status = self.child.wait()?;
        anyhow::ensure!(status.success(), "duly ended with {status}");
        Ok(())
    }

    /// Sends a request and returns the response.
    pub(crate) fn call(&self, request: &Request<'_>) -> Result<Response> {
        let host = self.address.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).context("cannot connect")?;
        stream.set_read_timeout(Some(RESPONSE_WITHIN))?;
        let Request { method, path, body } = request;
        let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let length = body.len();
        let key = match self.key.as_str() {
            "" => String::new(),
            key => format!("authorization: Bearer {key}\r\n"),
        };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{kind}\
             {key}content-length: {length}\r\n\r\n{body}",
        )?;
        let mut text = String::new();
        stream.read_to_string(&mut text).context("cannot read the response")?;
        Response::parse(&text).with_context(|| format!("{method} {path}: no response: {text:?}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A request with a JSON body or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// `GET`, `POST`, ….
    pub(crate) method: &'a str,
    /// Path and query.
    pub(crate) path: &'a str,
    /// The body; empty for none.
    pub(crate) body: &'a str,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    /// The status.
    pub(crate) status: u16,
    /// The media type.
    pub(crate) content_type: String,
    /// The whole body.
    pub(crate) body: String,
}

impl Response {
    fn parse(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.lines().next()?.split(' ').nth(1)?.parse().ok()?;
        let header = |wanted: &str| {
            head.lines().skip(1).find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case(wanted).then(|| value.trim().to_owned())
            })
        };
        let is_chunked = header("transfer-encoding").is_some_and(|value| value == "chunked");
        let body = if is_chunked { joined_chunks(body)? } else { body.to_owned() };
        Some(Self { status, content_type: header("content-type").unwrap_or_default(), body })
    }
}

/// Joins the chunks of a body.
fn joined_chunks(mut rest: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (size, behind) = rest.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.push_str(behind.get(..size)?);
        rest = behind.get(size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_read_whole_and_in_chunks() {
        let plain = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n\r\n{}\n";
        let chunked = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\n\
                       transfer-encoding: chunked\r\n\r\n1\r\n{\r\n2\r\n}\n\r\n0\r\n\r\n";
        for text in [plain, chunked] {
            let response = Response::parse(text).unwrap();
            assert_eq!((response.status, response.body.as_str()), (201, "{}\n"));
            assert_eq!(response.content_type, "application/json");
        }
        assert_eq!(Response::parse(""), None);
    }
}
