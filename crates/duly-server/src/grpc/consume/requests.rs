//! What a consumer says, message by message.
//!
//! The library keeps the buffer that a message came in for the next one. Of thousands of streams that
//! each sent one large batch of verdicts and rest since, that would be most of the memory: so a large
//! buffer with nothing in it is dropped, together with the reader that holds it (P10).

use duly_api::v1::ConsumeRequest;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstDecoder;

use crate::grpc::{inbound::Incoming, status::of_library};

/// The requests of one stream.
#[derive(Debug)]
pub(super) struct Requests {
    reader: Streaming<ConsumeRequest>,
    incoming: Option<Incoming>,
    /// How many were read.
    count: u64,
}

impl Requests {
    /// The requests of a call.
    pub(super) fn new(mut call: Request<Streaming<ConsumeRequest>>) -> Self {
        let incoming = call.extensions_mut().remove();
        Self { reader: call.into_inner(), incoming, count: 0 }
    }

    /// The next one; `None` when there is no other.
    ///
    /// Cancellation safe: nothing that has come is lost.
    pub(super) async fn next(&mut self) -> Result<Option<ConsumeRequest>, Status> {
        if let Some(incoming) = &self.incoming
            && incoming.is_kept_for_nothing(self.count)
        {
            let (body, bytes_max) = (incoming.clone(), incoming.bytes_max());
            let decoder = ProstDecoder::default();
            self.reader = Streaming::new_request(decoder, body, None, Some(bytes_max));
            incoming.forget();
        }
        let next = self.reader.message().await.map_err(of_library)?;
        self.count += u64::from(next.is_some());
        Ok(next)
    }
}
