//! duly-store-embedded
pub mod disk;
