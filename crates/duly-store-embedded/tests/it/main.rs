//! Tests of the embedded store through its public face: the conformance suite, the model, crashes.

mod conformance;
mod harness;
mod model;
