//! A macro for tests of error types: maps each variant to its section of `docs/operate/errors.md`.

/// Defines a constant list of headings with one heading for each variant of an error.
///
/// A variant without a heading does not compile. Every crate whose errors are described on that page has a
/// test that looks for these headings there.
///
/// Call the macro in the crate that defines the error: other crates cannot match every variant of a
/// `#[non_exhaustive]` enum.
#[macro_export]
macro_rules! error_sections {
    ($name:ident: $error:ident; $($variant:ident => $heading:literal,)*) => {
        const $name: &[&str] = &[$($heading),*];
        const _: fn(&$error) = |error| match error {
            $($error::$variant { .. } => (),)*
        };
    };
}
