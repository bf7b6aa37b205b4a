//! The features of a deployment: the parts of its data that a build must understand.
//!
//! 1. The record of the deployment and each marker name them. A build refuses a database with a feature that it does
//!    not know, by the name of the feature.
//! 2. This build only adds features (`scripts/features.lua`).
//! 3. Builds before feature sets read the field `format` alone. So the number says 5 for no feature and 6 for keys, as
//!    it did for them. It says 7, which they refuse, for any other set; the field `features` has the set then.

use crate::error::OpenError;

/// Keys of callers. Builds that do not know it would admit every caller.
pub(crate) const KEYS: &str = "keys";

/// The features that this build knows.
const KNOWN: [&str; 1] = [KEYS];

/// Number of the layout of keys without any feature.
pub(crate) const FORMAT: u8 = 5;
/// Number of the layout with keys of callers alone.
const KEYS_FORMAT: u8 = 6;
/// Number of the layout whose features are in the field `features`.
const FEATURES_FORMAT: u8 = 7;
/// Number of the layout without markers, which is adopted.
const UNMARKED_FORMAT: u8 = 4;

/// Returns the names of the features, separated by commas, that the fields `format` and `features` mean.
///
/// # Errors
/// For a format that this build does not know.
pub(crate) fn names<'a>(format: &str, features: &'a str) -> Result<&'a str, OpenError> {
    let known = [UNMARKED_FORMAT, FORMAT, KEYS_FORMAT, FEATURES_FORMAT];
    match known.into_iter().find(|known| known.to_string() == format) {
        Some(FEATURES_FORMAT) => Ok(features),
        Some(KEYS_FORMAT) => Ok(KEYS),
        Some(_) => Ok(""),
        None => Err(OpenError::Format { found: format.to_owned(), known: FEATURES_FORMAT }),
    }
}

/// Refuses a record or a marker that this build cannot read, by its fields `format` and `features`.
///
/// # Errors
/// For a format or a feature that this build does not know.
pub(crate) fn check(format: &str, features: &str) -> Result<(), OpenError> {
    let names = names(format, features)?.split(',');
    let unknown = names.filter(|name| !name.is_empty() && !KNOWN.contains(name));
    let unknown = unknown.collect::<Vec<_>>().join(", ");
    if unknown.is_empty() { Ok(()) } else { Err(OpenError::Features { unknown }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_formats_and_features_are_refused_by_name() {
        for (format, features) in [("4", ""), ("5", ""), ("6", ""), ("7", "keys"), ("7", "")] {
            assert!(check(format, features).is_ok(), "{format} {features}");
        }
        let refused = |format, features| check(format, features).unwrap_err().to_string();
        assert!(refused("8", "keys").contains("format 8"));
        assert!(refused("", "").contains("format"));
        let text = refused("7", "later,keys,other");
        assert!(text.contains("later, other") && !text.contains("keys"), "{text}");
    }
}
