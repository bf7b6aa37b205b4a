//! duly-sink
