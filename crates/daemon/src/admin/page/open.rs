//! Which changes are open to the page.
//!
//! Those are open that an operator makes from day to day and that another one takes back: settings, and bringing to an origin
//! what it lacks. Closed are those that end something, that name files or addresses of the host, and those that decide which
//! host has a disk: they are made on the host, by who may read the admin socket. A test holds that each change of the API is here.

/// How a change is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    /// To each operator.
    Plainly,
    /// To an operator who has typed the name of what loses cached data by it.
    Typed,
}

/// Method, path, and how it is open.
pub(super) const OPEN: &[(&str, &str, Open)] = &[
    ("PATCH", "/v1/disks/{name}", Open::Plainly),
    ("DELETE", "/v1/disks/{name}/settings", Open::Plainly),
    ("POST", "/v1/disks/{name}/flush", Open::Plainly),
    ("POST", "/v1/disks/{name}/barrier", Open::Plainly),
    ("POST", "/v1/disks/{name}/resize", Open::Plainly),
    ("POST", "/v1/disks/{name}/drop", Open::Typed),
    ("PATCH", "/v1/vms/{name}", Open::Plainly),
    ("DELETE", "/v1/vms/{name}/settings", Open::Plainly),
    ("PATCH", "/v1/caches/{name}/policy", Open::Plainly),
    ("DELETE", "/v1/caches/{name}/settings", Open::Plainly),
    ("POST", "/v1/caches/{name}/scrub", Open::Plainly),
    ("DELETE", "/v1/caches/{name}/scrub", Open::Plainly),
];

/// How a change is open; none if it is not.
pub(super) fn openness(method: &str, path: &str) -> Option<Open> {
    let mut rows = OPEN.iter();
    let row = rows.find(|(known, at, _)| *known == method && *at == path);
    row.map(|(.., open)| *open)
}

#[cfg(test)]
mod tests {
    use super::super::super::commands;
    use super::*;
    use std::collections::BTreeSet;

    /// Method and path of changes that stay on the host.
    const CLOSED: &[(&str, &str)] = &[
        // They name files and addresses, and end a VM's disk.
        ("POST", "/v1/disks"),
        ("DELETE", "/v1/disks/{name}"),
        // Its question is about the cluster's store, which is answered by who knows why it is away.
        ("POST", "/v1/disks/{name}/attach"),
        // What it does stands in files that the page does not show.
        ("POST", "/v1/reload"),
        // It writes a file.
        ("POST", "/v1/recording"),
        ("DELETE", "/v1/recording"),
        // They decide which host has a disk.
        ("POST", "/v1/roaming/{name}/prepare"),
        ("POST", "/v1/roaming/{name}/abort"),
        ("POST", "/v1/roaming/{name}/set"),
        ("POST", "/v1/roaming/{name}/take"),
        ("POST", "/v1/cluster/moves/{vm}"),
        ("POST", "/v1/cluster/moves/{vm}/approve"),
        ("POST", "/v1/cluster/moves/{vm}/cancel"),
        ("POST", "/v1/cluster/moves/{vm}/clear"),
        ("POST", "/v1/cluster/moves/{vm}/pace"),
        // They hold for other hosts, too.
        ("POST", "/v1/cluster/settings"),
        // A monitor's.
        ("POST", "/v1/resources/readings"),
        // Root's word of what drives say.
        ("POST", "/v1/drives/health"),
    ];

    #[test]
    fn each_change_of_the_api_is_open_or_closed() {
        let open = OPEN.iter().map(|(method, path, _)| (*method, *path));
        let open: BTreeSet<_> = open.collect();
        let closed: BTreeSet<_> = CLOSED.iter().copied().collect();
        assert_eq!(open.intersection(&closed).count(), 0);
        let all: BTreeSet<_> = commands::changes().collect();
        assert_eq!(open.union(&closed).copied().collect::<BTreeSet<_>>(), all);
    }

    #[test]
    fn what_loses_cached_data_wants_a_typed_name() {
        assert_eq!(openness("POST", "/v1/disks/{name}/drop"), Some(Open::Typed));
        assert_eq!(openness("GET", "/v1/disks/{name}/drop"), None);
        assert_eq!(openness("DELETE", "/v1/disks/{name}"), None);
    }
}
