//! An invariant check of everything that a store keeps in Redis.
//!
//! It knows the keys and the first bytes of a record, and nothing of the code that writes them.

use std::collections::{BTreeMap, BTreeSet};

use redis::{Commands, Connection};

type Bytes = Vec<u8>;

/// All keys of one shard, without their prefix.
struct Shard {
    hashes: BTreeMap<String, BTreeMap<Bytes, Bytes>>,
    sets: BTreeMap<String, BTreeMap<Bytes, f64>>,
    lists: BTreeMap<String, Vec<Bytes>>,
    strings: BTreeMap<String, Bytes>,
}

/// Returns the violations on a server; empty if there are none.
pub(crate) fn audit(port: u16) -> Vec<String> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).expect("an address");
    let mut connection = client.get_connection().expect("the server is there");
    let mut shards: BTreeMap<String, Shard> = BTreeMap::new();
    let keys: Vec<Bytes> = connection.keys("duly:*").expect("keys");
    // A key that is not text has the nonce of a claim in its name, and expires by itself.
    for key in keys.into_iter().filter_map(|key| String::from_utf8(key).ok()) {
        let (prefix, name) = key.split_once("}:").expect("every key is of a shard");
        let shard = shards.entry(prefix.to_owned()).or_insert_with(|| Shard {
            hashes: BTreeMap::new(),
            sets: BTreeMap::new(),
            lists: BTreeMap::new(),
            strings: BTreeMap::new(),
        });
        shard.read(&mut connection, &key, name);
    }
    shards.values().flat_map(Shard::faults).collect()
}

impl Shard {
    fn read(&mut self, connection: &mut Connection, key: &str, name: &str) {
        let kind: String = redis::cmd("TYPE").arg(key).query(connection).expect("a type");
        match kind.as_str() {
            "list" => {
                let entries = connection.lrange(key, 0, -1).expect("a list");
                self.lists.insert(name.to_owned(), entries);
            }
            "hash" => {
                let fields = connection.hgetall(key).expect("a hash");
                self.hashes.insert(name.to_owned(), fields);
            }
            "zset" => {
                let rows: Vec<(Bytes, f64)> =
                    connection.zrange_withscores(key, 0, -1).expect("a sorted set");
                self.sets.insert(name.to_owned(), rows.into_iter().collect());
            }
            "string" => {
                let value = connection.get(key).expect("a string");
                self.strings.insert(name.to_owned(), value);
            }
            _ => {}
        }
    }

    fn hash(&self, name: &str) -> BTreeMap<Bytes, Bytes> {
        self.hashes.get(name).cloned().unwrap_or_default()
    }

    fn set(&self, name: &str) -> BTreeMap<Bytes, f64> {
        self.sets.get(name).cloned().unwrap_or_default()
    }

    /// Returns the keys of namespaces that do not exist, except for lanes that are still to be swept.
    fn orphans(&self) -> Vec<String> {
        let known: BTreeSet<String> = self.hash("nn").values().map(|num| text(num)).collect();
        let clearing = self.set("exp");
        let is_cleared = |num: &str, rest: &str| {
            let lane = rest.split(':').next().unwrap_or_default();
            rest.contains(":f") && clearing.contains_key(format!("{num}\0\0{lane}").as_bytes())
        };
        let names = self.hashes.keys().chain(self.sets.keys()).chain(self.lists.keys());
        names
            .chain(self.strings.keys())
            .filter(|key| {
                let mut parts = key.splitn(3, ':');
                let (kind, num) = (parts.next().unwrap_or_default(), parts.next());
                let rest = parts.next().unwrap_or_default();
                num.is_some_and(|num| {
                    OF_NAMESPACES.contains(&kind)
                        && !known.contains(num)
                        && !(kind == "d" && is_cleared(num, rest))
                })
            })
            .map(|key| format!("{key} is of no namespace"))
            .collect()
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut heads = BTreeMap::new();
        let mut clocked: BTreeSet<(String, Bytes)> = BTreeSet::new();
        for (name, num) in self.hash("nn") {
            let name = String::from_utf8_lossy(&name).into_owned();
            let num = String::from_utf8_lossy(&num).into_owned();
            let mut space = NamespaceAudit { shard: self, num: &num, faults: Vec::new() };
            space.check(&mut heads, &mut clocked);
            faults.extend(space.faults.into_iter().map(|fault| format!("{name}: {fault}")));
        }
        faults.extend(self.orphans());
        if heads != self.set("lanes") {
            let lanes = self.set("lanes");
            faults.push(format!("heads of lanes: there are {heads:?}, and `lanes` has {lanes:?}"));
        }
        let lists = self.sets.iter().filter(|(name, _)| {
            ["leased", "exp"].contains(&name.as_str()) || name.starts_with("own:")
        });
        let listed: BTreeSet<(String, Bytes)> = lists
            .flat_map(|(name, set)| set.keys().map(|member| (name.clone(), member.clone())))
            .collect();
        if clocked != listed {
            let wrong: Vec<_> = clocked.symmetric_difference(&listed).collect();
            faults.push(format!("lists of the clock and of owners differ in {wrong:?}"));
        }
        faults
    }
}

