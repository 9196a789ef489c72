//! What must not leave the host: found by its name, by its form, and by what the files of keys say.
//!
//! | a secret by | what |
//! |---|---|
//! | name | the value of a key or variable with *password*, *secret*, *token*, *psk*, *chap* and the like in its name, unless it is a path |
//! | form | private keys in PEM, 64 hexadecimal digits and more, user and password of an address |
//! | content | each line of a file that the configuration names as a key, password or list of keys |

use configuration::Setting;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// What stands for a secret.
pub(super) const HIDDEN: &str = "***";

/// Words in the names of secrets.
const NAMES: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "psk",
    "chap",
    "apikey",
    "api_key",
    "private_key",
    "authorization",
    "key_command",
];
/// Ends of names whose values say where a secret is, and are none.
const PLACES: [&str; 4] = ["_file", "_path", "_dir", "_credential"];
/// A shorter line of a file of keys is no secret, and would be found everywhere.
const SECRET_BYTES_MIN: usize = 6;
/// So many hexadecimal digits in a row are a key.
const KEY_DIGITS_MIN: usize = 64;
/// The most that is read of a file of keys.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// Whether a value of this name is a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_place = PLACES.iter().any(|end| name.ends_with(end));
    !is_place && NAMES.iter().any(|word| name.contains(word))
}

/// Takes secrets out of texts.
#[derive(Debug, Default)]
pub(super) struct Scrubber {
    /// Secrets that are known word by word, the longest first.
    known: Vec<String>,
}

impl Scrubber {
    /// Knows the secrets that a configuration has or names.
    pub(super) fn of(settings: &[Setting]) -> Self {
        let mut known = Vec::new();
        for setting in settings {
            let name = setting.key.rsplit('.').next().unwrap_or(&setting.key);
            let Some(text) = setting.value.as_str() else {
                continue;
            };
            if is_secret(name) {
                known.push(text.to_owned());
            } else if name == "key" || name.ends_with("_file") {
                known.extend(secrets_in(Path::new(text)));
            }
        }
        known.retain(|secret| secret.len() >= SECRET_BYTES_MIN);
        known.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        known.dedup();
        Self { known }
    }

    /// A text without secrets.
    pub(super) fn text(&self, text: &str) -> String {
        let text = self.known.iter().fold(text.to_owned(), |text, secret| {
            text.replace(secret.as_str(), HIDDEN)
        });
        let text = without_private_keys(&text);
        let lines = text
            .split_inclusive('\n')
            .map(|line| without_named(&without_digits(&without_users(line))));
        lines.collect()
    }

    /// An answer of the daemon without secrets.
    pub(super) fn json(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.json(item)),
            Value::Object(table) => {
                for (name, value) in table.iter_mut() {
                    if is_secret(name) && !value.is_null() {
                        *value = Value::String(HIDDEN.to_owned());
                    } else {
                        self.json(value);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// A setting without secrets.
    pub(super) fn setting(&self, setting: &mut Setting) {
        let name = setting.key.rsplit('.').next().unwrap_or(&setting.key);
        if is_secret(name) {
            setting.value = Value::String(HIDDEN.to_owned());
        } else {
            self.json(&mut setting.value);
        }
    }
}

/// The lines of a file of keys, and of `identity:key` the key; a raw key in hexadecimal digits.
fn secrets_in(path: &Path) -> Vec<String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    if read.is_err() {
        return Vec::new();
    }
    let Ok(text) = str::from_utf8(&bytes) else {
        let mut digits = String::new();
        for byte in &bytes {
            let _ = write!(digits, "{byte:02x}");
        }
        return vec![digits];
    };
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("-----"));
    let parts = lines.flat_map(|line| {
        let key = line.split_once(':').map(|(_, key)| key.trim());
        // Of a header such as Authorization: Bearer TOKEN the token.
        let last = key.and_then(|key| key.split_whitespace().last());
        [Some(line), key, last].into_iter().flatten()
    });
    parts.map(str::to_owned).collect()
}

/// A text without what stands in blocks of PEM that are private keys.
fn without_private_keys(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut is_key = false;
    for line in text.split_inclusive('\n') {
        let is_private = line.contains("PRIVATE KEY-----");
        if is_private && line.contains("-----BEGIN ") {
            is_key = true;
            kept.push_str(HIDDEN);
            kept.push('\n');
        }
        if !is_key {
            kept.push_str(line);
        }
        if is_private && line.contains("-----END ") {
            is_key = false;
        }
    }
    kept
}

/// A line whose addresses have no user and password.
fn without_users(line: &str) -> String {
    let mut kept = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let (scheme, behind) = rest.split_at(at + 3);
        kept.push_str(scheme);
        let is_end = |c: char| c.is_whitespace() || "/?#\"'<>,;)]}".contains(c);
        let authority = &behind[..behind.find(is_end).unwrap_or(behind.len())];
        // A password may have a slash in it: then everything up to the last @ of the word goes.
        let word = &behind[..behind.find(char::is_whitespace).unwrap_or(behind.len())];
        let user = authority.rfind('@').or_else(|| {
            let has_password =
                authority.contains(':') && !authority.ends_with(|c: char| c.is_ascii_digit());
            word.rfind('@').filter(|_| has_password)
        });
        rest = match user {
            Some(at) => {
                kept.push_str(HIDDEN);
                &behind[at..]
            }
            None => behind,
        };
    }
    kept + rest
}

