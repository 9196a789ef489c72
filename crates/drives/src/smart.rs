//! What `smartctl --json` says of a drive, as `smartctl(8)` and the `NVMe` specification mean it.
//!
//! One unit of `NVMe`'s data units is 1000 sectors of 512 bytes. Units written are what hosts have written: the copies
//! that the drive makes inside are not among them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Bytes of a data unit of `NVMe`'s health log.
const DATA_UNIT_BYTES: u64 = 512_000;
/// Bits of `smartctl`'s exit status that say that the drive was not asked.
const NOT_ASKED: u64 = 0b011;

/// `NVMe`'s critical warnings, by bit.
const CRITICAL: [&str; 6] = [
    "spare below its threshold",
    "temperature beyond its thresholds",
    "reliability degraded",
    "read-only",
    "the backup of its volatile memory has failed",
    "persistent memory is read-only or unreliable",
];

/// What a drive says of its health, or why it is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Smart {
    /// The drive has answered.
    Known(Health),
    /// It was not asked, or has not answered.
    Unknown {
        /// Why.
        reason: String,
        /// What to do about it.
        remedy: Option<String>,
    },
}

/// What a drive says of its health. What it does not say is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Whether it passes its own judgement.
    pub passed: Option<bool>,
    /// Critical warnings, in words.
    pub critical_warnings: Vec<String>,
    /// The part of its endurance that is used, in percent; may be above 100.
    pub used_percent: Option<u64>,
    /// Spare blocks that are left, in percent.
    pub spare_percent: Option<u64>,
    /// Below which they are too few.
    pub spare_threshold_percent: Option<u64>,
    /// Its temperature, in degrees Celsius.
    pub temperature_celsius: Option<i64>,
    /// Errors of the medium that it could not correct.
    pub media_errors: Option<u64>,
    /// Times that it lost power without being told before.
    pub unsafe_shutdowns: Option<u64>,
    /// Bytes that hosts have written to it.
    pub written_bytes: Option<u64>,
    /// Hours that it had power.
    pub power_on_hours: Option<u64>,
}

impl Smart {
    pub(crate) fn unknown(reason: impl Into<String>, remedy: Option<&str>) -> Self {
        Self::Unknown {
            reason: reason.into(),
            remedy: remedy.map(str::to_owned),
        }
    }

    /// Its health, if it is known.
    pub fn health(&self) -> Option<&Health> {
        match self {
            Self::Known(health) => Some(health),
            Self::Unknown { .. } => None,
        }
    }

    /// What an answer of `smartctl --json -a` says, whatever the program ended with.
    pub(crate) fn parse(answer: &[u8]) -> Self {
        let Ok(answer) = serde_json::from_slice::<Value>(answer) else {
            return Self::unknown(
                "smartctl printed no JSON",
                Some("smartmontools 7.0 or later, which knows --json"),
            );
        };
        let status = number(&answer, "/smartctl/exit_status").unwrap_or(NOT_ASKED);
        let health = health(&answer);
        if status & NOT_ASKED == 0 || health != Health::default() {
            return match health {
                none if none == Health::default() => {
                    Self::unknown("the drive says nothing of its health", None)
                }
                health => Self::Known(health),
            };
        }
        let said = messages(&answer);
        let reason = if said.is_empty() {
            "smartctl could not ask the drive".to_owned()
        } else {
            said
        };
        let lower = reason.to_lowercase();
        let remedy = if lower.contains("permission") || lower.contains("not permitted") {
            Some("hearth cache health as root, which asks itself and tells the daemon")
        } else if lower.contains("device type") {
            Some("a virtual disk has no health of its own: look on its host")
        } else {
            None
        };
        Self::unknown(reason, remedy)
    }
}

fn number(answer: &Value, place: &str) -> Option<u64> {
    answer.pointer(place)?.as_u64()
}

fn messages(answer: &Value) -> String {
    let list = answer.pointer("/smartctl/messages");
    let list = list.and_then(Value::as_array).into_iter().flatten();
    let texts = list.filter_map(|message| message["string"].as_str());
    texts.collect::<Vec<_>>().join("; ")
}