/// Kinds of keys whose name has the number of a namespace behind the kind.
const OF_NAMESPACES: &[&str] = &[
    "n", "c", "r", "x", "p", "b", "nl", "dead", "dx", "di", "s", "sl", "bx", "sd", "ix", "q", "d",
];

/// One namespace in one shard.
struct NamespaceAudit<'a> {
    shard: &'a Shard,
    num: &'a str,
    faults: Vec<String>,
}

impl NamespaceAudit<'_> {
    fn hash(&self, kind: &str) -> BTreeMap<Bytes, Bytes> {
        self.shard.hash(&format!("{kind}:{}", self.num))
    }

    fn set(&self, kind: &str) -> BTreeMap<Bytes, f64> {
        self.shard.set(&format!("{kind}:{}", self.num))
    }

    fn compare<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, there: &T, kept: &T) {
        if there != kept {
            self.faults.push(format!("{what}: there are {there:?}, and kept is {kept:?}"));
        }
    }

    fn check(&mut self, heads: &mut BTreeMap<Bytes, f64>, clocked: &mut BTreeSet<(String, Bytes)>) {
        let records = self.hash("r");
        let leases = self.hash("x");
        let (dead_letters, live): (BTreeMap<_, _>, BTreeMap<_, _>) =
            records.iter().partition(|(key, _)| key.contains(&0));
        let mut lanes: BTreeMap<String, BTreeSet<Bytes>> = BTreeMap::new();
        let (mut retried, mut leased) = (BTreeSet::new(), BTreeSet::new());
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        for (id, record) in &live {
            let (flags, lane) = (record[1], record[2]);
            let size = u32::from_be_bytes([record[3], record[4], record[5], record[6]]);
            *counts.entry("pending".into()).or_default() += 1;
            *counts.entry("bytes".into()).or_default() += 128 + id.len() as i64 + i64::from(size);
            let member = [self.num.as_bytes(), b"\0", id].concat();
            if flags & 1 != 0 {
                retried.insert((*id).clone());
            } else if leases.contains_key(*id) {
                leased.insert((*id).clone());
            }
            if let Some(lease) = leases.get(*id) {
                *counts.entry("leased".into()).or_default() += 1;
                *counts.entry(format!("i{lane}")).or_default() += 1;
                let who = text(&lease[26..]);
                let list = if who == "C" { "leased".into() } else { format!("own:{who}") };
                clocked.insert((list, member));
            } else {
                let class = if flags & 1 == 0 { "f" } else { "r" };
                lanes.entry(format!("{lane}:{class}")).or_default().insert((*id).clone());
                if flags & 4 != 0 {
                    clocked.insert(("exp".into(), member));
                }
            }
        }
        for id in leases.keys().filter(|id| !live.contains_key(id)) {
            self.faults.push(format!("a lease on {:?}, which is not live", text(id)));
        }
        let kept = self.check_lanes(heads);
        self.compare("lanes", &lanes, &kept);
        self.compare("retried", &retried, &self.set("b").into_keys().collect());
        if self.is_listed("l") {
            self.compare("leased first attempts", &leased, &self.set("bx").into_keys().collect());
        }
        self.check_counts(&counts);
        self.check_payloads(&records);
        self.check_dead_letters(&dead_letters);
        self.check_tombstones(&live);
    }

    /// Returns `true` if a set that is made for lists exists and is up to date.
    fn is_listed(&self, what: &str) -> bool {
        let state = self.shard.strings.get(&format!("ix:{}:{what}", self.num));
        state.is_some_and(|state| state == b"done")
    }

    /// Returns the ids by lane, and the heads of the lanes. First attempts are kept in blocks.
    fn check_lanes(
        &mut self,
        heads: &mut BTreeMap<Bytes, f64>,
    ) -> BTreeMap<String, BTreeSet<Bytes>> {
        let prefix = format!("d:{}:", self.num);
        let mut kept = BTreeMap::<String, BTreeSet<Bytes>>::new();
        let shard = self.shard;
        let of_lanes =
            shard.sets.iter().filter_map(|(name, set)| Some((name.strip_prefix(&prefix)?, set)));
        for (name, set) in of_lanes {
            let mut parts = name.split(':');
            let lane = format!(
                "{}:{}",
                parts.next().unwrap_or_default(),
                parts.next().unwrap_or_default()
            );
            if lane.ends_with(":f") && parts.next().is_none() {
                self.check_blocks(name, set);
                continue;
            }
            kept.entry(lane.clone()).or_default().extend(set.keys().cloned());
            let head = heads
                .entry(format!("{}\0{}", self.num, lane.replace(':', "\0")).into())
                .or_insert(f64::INFINITY);
            *head = set.values().copied().fold(*head, f64::min);
        }
        kept
    }

    /// Returns `true` if every entry lies in the block in which it is looked up.
    fn check_blocks(&mut self, name: &str, directory: &BTreeMap<Bytes, f64>) {
        let mut begins: Vec<(u64, &[u8], &str)> = directory
            .iter()
            .map(|(member, at)| {
                let nul = member.iter().position(|byte| *byte == 0).expect("an id and a number");
                let number = str::from_utf8(&member[nul + 1..]).expect("a number");
                (*at as u64, &member[..nul], number)
            })
            .collect();
        begins.sort_unstable();
        for (i, (_, _, number)) in begins.iter().enumerate() {
            let block = self.shard.set(&format!("d:{}:{name}:{number}", self.num));
            if block.is_empty() || block.len() > 64 {
                self.faults.push(format!("block {number} of {name} has {}", block.len()));
            }
            for (id, at) in &block {
                let own = (*at as u64, id.as_slice());
                let before = i > 0 && own < (begins[i].0, begins[i].1);
                let after = begins.get(i + 1).is_some_and(|next| own >= (next.0, next.1));
                if before || after {
                    self.faults.push(format!("{:?} is in the wrong block of {name}", text(id)));
                }
            }
        }
        let blocks = format!("d:{}:{name}:", self.num);
        let there = self.shard.sets.keys().filter(|key| key.starts_with(&blocks)).count();
        self.compare("blocks", &there, &begins.len());
    }

    fn check_counts(&mut self, counts: &BTreeMap<String, i64>) {
        let kept = self.hash("c");
        for (name, value) in kept {
            let name = text(&name);
            let counted = ["pending", "leased", "bytes"].contains(&name.as_str());
            let is_lane = name.strip_prefix('i').is_some_and(|lane| lane.parse::<u8>().is_ok());
            if counted || is_lane {
                let there = counts.get(&name).copied().unwrap_or(0);
                self.compare(&name, &there.to_string(), &text(&value));
            }
        }
    }

    fn check_payloads(&mut self, records: &BTreeMap<Bytes, Bytes>) {
        let separate = records.iter().filter(|(_, record)| record[1] & 2 != 0);
        let separate: BTreeSet<Bytes> = separate.map(|(key, _)| key.clone()).collect();
        self.compare("payloads stored apart", &separate, &self.hash("p").into_keys().collect());
    }

    fn check_dead_letters(&mut self, dead_letters: &BTreeMap<&Bytes, &Bytes>) {
        let there: BTreeSet<Bytes> = dead_letters.keys().map(|key| (*key).clone()).collect();
        self.compare("dead letters", &there, &self.set("dead").into_keys().collect());
        let mut entries = BTreeSet::new();
        let mut named = BTreeSet::new();
        for value in self.hash("dx").into_values() {
            let (number, key) = value.split_at(16);
            let id = key.split(|byte| *byte == 0).next().unwrap_or_default();
            entries.insert([id, b"\0", number, &key[id.len()..]].concat());
            named.insert(key.to_vec());
        }
        self.compare("dead letters by delivery id", &there, &named);
        self.compare("dead letters by id", &entries, &self.set("di").into_keys().collect());
    }

    fn check_tombstones(&mut self, live: &BTreeMap<&Bytes, &Bytes>) {
        let tombstones = self.hash("s");
        let there: BTreeSet<Bytes> = tombstones.keys().cloned().collect();
        let listed = self.shard.lists.get(&format!("sl:{}", self.num)).cloned().unwrap_or_default();
        for (id, tombstone) in &tombstones {
            let entry = [&tombstone[1..7], id.as_slice()].concat();
            if !listed.contains(&entry) {
                self.faults.push(format!("the tombstone of {:?} has no place in order", text(id)));
            }
        }
        let kinds: &[&str] = if self.is_listed("s") { &["F", "C"] } else { &[] };
        for kind in kinds {
            let of_kind =
                tombstones.iter().filter(|(_, tombstone)| tombstone[0] == kind.as_bytes()[0]);
            let of_kind: BTreeSet<Bytes> = of_kind.map(|(id, _)| id.clone()).collect();
            let kept = self.shard.set(&format!("sd:{}:{kind}", self.num));
            self.compare(&format!("tombstones {kind}"), &of_kind, &kept.into_keys().collect());
        }
        for id in there.iter().filter(|id| live.contains_key(id)) {
            self.faults.push(format!("{:?} is live and has a tombstone", text(id)));
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
