//! Whether a request that changes something was meant by whoever sends it: the guard against another page that has a browser
//! send requests here (CSRF).
//!
//! There are no cookies. A token is known to the page's own scripts alone; a client's certificate is shown by the browser
//! whoever asks, so these headers, which no script can choose, are looked at for both.

/// What a request says of where it comes from. Each header is there or not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sender<'a> {
    /// `Host`.
    pub host: &'a str,
    /// `Origin`: browsers send one with whatever is no GET.
    pub origin: Option<&'a str>,
    /// `Sec-Fetch-Site`: how the page that asks and this one are related.
    pub site: Option<&'a str>,
    /// `Content-Type`.
    pub content_type: Option<&'a str>,
    /// Whether it came over TLS.
    pub is_tls: bool,
}

/// Why a request is not believed to be meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// It comes from another page.
    Origin,
    /// Its body is not said to be JSON: a form of any page can send others.
    ContentType,
}

impl Sender<'_> {
    /// Whether a request that changes something is meant.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check(&self) -> Result<(), Foreign> {
        let is_own = |site: &str| site == "same-origin" || site == "none";
        let scheme = if self.is_tls { "https" } else { "http" };
        let is_here = |origin: &str| {
            let host = origin
                .strip_prefix(scheme)
                .and_then(|rest| rest.strip_prefix("://"));
            host.is_some_and(|host| host.eq_ignore_ascii_case(self.host))
        };
        if !self.origin.is_none_or(is_here) || !self.site.is_none_or(is_own) {
            return Err(Foreign::Origin);
        }
        let kind = self.content_type.unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            return Err(Foreign::ContentType);
        }
        Ok(())
    }
}

/// The token of a header `Authorization: Bearer TOKEN` (RFC 6750, section 2.1).
pub fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "host-1.lan:9811";

    fn sent() -> Sender<'static> {
        Sender {
            host: HOST,
            origin: Some("https://host-1.lan:9811"),
            site: Some("same-origin"),
            content_type: Some("application/json"),
            is_tls: true,
        }
    }

    #[test]
    fn the_page_itself_and_programs_are_believed() {
        assert_eq!(sent().check(), Ok(()));
        let program = Sender {
            origin: None,
            site: None,
            ..sent()
        };
        assert_eq!(program.check(), Ok(()));
        let plain = Sender {
            origin: Some("http://host-1.lan:9811"),
            is_tls: false,
            ..sent()
        };
        assert_eq!(plain.check(), Ok(()));
        let charset = Some("Application/JSON; charset=utf-8");
        assert_eq!(
            Sender {
                content_type: charset,
                ..sent()
            }
            .check(),
            Ok(())
        );
    }

    #[test]
    fn another_page_is_not() {
        for origin in [
            "null",
            "",
            "https://evil.example",
            "http://host-1.lan:9811",
            "https://host-1.lan",
            "https://host-1.lan:9812",
            "https://host-1.lan:9811.evil.example",
            "https://evil.example/host-1.lan:9811",
        ] {
            let other = Sender {
                origin: Some(origin),
                ..sent()
            };
            assert_eq!(other.check(), Err(Foreign::Origin), "{origin}");
        }
        for site in ["cross-site", "same-site", ""] {
            let other = Sender {
                site: Some(site),
                ..sent()
            };
            assert_eq!(other.check(), Err(Foreign::Origin), "{site}");
        }
    }

    #[test]
    fn what_a_form_can_send_is_refused() {
        for kind in [
            None,
            Some("text/plain"),
            Some("application/x-www-form-urlencoded"),
            Some("multipart/form-data; boundary=application/json"),
            Some("application/jsonx"),
        ] {
            let form = Sender {
                content_type: kind,
                ..sent()
            };
            assert_eq!(form.check(), Err(Foreign::ContentType), "{kind:?}");
        }
    }

    #[test]
    fn a_token_stands_behind_bearer() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        for wrong in ["", "Bearer", "Bearer ", "Basic abc", "abc"] {
            assert_eq!(bearer(wrong), None, "{wrong}");
        }
    }
}
