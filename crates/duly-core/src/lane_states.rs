//! The states of lanes and breakers that operators see, with their names in metrics and replies.

crate::named_enum! {
    /// The activity of a lane.
    pub enum LaneActivity {
        /// It gets all that it wants.
        Flowing = "flowing",
        /// It is at its own cap.
        Capped = "capped",
        /// It waits for a worker.
        Starved = "starved",
        /// It is at its rate.
        Throttled = "throttled",
        /// Its receiver fails and its breaker is open.
        BreakerOpen = "shut",
    }

    /// The state of a breaker.
    pub enum BreakerState {
        /// Attempts are made.
        Closed = "closed",
        /// No attempts are made.
        Open = "open",
        /// Single attempts probe the receiver.
        HalfOpen = "half_open",
    }
}
