//! For tests of error types: the section of `docs/operate/errors.md` for each variant.

/// Names the heading for each variant of an error, as a constant list of headings; a variant without
/// one does not compile. Every crate with errors that stand in that page has a test that looks for
/// them there.
///
/// It must be called in the crate of the error: elsewhere a `#[non_exhaustive]` one has variants that
/// nobody can name.
#[macro_export]
macro_rules! error_sections {
    ($name:ident: $error:ident; $($variant:ident => $heading:literal,)*) => {
        const $name: &[&str] = &[$($heading),*];
        const _: fn(&$error) = |error| match error {
            $($error::$variant { .. } => (),)*
        };
    };
}
