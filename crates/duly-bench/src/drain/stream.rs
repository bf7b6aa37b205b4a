//! Consumers with one gRPC stream each instead of lease calls. Credits limit the firings in flight.

use std::{collections::VecDeque, time::Duration};

use anyhow::{Context as _, Result};
use tokio::time::{Instant, timeout};

use super::Consumers;
use crate::{
    clock::now_us,
    transport::grpc::{Grpc, StreamMessage},
};

/// Longest wait for a message before the consumer checks whether the run is over.
const LOOK: Duration = Duration::from_millis(200);

impl Consumers {
    /// Receives firings from one stream, and acknowledges them on it, until the run is over.
    pub(super) async fn stream(&self, line: usize, grpc: &Grpc) -> Result<()> {
        let drain = &self.drain;
        let mut stream = grpc.consume(line, &drain.namespace, drain.batch).await?;
        let mut unsettled = VecDeque::new();
        while !self.is_done() && !self.stop.is_wanted() && Instant::now() < drain.until {
            let Ok(heard) = timeout(LOOK, stream.hear()).await else { continue };
            let received_us = now_us();
            match heard? {
                StreamMessage::Firings(firings) => {
                    self.note(&firings, received_us);
                    stream.acknowledge(&firings)?;
                    unsettled.push_back(firings);
                }
                StreamMessage::Settled(answers) => {
                    let firings = unsettled.pop_front();
                    let firings = firings.context("an answer came to no acknowledgement")?;
                    self.note_settled(&firings, &answers)?;
                }
            }
        }
        Ok(())
    }
}
