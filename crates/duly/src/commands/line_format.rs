//! The two formats of lines: operations of `duly batch`, and lines of `duly export` for `duly import`.
//!
//! A command that gets lines of the other format names the command that takes them.

use serde::{Deserialize, de::IgnoredAny};

/// The format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineFormat {
    /// An operation of `duly batch`.
    Operation,
    /// A line of `duly export`.
    Export,
}

/// The fields by which the formats differ.
#[derive(Deserialize)]
struct Peek {
    schedule: Option<IgnoredAny>,
    cancel: Option<IgnoredAny>,
    reschedule: Option<IgnoredAny>,
    fire: Option<IgnoredAny>,
    namespace: Option<IgnoredAny>,
    timer: Option<IgnoredAny>,
    end: Option<IgnoredAny>,
    trailer: Option<IgnoredAny>,
}

impl LineFormat {
    /// Returns the format of a line; none if it is of neither format.
    pub(crate) fn of(line: &[u8]) -> Option<Self> {
        let peek: Peek = serde_json::from_slice(line).ok()?;
        let operation = [peek.schedule, peek.cancel, peek.reschedule, peek.fire];
        let export = [peek.namespace, peek.timer, peek.end, peek.trailer];
        let is_one_of = |fields: &[Option<IgnoredAny>]| fields.iter().any(Option::is_some);
        match (is_one_of(&operation), is_one_of(&export)) {
            (true, false) => Some(Self::Operation),
            (false, true) => Some(Self::Export),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_of_one_format_or_of_neither() {
        for (line, expected) in [
            (r#"{"schedule":{}}"#, Some(LineFormat::Operation)),
            (r#"{"cancel":{"id":"a"}}"#, Some(LineFormat::Operation)),
            (r#"{"reschedule":1}"#, Some(LineFormat::Operation)),
            (r#"{"fire":{}}"#, Some(LineFormat::Operation)),
            (r#"{"namespace":{"name":"n"}}"#, Some(LineFormat::Export)),
            (r#"{"timer":{}}"#, Some(LineFormat::Export)),
            (r#"{"end":{}}"#, Some(LineFormat::Export)),
            (r#"{"trailer":{}}"#, Some(LineFormat::Export)),
            (r#"{"timer":{},"fire":{}}"#, None),
            ("{}", None),
            ("[]", None),
            ("not JSON", None),
        ] {
            assert_eq!(LineFormat::of(line.as_bytes()), expected, "{line}");
        }
    }
}
