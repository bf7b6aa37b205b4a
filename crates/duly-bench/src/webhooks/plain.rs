//! Baseline of the webhook benchmark: the same exchanges over plain sockets, without an HTTP
//! client.

use std::time::Instant;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{Options, Took, far_side::ANSWER, measure};
use crate::{
    error::{Error, Result},
    latency::Latencies,
};

/// Approximate bytes of the headers of a delivery.
const HEADER_BYTES: usize = 600;

/// Makes as many exchanges as there are deliveries.
pub(super) async fn exchange(options: &Options, port: u16) -> Result<Took> {
    let filler = "x".repeat(HEADER_BYTES);
    let body = "x".repeat(options.payload_bytes as usize);
    let length = body.len();
    let request = format!(
        "POST /hook HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nx-filler: {filler}\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    measure(options, |turns| {
        let request = request.clone().into_bytes();
        async move {
            let failed = || Error::io("exchange with", "the receiver");
            let mut latencies = Latencies::new();
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(failed())?;
            stream.set_nodelay(true).map_err(failed())?;
            let mut answer = [0; ANSWER.len()];
            while turns.next() {
                let began = Instant::now();
                stream.write_all(&request).await.map_err(failed())?;
                stream.read_exact(&mut answer).await.map_err(failed())?;
                latencies.record(began.elapsed());
            }
            Ok(latencies)
        }
    })
    .await
}
