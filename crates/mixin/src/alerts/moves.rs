//! Alerts about links between hosts and disks that roam.

use crate::alert::{Alert, Group, Sample, Scope, Severity};

pub(super) const GROUP: Group = Group {
    name: "hearth-moves",
    alerts: &[
        Alert {
            name: "HearthLinkDown",
            expression: "hearth_link_session == 0",
            hold: "5m",
            severity: Severity::Warning,
            scope: Scope::Peer,
            summary: "{{ $labels.instance }} has no session with {{ $labels.peer }}",
            description: "Disks cannot roam between the two hosts. Look whether the daemon runs there and whether the certificates are still valid.",
            samples: &[Sample {
                metric: "hearth_link_session",
                labels: "",
                firing: "0x30",
                quiet: "1x30",
            }],
            tested_at: "10m",
        },
        Alert {
            name: "HearthLinkUnstable",
            expression: "increase(hearth_link_sessions_total[1h]) > 10",
            hold: "0m",
            severity: Severity::Warning,
            scope: Scope::Peer,
            summary: "The link of {{ $labels.instance }} with {{ $labels.peer }} is lost again and again",
            description: "Hand-overs take longer, and what is copied ahead comes late. Look at the network between the two hosts.",
            samples: &[Sample {
                metric: "hearth_link_sessions_total",
                labels: "",
                firing: "0+1x60",
                quiet: "1x60",
            }],
            tested_at: "50m",
        },
        Alert {
            name: "HearthHandOverFailed",
            expression: "sum without (outcome) (increase(hearth_hand_overs_total{outcome=\"failed\"}[15m])) > 0",
            hold: "0m",
            severity: Severity::Critical,
            scope: Scope::Disk,
            summary: "A hand-over of disk {{ $labels.disk }} on {{ $labels.instance }} has failed",
            description: "A VM waited for the disk in vain. `hearth migrate show` says which host has the disk.",
            samples: &[
                Sample {
                    metric: "hearth_hand_overs_total",
                    labels: "outcome=\"failed\"",
                    firing: "0x10 1x50",
                    quiet: "0x60",
                },
                Sample {
                    metric: "hearth_hand_overs_total",
                    labels: "outcome=\"taken\"",
                    firing: "0x60",
                    quiet: "0x10 1x50",
                },
            ],
            tested_at: "15m",
        },
        Alert {
            name: "HearthRoamingInDoubt",
            expression: "sum without (role) (hearth_roaming_disks{role=~\"in-doubt|split\"}) > 0",
            hold: "5m",
            severity: Severity::Critical,
            scope: Scope::Host,
            summary: "{{ $labels.instance }} does not know who owns some of its disks",
            description: "Their VMs wait. Bring the peer back; if it is lost for good, `hearth migrate take` is yours to decide.",
            samples: &[
                Sample {
                    metric: "hearth_roaming_disks",
                    labels: "role=\"in-doubt\"",
                    firing: "1x30",
                    quiet: "0x30",
                },
                Sample {
                    metric: "hearth_roaming_disks",
                    labels: "role=\"split\"",
                    firing: "0x30",
                    quiet: "0x30",
                },
                Sample {
                    metric: "hearth_roaming_disks",
                    labels: "role=\"owner\"",
                    firing: "3x30",
                    quiet: "3x30",
                },
            ],
            tested_at: "10m",
        },
    ],
};
