//! The tags of each store's format. A released tag never changes its meaning.

use crate::{Layout, SettingsField, SpecTags};

impl Layout {
    /// The tags of the embedded store.
    pub const EMBEDDED: Self = Layout {
        spec: SpecTags {
            headers: 2,
            tags: 3,
            slot_key: 4,
            destination: 5,
            retry: 6,
            expire_after: 7,
            trace_parent: 8,
        },
        settings: &[
            (SettingsField::Destination, 1),
            (SettingsField::Retry, 2),
            (SettingsField::Lease, 3),
            (SettingsField::Retention, 4),
            (SettingsField::Weight, 5),
            (SettingsField::Secret, 6),
            (SettingsField::Limits, 7),
            (SettingsField::Fallback, 8),
        ],
    };

    /// The tags of the packed form.
    pub const PACKED: Self = Layout {
        spec: SpecTags {
            headers: 3,
            tags: 4,
            slot_key: 5,
            destination: 6,
            retry: 7,
            expire_after: 8,
            trace_parent: 9,
        },
        settings: &[
            (SettingsField::Destination, 1),
            (SettingsField::Fallback, 2),
            (SettingsField::Retry, 3),
            (SettingsField::Lease, 4),
            (SettingsField::Retention, 5),
            (SettingsField::Weight, 6),
            (SettingsField::SchedulePerSecond, 8),
            (SettingsField::DeliverPerSecond, 9),
            (SettingsField::MaxInFlight, 10),
            (SettingsField::MaxPending, 11),
            (SettingsField::MaxPayloadBytes, 12),
            (SettingsField::MaxDelay, 13),
            (SettingsField::MaxDead, 14),
            (SettingsField::MaxRetained, 15),
            (SettingsField::Secret, 7),
        ],
    };
}
