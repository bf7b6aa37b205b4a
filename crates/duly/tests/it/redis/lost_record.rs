//! A coordinator shard that lost the record of a namespace, from the operator's view.

use std::{collections::BTreeSet, time::Instant};

use duly_redis_testkit::server;

use crate::harness::{DEADLINE, Server};

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "it never came that {what}");
    }
}

#[test]
fn a_namespace_whose_record_is_lost_is_counted_and_repaired() {
    let redis = server::Server::start(&[]);
    let node = Server::on_store(&redis.url());
    let schedule = |id: &str| node.run(&["schedule", "shop", id, "--in", "0"]);
    let ids: BTreeSet<String> = (0..30).map(|i| format!("t{i}")).collect();
    for id in &ids {
        schedule(id).ok();
    }
    // Deletes all keys of its shard but the one that identifies the shard.
    let list = |pattern: &str| server::list(redis.port(), &format!("KEYS {pattern}"));
    let prefix = list("duly:*:nums")[0].replace("nums", "");
    let mut lost = list(&format!("{prefix}*"));
    lost.retain(|key| !["marker", "deployment", "members"].iter().any(|kept| key.ends_with(kept)));
    let told = server::tell(redis.port(), &format!("DEL {}", lost.join(" ")));
    assert_eq!(told, format!(":{}", lost.len()));
    until("the coordinator shard is known to have lost it", || {
        let ran = node.run(&["--output", "json", "namespace", "get", "shop"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        ran.stderr.contains(r#""code":"unavailable""#)
            && ran.stderr.contains("`duly namespace repair shop`")
    });
    let ran = schedule("new");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("`duly namespace repair shop`"), "{ran:?}");
    let counted = || {
        let said = node.run(&["metrics", "duly_deployment_namespaces_to_repair"]).ok();
        said.split_whitespace().last().map(str::to_owned)
    };
    until("it is counted", || counted().as_deref() == Some("1"));
    until("the node is ready all the same", || node.run(&["health"]).code == Some(0));
    // Firings of the other shards go on.
    let leased = |max: &str| -> Vec<String> {
        let leased = node.json(&["lease", "shop", "--max", max]);
        let firings = leased["firings"].as_array().expect("a list").iter();
        firings.map(|firing| firing["id"].as_str().expect("an id").to_owned()).collect()
    };
    let mut fired: BTreeSet<String> = leased("5").into_iter().collect();
    assert!(!fired.is_empty());
    assert_eq!(node.run(&["namespace", "repair", "shop"]).ok(), "shop  record restored\n");
    assert_eq!(node.run(&["namespace", "repair", "shop"]).ok(), "shop  its record is intact\n");
    loop {
        let more = leased("100");
        if more.is_empty() {
            break;
        }
        fired.extend(more);
    }
    assert!(fired.is_subset(&ids) && (20..=30).contains(&fired.len()), "{fired:?}");
    schedule("after").ok();
    until("it is counted no more", || counted().as_deref() == Some("0"));
    node.run(&["namespace", "repair", "other"]).refused(1);
}
