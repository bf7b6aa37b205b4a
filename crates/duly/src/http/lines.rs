//! Calls with lines of JSON as their body, whose response is returned line by line.

use reqwest::{Method, Response, Url, header::CONTENT_TYPE};
use serde::de::DeserializeOwned;

use super::{Call, HINTS, failed_call, unparsed_failure};
use crate::failure::Failure;

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
    /// Sends these lines of JSON.
    pub(crate) async fn lines(self, lines: Vec<u8>) -> Result<ResponseLines, Failure> {
        let server = self.client.server.clone();
        let request = self
            .client
            .http
            .request(self.method, self.url)
            .header(CONTENT_TYPE, "application/x-ndjson")
            .body(lines);
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
