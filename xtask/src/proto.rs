//! `cargo xtask proto`: regenerates the code of the gRPC interface from its `.proto` files.
//!
//! It runs the test that compares the two, in a mode that writes the files instead. So the generated
//! code and the compared code cannot differ. No `protoc` is needed.

use anyhow::Result;

use crate::process::{self, Outcome};

/// Writes `crates/duly-api/src/generated`.
pub(crate) fn run() -> Result<Outcome> {
    let mut cargo = process::cargo(["test", "--quiet", "-p", "duly-api", "--test", "it"]);
    process::run(cargo.env("DULY_REGENERATE", "1"))
}
