//! duly-node
