//! The lines that this thread logs at the levels `warn` and `error`.

use std::{fmt, fmt::Write as _, sync::Arc};

use parking_lot::Mutex;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

#[derive(Default, Clone)]
struct Log(Arc<Mutex<Vec<String>>>);

/// Returns the result of `work`, and the lines that it logged.
pub(super) fn logged<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    let log = Log::default();
    let done = tracing::subscriber::with_default(log.clone(), work);
    let lines = std::mem::take(&mut *log.0.lock());
    (done, lines)
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().push(line.0);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).expect("text grows");
    }
}
