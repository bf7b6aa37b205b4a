//! Webhook receiver that confirms every delivery with little work, on its own thread.
//!
//! It reads each whole request, passes on the timer's id (`ce-subject`) and replies 200. It has its
//! own async runtime, so the receiver and the load generator do not wait for each other.

mod dead;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::clock::now_us;

pub(crate) use dead::Dead;

/// Callback for each delivery: the timer's id, and the time at which it was read (Unix µs).
pub(crate) type Hear = Arc<dyn Fn(&[u8], u64) + Send + Sync>;

/// The response to every delivery.
pub(crate) const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// Initial buffer size of a request; the buffer grows if needed.
const READ_BYTES: usize = 4 * 1_024;

/// A receiver that listens until it is dropped.
pub(crate) struct Receiver {
    address: SocketAddr,
    /// Its drop ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Receiver {
    /// Starts to listen. A confirmed delivery counts as acknowledged only when the server reports
    /// it so.
    pub(crate) fn start(hear: Hear) -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("receiver".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    result = accept_all(listener, hear) => {
                        if let Err(error) = result {
                            eprintln!("the webhook receiver stopped: {error}");
                        }
                    }
                }
            });
        });
        let thread = thread.context("no thread for the webhook receiver")?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the URL to deliver to.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic has printed its own message; the counts show the missed deliveries.
            thread.join().ok();
        }
    }
}

async fn accept_all(listener: std::net::TcpListener, hear: Hear) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        // A connection ends when the server closes it or ends.
        tokio::spawn(answer_all(stream, Arc::clone(&hear)));
    }
}

async fn answer_all(mut stream: TcpStream, hear: Hear) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut read = Vec::with_capacity(READ_BYTES);
    loop {
        while let Some(delivery) = first(&read) {
            hear(delivery.id, now_us());
            let length = delivery.length;
            read.drain(..length);
            stream.write_all(ANSWER).await?;
        }
        read.reserve(READ_BYTES);
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
    }
}

/// A complete request.
#[derive(Debug, PartialEq, Eq)]
struct Delivery<'a> {
    /// Value of `ce-subject`; empty if the request has none.
    id: &'a [u8],
    /// Bytes of the request, head and body.
    length: usize,
}

/// Returns the first request, if it is complete.
fn first(read: &[u8]) -> Option<Delivery<'_>> {
    let (mut id, mut body_bytes) = (&[][..], 0);
    let mut at = 0;
    loop {
        let end = at + read[at..].iter().position(|byte| *byte == b'\n')?;
        let line = read[at..end].trim_ascii_end();
        at = end + 1;
        if line.is_empty() {
            break;
        }
        if let Some(value) = value_of(line, b"ce-subject:") {
            id = value;
        } else if let Some(value) = value_of(line, b"content-length:") {
            // A length that is no number counts as 0. The next bytes then make no sense, and the
            // counts show it.
            body_bytes = std::str::from_utf8(value).ok()?.parse().unwrap_or(0);
        }
    }
    let length = at.saturating_add(body_bytes);
    (read.len() >= length).then_some(Delivery { id, length })
}

fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (own, value) = line.split_at_checked(name.len())?;
    own.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn a_delivery_is_whole_when_its_body_is_there() {
        let request = b"POST / HTTP/1.1\r\nCE-Subject: 17\r\nContent-Length: 2\r\n\r\nab";
        for cut in 0..request.len() {
            assert_eq!(first(&request[..cut]), None, "cut at {cut}");
        }
        let mut two = request.to_vec();
        two.extend_from_slice(b"POST");
        assert_eq!(first(&two), Some(Delivery { id: b"17", length: request.len() }));
    }

    #[test]
    fn deliveries_are_noted_and_answered() {
        let heard = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let own = Arc::clone(&heard);
        let hear: Hear = Arc::new(move |id, _| own.lock().push(id.to_vec()));
        let receiver = Receiver::start(hear).unwrap();
        let mut stream = std::net::TcpStream::connect(receiver.address).unwrap();
        for id in 0..3 {
            write!(stream, "POST / HTTP/1.1\r\nce-subject: {id}\r\ncontent-length: 1\r\n\r\nx")
                .unwrap();
            let mut answer = vec![0; ANSWER.len()];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, ANSWER);
        }
        assert_eq!(*heard.lock(), [b"0", b"1", b"2"]);
    }
}
