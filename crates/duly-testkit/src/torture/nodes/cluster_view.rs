//! Members of the Redis Cluster as one server reports them (`CLUSTER NODES`). Pure.

/// A member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClusterMember {
    /// Address and port.
    pub(super) address: String,
    pub(super) is_master: bool,
    /// `true`: the member is reported as failed, or as suspected.
    is_failing: bool,
    /// Id of its master.
    pub(super) master: Option<String>,
    has_slots: bool,
}

impl ClusterMember {
    /// Returns `true` if it is a master with slots that is not reported as failed.
    pub(super) fn is_serving(&self) -> bool {
        self.is_master && self.has_slots && !self.is_failing
    }
}

/// Parses all members; other lines are skipped.
pub(super) fn parse(text: &str) -> Vec<ClusterMember> {
    text.lines().filter_map(member).collect()
}

/// Parses `<id> <ip:port@bus[,host]> <flags> <master or -> <ping> <pong> <epoch> <link> <slots …>`.
fn member(line: &str) -> Option<ClusterMember> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, address, flags, master, _, _, _, _, slots @ ..] = words.as_slice() else {
        return None;
    };
    let has = |flag: &str| flags.split(',').any(|word| word == flag);
    Some(ClusterMember {
        address: address.split('@').next()?.to_owned(),
        is_master: has("master"),
        is_failing: has("fail") || has("fail?"),
        master: (*master != "-").then(|| (*master).to_owned()),
        has_slots: !slots.is_empty(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_with_what_they_serve() {
        let text = "\
a1 10.77.0.21:7001@17001 myself,master - 0 1 1 connected 0-5460\n\
b2 10.77.0.24:7004@17004,name slave a1 0 1 1 connected\n\
c3 10.77.0.22:7002@17002 master,fail - 0 1 2 disconnected 5461-10922\n\
\n\
d4 10.77.0.23:7003@17003 master - 0 1 3 connected\n";
        let members = parse(text);
        assert_eq!(members.len(), 4);
        assert_eq!(members[0].address, "10.77.0.21:7001");
        let serves: Vec<bool> = members.iter().map(ClusterMember::is_serving).collect();
        assert_eq!(serves, [true, false, false, false]);
        assert_eq!(members[1].master.as_deref(), Some("a1"));
        assert!(!members[1].is_master && members[2].is_master);
    }
}
