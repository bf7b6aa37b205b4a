//! Generates the code again, and compares it with the committed code.
//!
//! With `DULY_REGENERATE` set the test writes the code instead: `cargo xtask proto` does that.

use std::{fs, path::Path};

use prost_types::FileDescriptorSet;
use protox::prost::Message as _;

/// Every file of the interface.
const FILES: [&str; 8] = [
    "duly/v1/timer.proto",
    "duly/v1/timers.proto",
    "duly/v1/pull.proto",
    "duly/v1/consume.proto",
    "duly/v1/filter.proto",
    "duly/v1/dead_letters.proto",
    "duly/v1/namespaces.proto",
    "duly/v1/cluster.proto",
];

/// Messages and enums that are structures of this crate.
pub(crate) const MODEL: [&str; 70] = [
    "Ack",
    "Attempt",
    "AttemptOutcome",
    "BatchResponse",
    "Bucket",
    "Cancel",
    "CancelFilter",
    "CancelManyRequest",
    "CancelManyResponse",
    "CancelResponse",
    "ClusterInfo",
    "DeadLetterError",
    "DeadLetterNames",
    "DeadLetterOverdueRequest",
    "DeadLetterOverdueResponse",
    "DeadReason",
    "DeadVerdict",
    "Destination",
    "ExtendVerdict",
    "Fallback",
    "FallbackState",
    "Fire",
    "Firing",
    "ForgetResponse",
    "Header",
    "HeaderList",
    "HttpDestination",
    "IfExists",
    "Lane",
    "LaneLimits",
    "LeaseRequest",
    "LeaseResponse",
    "Limits",
    "ListNamespacesResponse",
    "ListResponse",
    "Namespace",
    "NamespaceField",
    "NamespaceForecast",
    "NamespaceLimits",
    "NamespaceSettings",
    "NamespaceStats",
    "Node",
    "Operation",
    "OperationResult",
    "Problem",
    "PullDestination",
    "PurgeRequest",
    "PurgeResponse",
    "PushLane",
    "RedriveRequest",
    "RedriveResponse",
    "RepairNamespaceResponse",
    "Reschedule",
    "ResumeRequest",
    "Retry",
    "RetryVerdict",
    "Schedule",
    "SettleOutcome",
    "SettleResponse",
    "SettleResult",
    "Settlement",
    "SigningSecrets",
    "SnoozeVerdict",
    "State",
    "TagList",
    "Timer",
    "TimerField",
    "Totals",
    "Unchanged",
    "View",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn descriptors() -> FileDescriptorSet {
    let mut compiler = protox::Compiler::new([root().join("proto")]).unwrap();
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(FILES).unwrap();
    compiler.file_descriptor_set()
}

/// The code and the descriptors.
fn generate() -> [(&'static str, Vec<u8>); 2] {
    let mut descriptors = descriptors();
    let out = tempfile::tempdir().unwrap();
    let mut builder = tonic_prost_build::configure();
    for name in MODEL {
        builder = builder.extern_path(format!(".duly.v1.{name}"), format!("crate::{name}"));
    }
    builder
        .extern_path(".google.protobuf.Timestamp", "crate::Time")
        .extern_path(".google.protobuf.Duration", "crate::Duration")
        .build_transport(false)
        .bytes(".")
        .out_dir(out.path())
        .compile_fds(descriptors.clone())
        .unwrap();
    let code = fs::read(out.path().join("duly.v1.rs")).unwrap();
    // Comments would triple its size, and clients of a running server do not need them.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    [("duly.v1.rs", code), ("duly.v1.bin", descriptors.encode_to_vec())]
}

#[test]
fn every_file_is_generated_from() {
    let folder = fs::read_dir(root().join("proto/duly/v1")).unwrap();
    let mut there: Vec<_> = folder
        .map(|file| format!("duly/v1/{}", file.unwrap().file_name().into_string().unwrap()))
        .collect();
    let mut named = FILES.map(str::to_owned).to_vec();
    there.sort();
    named.sort();
    assert_eq!(there, named);
}

#[test]
fn the_generated_code_is_fresh() {
    for (name, made) in generate() {
        let path = root().join("src/generated").join(name);
        if std::env::var_os("DULY_REGENERATE").is_some() {
            fs::write(&path, made).unwrap();
            continue;
        }
        let committed = fs::read(&path).unwrap_or_default();
        assert!(made == committed, "{name} is not what proto/ says: run `cargo xtask proto`");
    }
}
