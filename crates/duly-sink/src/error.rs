//! Why a sink could not be built. What befalls one delivery is a [`crate::Delivery`] instead.

/// Why a sink could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The HTTP client refused its options.
    #[error("the webhook client cannot be built: {0}")]
    Client(String),
}