fn health(answer: &Value) -> Health {
    const LOG: &str = "/nvme_smart_health_information_log";
    let of_log = |name: &str| number(answer, &format!("{LOG}/{name}"));
    let warnings = of_log("critical_warning").unwrap_or(0);
    let named = CRITICAL.iter().zip(0..);
    let named = named.filter(|(_, bit)| warnings >> bit & 1 == 1);
    let celsius = answer.pointer("/temperature/current");
    let used = of_log("percentage_used")
        .or_else(|| number(answer, "/endurance_used/current_percent"))
        .or_else(|| number(answer, "/scsi_percentage_used_endurance_indicator"));
    Health {
        passed: answer
            .pointer("/smart_status/passed")
            .and_then(Value::as_bool),
        critical_warnings: named.map(|(words, _)| (*words).to_owned()).collect(),
        used_percent: used,
        spare_percent: of_log("available_spare")
            .or_else(|| number(answer, "/spare_available/current_percent")),
        spare_threshold_percent: of_log("available_spare_threshold")
            .or_else(|| number(answer, "/spare_available/threshold_percent")),
        temperature_celsius: celsius.and_then(Value::as_i64),
        media_errors: of_log("media_errors"),
        unsafe_shutdowns: of_log("unsafe_shutdowns"),
        written_bytes: of_log("data_units_written")
            .and_then(|units| units.checked_mul(DATA_UNIT_BYTES)),
        power_on_hours: number(answer, "/power_on_time/hours"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(answer: &str) -> Health {
        match Smart::parse(answer.as_bytes()) {
            Smart::Known(health) => health,
            other @ Smart::Unknown { .. } => panic!("{other:?}"),
        }
    }

    fn unknown(answer: &str) -> (String, String) {
        match Smart::parse(answer.as_bytes()) {
            Smart::Unknown { reason, remedy } => (reason, remedy.unwrap_or_default()),
            other @ Smart::Known(_) => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_of_a_real_smartctl_is_read() {
        let health = known(include_str!("../tests/data/qemu-nvme.json"));
        assert_eq!(health.passed, Some(true));
        assert_eq!(health.critical_warnings, [""; 0]);
        assert_eq!(health.used_percent, Some(0));
        assert_eq!(health.temperature_celsius, Some(50));
        assert_eq!(health.media_errors, Some(0));
    }

    #[test]
    fn warnings_have_words_and_units_are_bytes() {
        let health = known(
            r#"{"smartctl": {"exit_status": 8}, "smart_status": {"passed": false},
            "nvme_smart_health_information_log": {"critical_warning": 13, "available_spare": 4,
            "available_spare_threshold": 10, "percentage_used": 112, "data_units_written": 2000,
            "unsafe_shutdowns": 7, "media_errors": 3}}"#,
        );
        assert_eq!(health.passed, Some(false));
        let words = [CRITICAL[0], CRITICAL[2], CRITICAL[3]];
        assert_eq!(health.critical_warnings, words);
        assert_eq!(health.used_percent, Some(112));
        assert_eq!(health.written_bytes, Some(1_024_000_000));
        assert_eq!(health.unsafe_shutdowns, Some(7));
        assert_eq!(
            (health.spare_percent, health.media_errors),
            (Some(4), Some(3))
        );
    }

    #[test]
    fn a_sata_drive_says_what_it_knows() {
        let health = known(
            r#"{"smartctl": {"exit_status": 0}, "smart_status": {"passed": true},
            "temperature": {"current": 31}, "power_on_time": {"hours": 900},
            "endurance_used": {"current_percent": 6}}"#,
        );
        assert_eq!(health.used_percent, Some(6));
        assert_eq!(health.power_on_hours, Some(900));
        assert_eq!(health.spare_percent, None);
    }

    #[test]
    fn what_is_not_known_says_why_and_what_to_do() {
        let message = |text: &str| {
            let messages = format!(r#"[{{"string": "{text}", "severity": "error"}}]"#);
            format!(r#"{{"smartctl": {{"exit_status": 2, "messages": {messages}}}}}"#)
        };
        let (reason, remedy) = unknown(&message("/dev/nvme0 failed: Permission denied"));
        assert!(reason.contains("Permission") && remedy.contains("as root"));
        let (_, remedy) = unknown(&message("/dev/vda: Unable to detect device type"));
        assert!(remedy.contains("on its host"), "{remedy}");
        assert!(unknown("rubbish").0.contains("no JSON"));
        assert!(unknown("").0.contains("no JSON"));
        assert!(unknown("[1, 2]").0.contains("could not ask"));
        assert!(
            unknown(r#"{"smartctl": {"exit_status": 0}}"#)
                .0
                .contains("says nothing")
        );
        let odd = r#"{"smartctl": {"exit_status": 0}, "temperature": {"current": "warm"},
            "nvme_smart_health_information_log": [3], "smart_status": {"passed": 1}}"#;
        assert!(unknown(odd).0.contains("says nothing"));
    }
}
