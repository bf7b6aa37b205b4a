//! Reads the requests of one consumer.
//!
//! The library keeps the buffer of a message for the next one. With thousands of idle streams that each
//! sent one large batch of verdicts, these buffers would be most of the memory. So a large empty buffer
//! is dropped, together with the reader that holds it (P10).

use duly_api::v1::ConsumeRequest;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstDecoder;

use crate::grpc::{inbound::Incoming, status::from_library};

/// The requests of one stream.
pub(super) struct Requests {
    reader: Streaming<ConsumeRequest>,
    incoming: Option<Incoming>,
    /// Number of requests that were read.
    count: u64,
}

impl Requests {
    /// Returns the requests of a call.
    pub(super) fn new(mut call: Request<Streaming<ConsumeRequest>>) -> Self {
        let incoming = call.extensions_mut().remove();
        Self { reader: call.into_inner(), incoming, count: 0 }
    }

    /// Returns the next request; `None` at the end.
    ///
    /// Cancellation safe: no received request is lost.
    pub(super) async fn next(&mut self) -> Result<Option<ConsumeRequest>, Status> {
        if let Some(incoming) = &self.incoming
            && incoming.holds_empty_buffer(self.count)
        {
            let (body, bytes_max) = (incoming.clone(), incoming.bytes_max());
            let decoder = ProstDecoder::default();
            self.reader = Streaming::new_request(decoder, body, None, Some(bytes_max));
            incoming.note_buffer_release();
        }
        let next = self.reader.message().await.map_err(from_library)?;
        self.count += u64::from(next.is_some());
        Ok(next)
    }
}
