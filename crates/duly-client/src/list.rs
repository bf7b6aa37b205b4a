//! Lists as streams that request page after page.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures::{Stream, StreamExt, stream::BoxStream};

use crate::error::Result;

/// A list: a stream that requests the next page at the end of the one before. It ends after an error.
pub struct Listing<T>(BoxStream<'static, Result<T>>);

impl<T> Listing<T> {
    pub(crate) fn new(stream: impl Stream<Item = Result<T>> + Send + 'static) -> Self {
        Self(stream.boxed())
    }

    /// Returns the next item, or `None` at the end. This future can be dropped without losing an item.
    pub async fn next(&mut self) -> Option<Result<T>> {
        StreamExt::next(&mut self.0).await
    }

    /// Reads all items into memory.
    pub async fn all(mut self) -> Result<Vec<T>> {
        let mut all = Vec::new();
        while let Some(item) = self.next().await {
            all.push(item?);
        }
        Ok(all)
    }
}

impl<T> Stream for Listing<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl<T> std::fmt::Debug for Listing<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listing").finish_non_exhaustive()
    }
}
