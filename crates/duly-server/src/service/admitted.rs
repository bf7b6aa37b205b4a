//! A call that was admitted: its caller, its trace context, a notice for people beside the body of its response,
//! and its notes for the audit log.
//!
//! [`crate::admission`] makes it, for HTTP and gRPC alike. The operations are its methods.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use duly_core::{Code, NamespaceName, access::Action, error_code::Retry};
use parking_lot::Mutex;

use super::App;
use crate::{
    audit::{CallNotes, SharedNotes, StreamStep},
    auth::Caller,
    memory::budget::Budget,
    operations::{CallKind, Operation},
    problem::Problem,
};

/// An admitted call; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Admitted(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    app: App,
    operation: &'static Operation,
    caller: Caller,
    /// `None` if the call is not audited.
    notes: Option<SharedNotes>,
    trace_parent: Option<Arc<str>>,
    notice: Mutex<Option<String>>,
    /// `true`: the call changes nothing, as known by its kind, or as its handler finds out. Then its outcome is
    /// never in doubt.
    changes_nothing: AtomicBool,
}

impl Deref for Admitted {
    type Target = App;

    fn deref(&self) -> &App {
        &self.0.app
    }
}

impl Admitted {
    /// Creates an admitted call with this trace context.
    pub(crate) fn new(
        app: App,
        operation: &'static Operation,
        caller: Caller,
        notes: Option<SharedNotes>,
        trace_parent: Option<Arc<str>>,
    ) -> Self {
        Self(Arc::new(Inner {
            app,
            operation,
            caller,
            notes,
            trace_parent,
            notice: Mutex::default(),
            changes_nothing: AtomicBool::new(operation.kind != CallKind::Change),
        }))
    }

    /// Returns the operation.
    pub(crate) fn operation(&self) -> &'static Operation {
        self.0.operation
    }

    /// Returns the caller.
    pub(crate) fn caller(&self) -> &Caller {
        &self.0.caller
    }

    /// Returns the memory budget of requests and responses, for this call.
    pub(crate) fn budget(&self) -> Budget {
        self.budget_of(&self.0.caller)
    }

    /// Returns the W3C trace context. A malformed one is left out.
    pub(crate) fn trace_parent(&self) -> Option<&str> {
        self.0.trace_parent.as_deref()
    }

    /// Notes something for the audit log, if the call is audited.
    pub(crate) fn note(&self, note: impl FnOnce(&mut CallNotes)) {
        if let Some(notes) = &self.0.notes {
            note(&mut notes.lock());
        }
    }

    /// Takes the notes that were made so far.
    pub(crate) fn take_notes(&self) -> CallNotes {
        self.0.notes.as_ref().map(|it| std::mem::take(&mut *it.lock())).unwrap_or_default()
    }

    /// Records a step of a stream in the audit log, with the notes that were made since the step before it.
    pub(crate) fn note_step(
        &self,
        protocol: &'static str,
        notes: &CallNotes,
        namespace: Option<&NamespaceName>,
        is_doubtful: bool,
    ) {
        let step = StreamStep {
            protocol,
            operation: self.0.operation,
            namespace: namespace.or(notes.namespace.as_ref()),
            items: notes.items,
            has_changed: notes.has_changed,
            is_denied: notes.is_denied,
            is_doubtful,
        };
        self.audit.note_step(&self.0.caller, &step, self.now());
    }

    /// Begins a step of a stream. A step that is dropped before [`Step::end`] is recorded as one in doubt.
    pub(crate) fn step(&self, protocol: &'static str, namespace: &NamespaceName) -> Step {
        Step { admitted: self.clone(), protocol, namespace: namespace.clone(), has_ended: false }
    }

    /// Returns `true` if the call may do nothing but revoke a key.
    pub(crate) fn may_only_revoke(&self) -> bool {
        self.0.notes.as_ref().is_some_and(|notes| notes.lock().may_only_revoke)
    }

    /// Adds to the notice of the response.
    pub(crate) fn set_notice(&self, text: String) {
        let mut notice = self.0.notice.lock();
        *notice = Some(match notice.take() {
            Some(before) => format!("{before}; {text}"),
            None => text,
        });
    }

    /// Takes the notice of the response.
    pub(crate) fn take_notice(&self) -> Option<String> {
        self.0.notice.lock().take()
    }

    /// Checks the right to an action.
    pub(crate) fn check(&self, action: Action) -> Result<(), Problem> {
        let checked = self.0.caller.check(action);
        if checked.is_err() {
            self.note(|notes| notes.is_denied = true);
        }
        checked
    }

    /// Checks that the caller is still admitted, for calls that take long.
    pub(crate) fn check_still_valid(&self) -> Result<(), Problem> {
        match self.caller() {
            // The first key came after the call.
            Caller::Anyone if self.auth.is_required() => Err(self.auth.unauthenticated()),
            caller => caller.check_still_valid(self.now()),
        }
    }

    /// Checks that the caller may use a namespace.
    pub(crate) fn check_namespace(&self, name: &NamespaceName) -> Result<(), Problem> {
        let checked = self.0.caller.check_namespace(name);
        self.note(|notes| {
            notes.namespace = Some(name.clone());
            notes.is_denied |= checked.is_err();
        });
        checked
    }

    /// Notes that the call is a dry run, which changes nothing.
    pub(crate) fn set_dry_run(&self) {
        debug_assert!(self.0.operation.dry_run, "as the table says");
        self.0.changes_nothing.store(true, Ordering::Release);
    }

    /// Returns the problem of a call that has no response `within` its time limit.
    pub(crate) fn no_response(&self, within: &str) -> Problem {
        no_response(self.0.changes_nothing.load(Ordering::Acquire), within)
    }
}

/// Returns the problem of a call that has no response `within` its time limit.
pub(crate) fn no_response(changes_nothing: bool, within: &str) -> Problem {
    let outcome = if changes_nothing {
        "the call changes nothing: repeat it, and ask for less at a time if it lists or counts"
    } else {
        "it is not known whether the change was made: repeat the same call"
    };
    let detail = format!("no response {within}; {outcome}");
    Problem::new(Code::DeadlineExceeded, detail).with_retry(Retry::Now)
}

/// A step of a stream, for the audit log.
pub(crate) struct Step {
    admitted: Admitted,
    protocol: &'static str,
    namespace: NamespaceName,
    has_ended: bool,
}

impl Step {
    /// Records the step, unless it named no items, changed nothing, and nothing was denied.
    pub(crate) fn end(mut self, is_doubtful: bool) {
        self.record(is_doubtful);
    }

    fn record(&mut self, is_doubtful: bool) {
        self.has_ended = true;
        let notes = self.admitted.take_notes();
        if notes.items > 0 || notes.is_denied || notes.has_changed {
            let is_doubtful = is_doubtful && notes.items > 0;
            self.admitted.note_step(self.protocol, &notes, Some(&self.namespace), is_doubtful);
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if !self.has_ended {
            self.record(true);
        }
    }
}
