//! The owners of shards: each shard is owned by the member with the highest hash of (member id, shard).
//! This is rendezvous hashing (Thaler and Ravishankar, 1998). When a member leaves, only its own shards
//! move.

use duly_core::shard::ShardId;
use duly_store::MemberId;

/// Returns the owner of a shard, of these members.
pub(super) fn owner(
    member_ids: impl Iterator<Item = MemberId>,
    shard: ShardId,
) -> Option<MemberId> {
    member_ids.max_by_key(|member_id| (weight(*member_id, shard), *member_id))
}

/// Returns the weight of a member for a shard: the finalizer of MurmurHash3 over both. Every node must
/// compute the same weights.
fn weight(member_id: MemberId, shard: ShardId) -> u64 {
    let mut x = member_id.0 ^ (u64::from(shard.0) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}