/// A line without long runs of hexadecimal digits.
fn without_digits(line: &str) -> String {
    let mut kept = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(begin) = rest.find(|c: char| c.is_ascii_hexdigit()) {
        let (before, run) = rest.split_at(begin);
        let end = run
            .find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(run.len());
        let (digits, behind) = run.split_at(end);
        kept.push_str(before);
        kept.push_str(if digits.len() >= KEY_DIGITS_MIN {
            HIDDEN
        } else {
            digits
        });
        rest = behind;
    }
    kept + rest
}

/// A line without the values of `name=value` and `name: value` where the name is a secret's.
fn without_named(line: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let mut kept = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(begin) = rest.find(is_word) {
        let (before, word) = rest.split_at(begin);
        let end = word.find(|c| !is_word(c)).unwrap_or(word.len());
        let (name, behind) = word.split_at(end);
        kept.push_str(before);
        kept.push_str(name);
        rest = behind;
        if !is_secret(name) {
            continue;
        }
        let value = behind.trim_start_matches(['"', '\'', ' ']);
        let Some(value) = value.strip_prefix(['=', ':']) else {
            continue;
        };
        let value = value.trim_start_matches(' ');
        kept.push_str(&behind[..behind.len() - value.len()]);
        kept.push_str(HIDDEN);
        rest = &value[value_end(value)..];
    }
    kept + rest
}

/// Where a value ends: at its quote or bracket, or before a blank, comma or semicolon.
fn value_end(value: &str) -> usize {
    let close = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => quote,
        Some('[') => ']',
        _ => {
            let is_end = |c: char| c.is_whitespace() || ",;}".contains(c);
            return value.find(is_end).unwrap_or(value.len());
        }
    };
    let mut is_escaped = false;
    for (at, c) in value.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == close => return at + c.len_utf8(),
            _ => {}
        }
    }
    value.trim_end_matches('\n').len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrubbed(text: &str) -> String {
        Scrubber::default().text(text)
    }

    #[test]
    fn a_named_value_goes_and_the_rest_of_the_line_stays() {
        for (line, wanted) in [
            ("password=hunter2 user=x", "password=*** user=x"),
            (
                "\"chap_secret\": \"a \\\"b\", \"y\": 1",
                "\"chap_secret\": ***, \"y\": 1",
            ),
            ("API_TOKEN = abc;z", "API_TOKEN = ***;z"),
            ("key_command = [\"sh\", \"s3cr3t\"]", "key_command = ***"),
            ("password_file=/etc/x", "password_file=/etc/x"),
            ("psk_file: /etc/keys", "psk_file: /etc/keys"),
            ("a token of thanks", "a token of thanks"),
        ] {
            assert_eq!(scrubbed(line), wanted);
        }
    }

    #[test]
    fn an_address_has_no_user() {
        for (line, wanted) in [
            ("nbd://u:p@h:10809/e x", "nbd://***@h:10809/e x"),
            ("'qemu+ssh://root@h/system'", "'qemu+ssh://***@h/system'"),
            ("http://u:a/b@h/", "http://***@h/"),
            ("nbd://h:10809/e@2", "nbd://h:10809/e@2"),
        ] {
            assert_eq!(scrubbed(line), wanted);
        }
    }

    #[test]
    fn keys_are_known_by_their_form() {
        let key = "0f".repeat(32);
        assert_eq!(scrubbed(&format!("k {key}.")), "k ***.");
        assert_eq!(
            scrubbed("id 00112233445566778899aabbccddeeff"),
            "id 00112233445566778899aabbccddeeff"
        );
        let pem = "a\n-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\nb\n";
        assert_eq!(scrubbed(pem), "a\n***\nb\n");
    }

    #[test]
    fn what_files_of_keys_say_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys.psk");
        std::fs::write(&path, "web-1:deadbeef01\n").unwrap();
        let setting = Setting {
            key: "nbd.tls.psk_file".to_owned(),
            value: path.display().to_string().into(),
            place: None,
        };
        let scrubber = Scrubber::of(&[setting]);
        assert_eq!(scrubber.text("saw deadbeef01 of web-1"), "saw *** of web-1");
        std::fs::write(&path, "Authorization: Bearer collector's\n").unwrap();
        let headers = Setting {
            key: "telemetry.headers_file".to_owned(),
            value: path.display().to_string().into(),
            place: None,
        };
        let of_headers = Scrubber::of(&[headers]);
        assert_eq!(of_headers.text("with collector's token"), "with *** token");
        let mut value = serde_json::json!({ "a": ["deadbeef01"], "password": 7, "token": null });
        scrubber.json(&mut value);
        assert_eq!(
            value,
            serde_json::json!({ "a": ["***"], "password": "***", "token": null })
        );
    }
}
