//! The async runtime of a command.

use std::{
    future::Future,
    pin::{Pin, pin},
};

use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;

/// Runs a command on a single-threaded runtime.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    // One type for the futures of all commands: the runtime is compiled once, not for each of them.
    let command: Pin<&mut dyn Future<Output = Result<T, Failure>>> = pin!(command);
    start(Builder::new_current_thread())?.block_on(command)
}

/// Starts a runtime.
pub(crate) fn start(mut builder: Builder) -> Result<Runtime, Failure> {
    let built = builder.enable_all().build();
    built.map_err(|error| Failure::new(format_args!("cannot start the async runtime: {error}")))
}
