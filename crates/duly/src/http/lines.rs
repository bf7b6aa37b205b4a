//! Calls that stream lines in both directions: the response begins while the request is still being
//! sent.
//!
//! Memory holds only a few chunks: the source is read as fast as the server reads, and the response is
//! returned line by line.

use std::{
    io::{self, Read},
    pin::Pin,
    task::{Context, Poll},
    thread,
};

use axum::body::Bytes;
use hyper::body::{Body, Frame};
use reqwest::{Method, Response, Url, header::CONTENT_TYPE};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::{Call, HINTS, failed_call, unparsed_failure};
use crate::failure::Failure;

/// Size of the read buffer.
const CHUNK_BYTES: usize = 64 * 1024;
/// Most chunks that were read and not yet sent.
const CHUNKS_MAX: usize = 4;

/// The source, as the body of a request.
struct Upload(mpsc::Receiver<io::Result<Bytes>>);

/// The lines of a response, as they arrive.
pub(crate) struct ResponseLines {
    response: Response,
    server: Url,
    /// Received bytes.
    buffer: Vec<u8>,
    /// Number of buffered bytes that were returned.
    consumed: usize,
    /// `true`: the response has ended.
    is_ended: bool,
}

impl Call<'_> {
    /// Sends the bytes of `source`, as they are read, as lines of JSON.
    pub(crate) async fn lines(
        self,
        source: impl Read + Send + 'static,
    ) -> Result<ResponseLines, Failure> {
        let server = self.client.server.clone();
        let request = self
            .client
            .http
            .request(self.method, self.url)
            .header(CONTENT_TYPE, "application/x-ndjson")
            .body(reqwest::Body::wrap(Upload::of(source)));
        let broken = |error| failed_call::broken(&server, &error, &Method::POST);
        let response = request.send().await.map_err(broken)?;
        let status = response.status();
        if status.is_success() {
            let (buffer, consumed, is_ended) = (Vec::new(), 0, false);
            return Ok(ResponseLines { response, server, buffer, consumed, is_ended });
        }
        let text = response.text().await.map_err(broken)?;
        Err(failed_call::refusal(&server, status, &text, &[self.hints, HINTS].concat()))
    }
}

impl ResponseLines {
    /// Returns the next line; none after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, Failure> {
        loop {
            let rest = &self.buffer[self.consumed..];
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&rest[..end]).trim_end().to_owned();
                self.consumed += end + 1;
                return Ok(Some(line));
            }
            if self.is_ended {
                let line = String::from_utf8_lossy(rest).trim().to_owned();
                self.consumed = self.buffer.len();
                return Ok((!line.is_empty()).then_some(line));
            }
            self.buffer.drain(..self.consumed);
            self.consumed = 0;
            let chunk = self.response.chunk().await;
            match chunk.map_err(|error| failed_call::broken(&self.server, &error, &Method::POST))? {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None => self.is_ended = true,
            }
        }
    }

    /// Parses a line.
    pub(crate) fn parse<T: DeserializeOwned>(&self, line: &str) -> Result<T, Failure> {
        serde_json::from_str(line).map_err(|error| unparsed_failure(&self.server, &error))
    }
}

impl Upload {
    /// Reads the source on a thread of its own, since a terminal or pipe may block.
    fn of(mut source: impl Read + Send + 'static) -> Self {
        let (sender, chunks) = mpsc::channel(CHUNKS_MAX);
        thread::spawn(move || {
            let mut buffer = vec![0; CHUNK_BYTES];
            loop {
                let chunk = match source.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(read) => Ok(Bytes::copy_from_slice(&buffer[..read])),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let is_last = chunk.is_err();
                if sender.blocking_send(chunk).is_err() || is_last {
                    return;
                }
            }
        });
        Self(chunks)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }
}
