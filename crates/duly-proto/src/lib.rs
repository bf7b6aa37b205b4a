//! The gRPC interface as code: messages, clients and servers made of the files below `proto/`.
//!
//! ```text
//!   proto/duly/v1/*.proto ──► cargo xtask proto ──► src/generated/duly.v1.rs   (this crate)
//!                                                   src/generated/duly.v1.bin  (reflection)
//! ```
//!
//! * It promises that what is generated is that of the `.proto` files: a test generates it anew and
//!   compares. Building needs no `protoc`, and neither does generating.
//! * It refuses to hold logic: which values are allowed is the server's matter.
//!
//! Start reading at `proto/duly/v1/timers.proto`.

/// Version 1 of the interface.
pub mod v1 {
    #![allow(
        missing_docs,
        unreachable_pub,
        clippy::all,
        reason = "generated; the .proto files say what things are"
    )]

    include!("generated/duly.v1.rs");

    /// The encoded descriptors of all files, for reflection.
    pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/duly.v1.bin");
}
