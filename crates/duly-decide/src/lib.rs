//! From the rows of a store to the change that follows, for stores that keep records in a database.
//!
//! ```text
//!  load ──► Case ──► due(): what the clock has ended ──► Draft ─┐
//!             │                                                 ├─► write, if nothing that
//!             └────► an operation or a settlement ─────► Draft ─┘   the case saw has changed
//! ```
//!
//! * [`Case`] is what is known of one id at one time. Its methods are pure: they have no connection and no clock.
//! * [`Draft`] is a change of one id, free of the form in which a store writes it.
//! * [`Rows`] are the rows of a store. [`apply`] and [`settle`] load, decide and write until nothing comes between.
//!
//! The decisions are those of [`duly_core::operate`] and [`duly_core::settle`]: there are no other rules here.

mod case;
mod decide;
mod draft;
mod lease;
mod rows;

#[cfg(test)]
mod tests;

pub use case::{Case, LiveTimer};
pub use decide::{SettleDecision, context_of};
pub use draft::{Draft, LiveChange};
pub use lease::{Holder, Lease};
pub use rows::{
    Cause, Change, Item, LimitKind, OwnWay, Rows, SettleItem, TRIES, Wanted, Written, apply,
    contended, settle,
};
