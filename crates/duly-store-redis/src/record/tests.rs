//! Tests of tombstones and leases as the scripts write them (P11).

use duly_core::{Timer, TimerId, Timestamp, Tombstone, tombstone::Ended};
use duly_decide::Holder;
use proptest::prelude::*;

use super::*;

fn id() -> TimerId {
    TimerId::new("an id").unwrap()
}

fn example() -> Timer {
    Timer { id: id(), ..Timer::every_field() }
}

#[test]
fn tombstones_decode_from_bytes_of_record_and_lease() {
    let timer = Timer { history: Vec::new(), attempts: 0, ..example() };
    let packed = Record::of(timer.clone()).pack([0; 8]).record;
    let core = core_of(&packed).unwrap();
    let at = Timestamp::saturating_from_unix_ms(99);
    let given = Tombstone::of(&timer, Ended::Cancelled, at);
    let bytes = cancelled(&given);
    assert_eq!(decode_tombstone(id(), &bytes).unwrap(), given);
    let by_script = [&bytes[..8], core].concat();
    assert_eq!(decode_tombstone(id(), &by_script).unwrap(), given);
    let times = [0, 0, 0, 0, 0, 50, 0, 0, 0, 0, 0, 90, 0, 0, 0, 0, 0, 40];
    let lease = [&8_u64.to_be_bytes()[..], &times, b"C"].concat();
    let finished = [&bytes[..7], &[27], &lease, core].concat();
    let tombstone = decode_tombstone(id(), &[b"F", &finished[1..]].concat()).unwrap();
    assert_eq!((tombstone.ended, tombstone.attempts), (Ended::Finished, 1));
    let details = tombstone.details.unwrap();
    assert_eq!(details.history[0].at.unix_ms(), 50);
    assert_eq!(details.settled.map(|settled| settled.nonce), Some(8));
    assert_eq!(details.request_hash, timer.request_hash);
}

#[test]
fn leases_decode_holder_and_end() {
    let of = |until: u8, who: &str| {
        let times = [0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, until, 0, 0, 0, 0, 0, 4];
        unpack_lease(&[&9_u64.to_be_bytes()[..], &times, who.as_bytes()].concat())
    };
    let node = of(0, "00000000000000ff").unwrap();
    assert_eq!((node.since.unix_ms(), node.claimable_at.unix_ms()), (5, 4));
    assert_eq!((node.nonce, node.until()), (9, None));
    assert_eq!(node.holder, Holder::Node(duly_store::MemberId(255)));
    assert_eq!(member_id_text(duly_store::MemberId(255)), "00000000000000ff");
    let consumer = of(7, "C").unwrap();
    assert!(consumer.is_over(Timestamp::saturating_from_unix_ms(7)));
    assert!(!consumer.is_over(Timestamp::saturating_from_unix_ms(6)));
    assert!(of(7, "").is_err() && unpack_lease(&[0; 25]).is_err());
}

#[test]
fn p11_no_byte_of_a_tombstone_has_changed() {
    let tombstone = Tombstone::of(&example(), Ended::Cancelled, Timestamp::MAX);
    let bytes = cancelled(&tombstone);
    let written: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(written, include_str!("golden_tombstone.txt").trim_end());
    assert_eq!(decode_tombstone(id(), &bytes).unwrap(), tombstone);
}

proptest! {
    #[test]
    fn damaged_bytes_are_refused_and_never_panic(bytes: Vec<u8>) {
        let _any = decode_tombstone(id(), &bytes).is_ok();
        let _any = unpack_lease(&bytes).is_ok();
    }
}
