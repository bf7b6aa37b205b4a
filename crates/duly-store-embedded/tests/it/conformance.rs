//! The conformance suite, on both shells.

use crate::harness::{EmbeddedHarness, Shell};

mod inline {
    use super::*;
    duly_store::conformance_tests!(|| EmbeddedHarness::new(Shell::Inline));
}

mod threads {
    use super::*;
    duly_store::conformance_tests!(|| EmbeddedHarness::new(Shell::Threads));
}
