//! `cargo xtask proto`: regenerates the code of the gRPC interface from its `.proto` files.
//!
//! The test that compares the two writes instead, so that what is generated and what is compared
//! cannot differ. No `protoc` is needed.

use anyhow::Result;

use crate::process::{self, Outcome};

/// Writes `crates/duly-api/src/generated`.
pub(crate) fn run() -> Result<Outcome> {
    let mut cargo = process::cargo(["test", "--quiet", "-p", "duly-api", "--test", "it"]);
    process::run(cargo.env("DULY_REGENERATE", "1"))
}
