//! A macro for enums whose values have names.

/// Defines an enum with its names: `ALL` and `NAMES` list the values and their names in order, and `as_str`
/// returns the name of a value.
///
/// The name stands beside its value, so no second list can differ from the enum.
#[macro_export]
macro_rules! named_enum {
    ($(
        $(#[$doc:meta])*
        pub enum $enum:ident {
            $($(#[$value_doc:meta])* $value:ident = $name:literal,)+
        }
    )+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $enum {
            $($(#[$value_doc])* $value,)+
        }

        impl $enum {
            /// The names of all values, in order.
            pub const NAMES: [&'static str; [$($name),+].len()] = [$($name),+];

            /// Every value, in order.
            pub const ALL: [Self; Self::NAMES.len()] = [$(Self::$value),+];

            /// Returns its name.
            pub const fn as_str(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }
    )+};
}
