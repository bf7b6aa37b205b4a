//! Tests of the embedded store through its public face: the conformance suite, the model, crashes.

mod conformance;
mod crash_points;
mod golden;
mod harness;
mod model;
mod seeds;
mod simulation;
mod snapshot;
mod steps;
mod twins;
mod workload;
