//! Questions that take the engine several steps: asked in one, answered by a later one.

use duly_core::NamespaceName;
use duly_store::{Result, StoreFuture};
use tokio::sync::oneshot;

use crate::{
    engine::survey::Question,
    shell::{self, Answer, Request},
};

use super::{EmbeddedStore, Mode, answered, run_inline};

impl EmbeddedStore {
    /// Has a question about a namespace answered.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        namespace: NamespaceName,
        question: impl FnOnce(oneshot::Sender<Result<T>>) -> Question + Send + 'static,
    ) -> StoreFuture<'_, T> {
        let (reply, mut answer) = oneshot::channel();
        match &self.mode {
            Mode::Inline { engine, wakeups } => {
                let asked = run_inline(&mut engine.lock(), wakeups, move |engine| {
                    engine.ask(&namespace, question(reply));
                    Ok(())
                });
                let broken_off = |_| Err(shell::broken_off());
                let answer = asked.and_then(|()| answer.try_recv().unwrap_or_else(broken_off));
                Box::pin(std::future::ready(answer))
            }
            Mode::Threads { shared, .. } => {
                let pushed = shared.inbox.push(Request::Call(Box::new(move |engine| {
                    match engine.check_usable() {
                        Ok(()) => engine.ask(&namespace, question(reply)),
                        Err(error) => question(reply).refuse(error),
                    }
                    Answer::Now(Box::new(|_| {}))
                })));
                answered(pushed, answer)
            }
        }
    }
}
