use super::*;

fn owners(masters: &[&[u16]]) -> HashMap<String, Vec<ShardId>> {
    let shards = |shards: &&[u16]| shards.iter().copied().map(ShardId).collect();
    masters.iter().map(|owned| (format!("{owned:?}"), shards(owned))).collect()
}

fn list(version: u64, shards: &[u16]) -> Coordinators {
    Coordinators { version, shards: shards.iter().copied().map(ShardId).collect() }
}

#[test]
fn the_first_list_has_a_shard_of_each_of_up_to_five_masters() {
    let first = |masters: &[&[u16]]| first(&owners(masters)).own;
    assert_eq!(first(&[&[0, 1, 2, 3]]), list(1, &[0]));
    assert_eq!(first(&[&[0, 1], &[2, 3]]), list(1, &[0]));
    assert_eq!(first(&[&[3], &[0, 1], &[2]]), list(1, &[0, 2, 3]));
    assert_eq!(first(&[&[0], &[1], &[2], &[3]]), list(1, &[0, 1, 2]));
    assert_eq!(first(&[&[0], &[1], &[2], &[3], &[4], &[5]]), list(1, &[0, 1, 2, 3, 4]));
}

#[test]
fn a_list_changes_only_where_masters_share_its_shards_or_there_are_more() {
    let better = |present: &[u16], masters: &[&[u16]]| {
        let found = better(&list(7, present), &owners(masters))?;
        assert_eq!(found.before, Some(list(7, present)));
        assert_eq!(found.own.version, 8);
        Some(found.own.shards.iter().map(|shard| shard.0).collect::<Vec<_>>())
    };
    assert_eq!(better(&[0, 2, 4], &[&[0, 1], &[2, 3], &[4, 5]]), None);
    assert_eq!(
        better(&[1, 2, 5], &[&[0, 1], &[2, 3], &[4, 5]]),
        None,
        "any shard of a master will do"
    );
    assert_eq!(better(&[0, 1, 4], &[&[0, 1], &[2, 3], &[4, 5]]), Some(vec![0, 2, 4]));
    assert_eq!(better(&[0], &[&[0, 1], &[2, 3], &[4, 5]]), Some(vec![0, 2, 4]));
    assert_eq!(better(&[0], &[&[0, 1], &[2, 3]]), None);
    assert_eq!(better(&[0, 2, 4], &[&[0, 1, 2], &[3, 4, 5]]), Some(vec![0]));
}
