//! The codec of a timer's specification and of a namespace's settings, which the stores share.
//!
//! ```text
//!   TimerSpec, Settings ── Layout (tags) ── encode ──► WriteFields   a store's form of numbers and texts
//!                                       ◄── decode ─── ReadFields
//! ```
//!
//! * [`Layout`] has the tag of each field in one store's format, and encodes and decodes by it.
//! * [`WriteFields`] and [`ReadFields`] are a store's form of numbers, texts and fields.
//! * [`values`] has the forms without tags: destinations, retry policies, headers, attempts, settlements.
//! * [`packed`] is a whole record for stores that keep records in a database.
//!
//! A released tag, code or order of values never changes its meaning.
//!
//! A new field does not compile until the encoder of [`Layout`] handles it. A reader that skips it, or a layout
//! without it, fails the golden records: they have every field.

mod form;
mod layout;
pub mod packed;
mod tags;
pub mod values;

pub use form::{ReadError, ReadFields, WriteFields, code_in, from_code};
pub use layout::{Layout, SettingsField, SpecTags};
