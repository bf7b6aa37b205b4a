//! Lists as streams that request page after page.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{
    Stream, StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};

use crate::{client::Client, error::Result};

/// A list: a stream that requests the next page at the end of the one before. It ends after an error.
pub struct Listing<T>(BoxStream<'static, Result<T>>);

/// The state of a list that is being read.
struct Pages<Q, T, F> {
    client: Client,
    /// The rest of the current page.
    items: VecDeque<T>,
    /// The request for the next page; none after the last.
    next: Option<Q>,
    read_page: F,
}

impl<T: Send + 'static> Listing<T> {
    /// Lists the items of all pages, from the first request on. `read_page` returns the items of a page,
    /// and the request for the next one. Holds one page in memory at a time.
    pub(crate) fn of_pages<Q, F, Fut>(client: Client, first: Result<Q>, read_page: F) -> Self
    where
        Q: Send + 'static,
        F: Fn(Client, Q) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(Vec<T>, Option<Q>)>> + Send,
    {
        let items = VecDeque::new();
        let state = first.map(|first| Pages { client, items, next: Some(first), read_page });
        let items = stream::unfold(Some(state), move |pages| async move {
            let mut pages = match pages? {
                Ok(pages) => pages,
                Err(error) => return Some((Err(error), None)),
            };
            loop {
                if let Some(item) = pages.items.pop_front() {
                    return Some((Ok(item), Some(Ok(pages))));
                }
                // An empty page is not necessarily the last one.
                match (pages.read_page)(pages.client.clone(), pages.next.take()?).await {
                    Ok((items, next)) => (pages.items, pages.next) = (items.into(), next),
                    Err(error) => return Some((Err(error), None)),
                }
            }
        });
        Self(items.boxed())
    }
}

impl<T> Listing<T> {
    /// Returns the next item, or `None` at the end. This future can be dropped without losing an item.
    pub async fn next(&mut self) -> Option<Result<T>> {
        StreamExt::next(&mut self.0).await
    }

    /// Reads all items into memory.
    pub async fn all(self) -> Result<Vec<T>> {
        self.0.try_collect().await
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
