//! Parser of HTTP/1.1 responses from the bytes read so far.

use std::io;

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Body, without transfer encoding.
    pub body: Vec<u8>,
}

impl Response {
    /// Returns the body as JSON; `null` if it is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns `true` if the status is 2xx.
    pub const fn is_success(&self) -> bool {
        self.status / 100 == 2
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Returns the first response in the bytes and its length; `None` if it is incomplete.
pub(super) fn parse(bytes: &[u8]) -> io::Result<Option<(Response, usize)>> {
    let Some(head_end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head =
        std::str::from_utf8(&bytes[..head_end]).map_err(|_| broken("the head is not text"))?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| broken("no status line"))?;
    let mut length = None;
    let mut chunked = false;
    for line in lines {
        let (name, value) =
            line.split_once(':').ok_or_else(|| broken("a header without a colon"))?;
        if name.eq_ignore_ascii_case("content-length") {
            let parsed = value.trim().parse::<usize>();
            length = Some(parsed.map_err(|_| broken("content-length is no number"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.trim().eq_ignore_ascii_case("chunked");
        }
    }
    let rest = &bytes[head_end + 4..];
    let body = if chunked {
        dechunk(rest)?
    } else {
        let length = length.unwrap_or(0);
        rest.get(..length).map(|body| (body.to_vec(), length))
    };
    Ok(body.map(|(body, used)| (Response { status, body }, head_end + 4 + used)))
}

fn dechunk(mut rest: &[u8]) -> io::Result<Option<(Vec<u8>, usize)>> {
    let whole = rest.len();
    let mut body = Vec::new();
    loop {
        let Some(line_end) = rest.windows(2).position(|two| two == b"\r\n") else {
            return Ok(None);
        };
        let size = std::str::from_utf8(&rest[..line_end])
            .ok()
            .and_then(|text| usize::from_str_radix(text.split(';').next()?.trim(), 16).ok())
            .ok_or_else(|| broken("a chunk without a size"))?;
        let Some(chunk) = rest.get(line_end + 2..line_end + 4 + size) else {
            return Ok(None);
        };
        body.extend_from_slice(&chunk[..size]);
        rest = &rest[line_end + 4 + size..];
        if size == 0 {
            return Ok(Some((body, whole - rest.len())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_and_broken_answers() {
        let fixed = b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\nabcHTTP";
        let chunked =
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        for (bytes, status) in [(&fixed[..], 201), (&chunked[..], 200)] {
            let (response, used) = parse(bytes).unwrap().unwrap();
            assert_eq!((response.status, &response.body[..]), (status, &b"abc"[..]));
            for cut in 0..used {
                assert_eq!(parse(&bytes[..cut]).unwrap(), None, "cut at {cut}");
            }
        }
        assert!(parse(b"nonsense\r\n\r\n").is_err());
    }
}
