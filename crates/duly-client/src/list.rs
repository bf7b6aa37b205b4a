//! Lists as streams that request page after page.

use std::{
    collections::{BTreeSet, VecDeque},
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{
    Stream, StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};

use crate::error::{Error, Result};

/// A list: a stream that requests the next page at the end of the one before. It ends after an error, also
/// after [`Error::Incomplete`], which comes last, after all items that could be read.
pub struct Listing<T>(BoxStream<'static, Result<T>>);

/// A page of a list.
pub(crate) struct Page<T, Q> {
    pub(crate) items: Vec<T>,
    /// The request for the next page; `None` after the last.
    pub(crate) next: Option<Q>,
    /// Shards whose items are not in the page.
    pub(crate) unavailable_shards: Vec<u32>,
}

/// The state of a list that is being read.
struct Pages<Q, T, F> {
    /// The rest of the current page.
    items: VecDeque<T>,
    /// The request for the next page; none after the last.
    next: Option<Q>,
    /// Shards whose items were not in one of the pages.
    missing: BTreeSet<u32>,
    read_page: F,
}

impl<T: Send + 'static> Listing<T> {
    /// Lists the items of all pages, from the first request on. Holds one page in memory at a time.
    pub(crate) fn of_pages<Q, F, Fut>(first: Result<Q>, read_page: F) -> Self
    where
        Q: Send + 'static,
        F: Fn(Q) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Page<T, Q>>> + Send,
    {
        let (items, missing) = (VecDeque::new(), BTreeSet::new());
        let state = first.map(|first| Pages { items, next: Some(first), missing, read_page });
        let items = stream::unfold(Some(state), move |pages| async move {
            let mut pages = match pages? {
                Ok(pages) => pages,
                Err(error) => return Some((Err(error), None)),
            };
            loop {
                if let Some(item) = pages.items.pop_front() {
                    return Some((Ok(item), Some(Ok(pages))));
                }
                let Some(next) = pages.next.take() else {
                    let shards = Vec::from_iter(pages.missing);
                    let incomplete = (!shards.is_empty()).then_some(Error::Incomplete { shards });
                    return incomplete.map(|error| (Err(error), None));
                };
                // An empty page is not necessarily the last one.
                match (pages.read_page)(next).await {
                    Ok(page) => {
                        (pages.items, pages.next) = (page.items.into(), page.next);
                        pages.missing.extend(page.unavailable_shards);
                    }
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
