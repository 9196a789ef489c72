//! Policies as text: `name` or `name:parameter=value,parameter=value`.

/// Why a text names no policy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No policy has this name.
    #[error("'{name}' is not a policy{}: write one of {}", did_you_mean(*nearest), known.join(", "))]
    UnknownPolicy {
        /// What was written.
        name: String,
        /// The name that looks most like it, if one does.
        nearest: Option<&'static str>,
        /// All names.
        known: Vec<&'static str>,
    },
    /// The policy has no such parameter.
    #[error("'{policy}' has no parameter '{name}'{}: {}", did_you_mean(*nearest), parameters(known))]
    UnknownParameter {
        /// The policy.
        policy: &'static str,
        /// What was written.
        name: String,
        /// The name that looks most like it, if one does.
        nearest: Option<&'static str>,
        /// All parameters of the policy.
        known: Vec<&'static str>,
    },
    /// The parameter takes other values.
    #[error("'{policy}' cannot have {parameter}={value}: {parameter} takes {takes}")]
    BadValue {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// What was written.
        value: String,
        /// What it takes.
        takes: &'static str,
    },
    /// A parameter without a value.
    #[error("'{part}' sets nothing: write parameters as {policy}:name=value,name=value")]
    NoValue {
        /// The policy.
        policy: &'static str,
        /// What was written.
        part: String,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean '{name}'?)"))
}

fn parameters(known: &[&str]) -> String {
    if known.is_empty() {
        "it has none".to_owned()
    } else {
        format!("it has {}", known.join(", "))
    }
}

/// The parts of a list of policies such as `lru,2q:kin=0.25,kout=0.5,arc`: a part that sets a
/// parameter belongs to the policy before it.
pub fn split_list(list: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in list.split(',') {
        let sets = part
            .split_once('=')
            .is_some_and(|(name, _)| !name.contains(':'));
        match parts.last_mut() {
            Some(policy) if sets => {
                policy.push(',');
                policy.push_str(part);
            }
            _ => parts.push(part.to_owned()),
        }
    }
    parts
}

/// The name among `known` that looks most like `name`: at most a third of its letters differ.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|candidate| (edits(name, candidate), *candidate))
        .filter(|(edits, candidate)| edits * 3 <= candidate.len().max(name.len()).max(3))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Letters to insert, delete or replace to make one word of the other (Levenshtein), case aside.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (done, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = done + 1;
        for (at, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(!letter.eq_ignore_ascii_case(other));
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registered;
    use crate::replacement::Spec;

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest_and_the_list() {
        let message = "lruu".parse::<Spec>().unwrap_err().to_string();
        assert!(message.starts_with("'lruu' is not a policy (did you mean 'lru'?): write one of "));
        for about in Spec::ALL {
            assert!(message.contains(about.name), "{message}");
        }
        let message = "magic".parse::<Spec>().unwrap_err().to_string();
        assert!(!message.contains("did you mean"), "{message}");
    }

    #[test]
    fn every_policy_is_found_and_written_by_its_name() {
        for about in Spec::ALL {
            let spec: Spec = about.name.parse().unwrap();
            assert_eq!(spec.about().name, about.name);
            assert_eq!(spec.to_string(), about.name);
            for parameter in about.parameters {
                let same = format!(
                    "{}:{}={}",
                    about.name,
                    parameter.name,
                    spec.get(parameter.name)
                );
                assert_eq!(same.parse(), Ok(spec.clone()), "{same}");
            }
        }
    }

    #[test]
    fn a_list_keeps_parameters_with_their_policy() {
        assert_eq!(
            split_list("lru,2q:kin=0.25,kout=0.5,arc"),
            ["lru", "2q:kin=0.25,kout=0.5", "arc"]
        );
        assert_eq!(split_list("lru"), ["lru"]);
        assert_eq!(
            split_list("2q:kin=1,s3-fifo:small=0.2"),
            ["2q:kin=1", "s3-fifo:small=0.2"]
        );
    }
}
