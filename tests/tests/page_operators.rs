//! Operators change disks through the page over TLS, by tokens and certificates; everybody else is refused with what to do, and every change and refusal says who and from where. Certificates are read again, silent clients hold nothing.

use std::fs::Permissions;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::ensure;
use e2e::{Authority, OperatedPage, PAGE_TOOLS, scenario};

const JSON: [&str; 2] = ["-H", "Content-Type: application/json"];
/// Connections that the page's address has at a time.
const CONNECTIONS_MAX: usize = 64;

/// Arguments of a request with a token.
fn with(token: &str) -> [String; 4] {
    let [flag, json] = JSON.map(str::to_owned);
    let bearer = format!("Authorization: Bearer {token}");
    [flag, json, "-H".to_owned(), bearer]
}

fn words(of: &[String]) -> Vec<&str> {
    of.iter().map(String::as_str).collect()
}

#[test]
fn a_token_changes_disks_until_it_is_removed() {
    scenario(&PAGE_TOOLS, |lab| {
        let page = OperatedPage::start(lab)?;
        page.ask("/v1/status", &[])?.ensure(200)?;
        // Before there is a file.
        let none = page.limit(1, &words(&with("x")))?;
        ensure!(
            none.ensure(403)?.body["remedy"] == "make the first operator: hearth operator add NAME",
            "{none:?}"
        );
        let token = page.add("alice")?;
        let right = with(&token);
        let shown = page.ask("/v1/operator", &words(&right))?;
        ensure!(shown.body["name"] == "alice", "{shown:?}");
        page.limit(500, &words(&right))?.ensure(200)?;
        ensure!(page.iops()? == 500);

        let missing = page.limit(1, &JSON)?;
        ensure!(
            missing
                .ensure(401)?
                .head
                .contains("www-authenticate: bearer"),
            "{missing:?}"
        );
        let wrong = page.limit(1, &words(&with("hearth-00")))?;
        ensure!(
            wrong.ensure(401)?.head.contains("invalid_token"),
            "{wrong:?}"
        );
        ensure!(wrong.body["type"] == "urn:hearth:problem:unauthorized");
        let more = |extra: &[&'static str]| [&words(&right)[..], extra].concat();
        page.limit(1, &more(&["-H", "Host: evil.example"]))?
            .ensure(409)?;
        page.limit(1, &more(&["-H", "Origin: https://evil.example"]))?
            .ensure(403)?;
        page.limit(1, &more(&["-H", "Sec-Fetch-Site: cross-site"]))?
            .ensure(403)?;
        let bearer = ["-H", &right[3]];
        page.limit(
            1,
            &[&bearer[..], &["-H", "Content-Type: text/plain"]].concat(),
        )?
        .ensure(403)?;
        let own = format!("Origin: https://page.lan:{}", page.port);
        page.limit(501, &[&words(&right)[..], &["-H", &own]].concat())?
            .ensure(200)?;
        // Refused by what it says, not by who says it.
        page.ask("/v1/disks/web", &more(&["-X", "PATCH", "-d", "{}"]))?
            .ensure(400)?;
        ensure!(page.iops()? == 501);

        page.operator(&["remove", "alice"])?;
        page.limit(1, &words(&right))?.ensure(401)?;
        let again = with(&page.add("alice")?);
        let open = Permissions::from_mode(0o666);
        std::fs::set_permissions(lab.path("operators"), open)?;
        let refused = page.limit(1, &words(&again))?;
        let remedy = refused.ensure(403)?.body["remedy"].to_string();
        ensure!(remedy.contains("chmod 0600"), "{refused:?}");
        ensure!(page.iops()? == 501);
        tells_who(&page)
    });
}

/// Events, the log and a metric tell of changes and of refusals.
fn tells_who(page: &OperatedPage<'_>) -> anyhow::Result<()> {
    let events = page.hearth.command(&["events"])?.stdout;
    let line = |kind: &str| {
        events
            .lines()
            .find(|line| line.contains(kind))
            .unwrap_or_default()
    };
    let changed = line(" setting-changed ");
    ensure!(
        changed.contains("disk web: an operator changed")
            && changed.contains("(alice from 127.0.0.1:"),
        "{events}"
    );
    let refused = line(" command-refused ");
    ensure!(
        refused.contains("PATCH /v1/disks/web was refused: nothing is to be changed")
            && refused.contains("(alice from "),
        "{events}"
    );
    // One a minute, however many there were.
    let denied = events
        .lines()
        .filter(|line| line.contains(" change-denied "));
    ensure!(denied.count() <= 2, "{events}");
    ensure!(
        line(" change-denied ").contains("(from 127.0.0.1:"),
        "{events}"
    );
    ensure!(
        line(" operators-unusable ").contains("nobody can change anything"),
        "{events}"
    );
    let log = page.hearth.log()?;
    ensure!(
        log.contains("operator=\"alice\"") && log.contains("asked_from="),
        "{log}"
    );
    let secret = log.contains("hearth-0") || events.contains("hearth-0");
    ensure!(!secret, "a token is told");
    let metrics = page.hearth.metrics()?;
    for (reason, count) in [("no-proof", 1), ("wrong-token", 2), ("foreign", 3)] {
        let line = format!("hearth_page_denied_requests_total{{reason=\"{reason}\"}} {count}\n");
        ensure!(metrics.contains(&line), "{line}{metrics}");
    }
    Ok(())
}

#[test]
fn day_to_day_changes_are_open_and_others_stay_on_the_host() {
    scenario(&PAGE_TOOLS, |lab| {
        let page = OperatedPage::start(lab)?;
        let right = with(&page.add("alice")?);
        let ask = |method: &str, path: &str, more: &[&str]| {
            page.ask(path, &[&["-X", method], more, &words(&right)].concat())
        };
        let typed = ["-H", "Hearth-Typed-Name: none"];
        for (method, path, body, missing) in [
            (
                "PATCH",
                "/v1/disks/none",
                r#"{"write_policy":"around"}"#,
                "disk",
            ),
            ("DELETE", "/v1/disks/none/settings", "", "disk"),
            ("POST", "/v1/disks/none/flush", "", "disk"),
            ("POST", "/v1/disks/none/barrier", "", "disk"),
            ("POST", "/v1/disks/none/resize", "", "disk"),
            ("POST", "/v1/disks/none/drop", "", "disk"),
            ("PATCH", "/v1/vms/none", r#"{"weight":7}"#, "vm"),
            ("DELETE", "/v1/vms/none/settings", "", "vm"),
            (
                "PATCH",
                "/v1/caches/none/policy",
                r#"{"hysteresis":0.2}"#,
                "cache",
            ),
            ("DELETE", "/v1/caches/none/settings", "", "cache"),
        ] {
            let answer = ask(method, path, &[&typed[..], &["-d", body]].concat())?;
            let kind = format!("urn:hearth:problem:no-such-{missing}");
            ensure!(answer.body["type"] == kind, "{method} {path}: {answer:?}");
        }
        for (method, path) in [
            ("POST", "/v1/disks"),
            ("DELETE", "/v1/disks/web?dirty=drop&yes_lose_data=true"),
            ("POST", "/v1/disks/web/attach"),
            ("POST", "/v1/reload"),
            ("POST", "/v1/recording"),
            ("POST", "/v1/roaming/web/take?yes_its_owner_is_dead=true"),
            ("POST", "/v1/cluster/settings"),
            ("PUT", "/"),
            ("OPTIONS", "/v1/disks/web"),
        ] {
            let answer = ask(method, path, &[])?;
            ensure!(
                answer.ensure(403)?.body["type"] == "urn:hearth:problem:forbidden",
                "{answer:?}"
            );
            ensure!(!answer.head.contains("access-control"), "{answer:?}");
        }
        // What loses cached data wants the name.
        ask("POST", "/v1/disks/web/drop", &[])?.ensure(403)?;
        ask(
            "POST",
            "/v1/disks/web/drop",
            &["-H", "Hearth-Typed-Name: we"],
        )?
        .ensure(403)?;
        ask(
            "POST",
            "/v1/disks/web/drop",
            &["-H", "Hearth-Typed-Name: web"],
        )?
        .ensure(200)?;
        page.hearth.stop().map(drop)
    });
}

#[test]
fn a_certificate_is_an_operator_s_if_the_file_names_it() {
    scenario(&PAGE_TOOLS, |lab| {
        let page = OperatedPage::start(lab)?;
        let shows = |who: &str| {
            let (cert, key) = (format!("{who}-cert.pem"), format!("{who}-key.pem"));
            ["--cert".to_owned(), cert, "--key".to_owned(), key]
        };
        let (bob, carol) = (shows("bob"), shows("carol"));
        page.add("cert:bob")?;
        let both = |who: &[String], more: &[&str]| {
            let all = [&words(who)[..], &JSON, more].concat();
            page.limit(700, &all)
        };
        both(&carol, &[])?.ensure(403)?;
        ensure!(page.iops()?.is_null());
        // The browser shows a certificate whoever asks: another page's request is refused all the same.
        both(&bob, &["-H", "Origin: https://evil.example"])?.ensure(403)?;
        let form = page.limit(1, &words(&bob))?;
        form.ensure(403)?;
        ensure!(page.iops()?.is_null());
        both(&bob, &[])?.ensure(200)?;
        ensure!(page.iops()? == 700);
        // A wrong token is not mended by a right certificate.
        both(&bob, &["-H", "Authorization: Bearer x"])?.ensure(401)?;
        let strangers = Authority::new(lab, "strangers-ca")?;
        strangers.client("mallory")?;
        let refused = page.ask("/v1/status", &words(&shows("mallory")));
        ensure!(refused.is_err(), "{refused:?}");
        page.operator(&["remove", "cert:bob"])?;
        both(&bob, &[])?.ensure(403)?;
        page.hearth.stop().map(drop)
    });
}

#[test]
fn a_reload_reads_the_certificate_again() {
    scenario(&PAGE_TOOLS, |lab| {
        let page = OperatedPage::start(lab)?;
        page.ask("/v1/status", &[])?.ensure(200)?;
        // The same files, of a new authority of the same name.
        Authority::new(lab, "page-ca")?.server("page", "DNS:page.lan")?;
        ensure!(page.ask("/v1/status", &[]).is_err(), "the old one holds");
        let said = page.hearth.command(&["reload"])?.stdout;
        ensure!(said.contains("web.tls_certificate  applied"), "{said}");
        page.ask("/v1/status", &[])?.ensure(200)?;
        std::fs::write(lab.path("page-key.pem"), "no key")?;
        let said = page.hearth.refused_command(&["reload"])?.stdout;
        ensure!(said.contains("web.tls_certificate  refused"), "{said}");
        page.ask("/v1/status", &[])?.ensure(200)?;
        page.hearth.stop().map(drop)
    });
}

#[test]
fn clients_that_say_nothing_hold_the_page_for_a_moment() {
    scenario(&PAGE_TOOLS, |lab| {
        let page = OperatedPage::start(lab)?;
        let silent = || TcpStream::connect(("127.0.0.1", page.port));
        let held: Vec<_> = (0..CONNECTIONS_MAX)
            .map(|_| silent())
            .collect::<Result<_, _>>()?;
        // After the time of a handshake, since every place is taken.
        page.ask("/v1/status", &[])?.ensure(200)?;
        drop(held);
        page.hearth.stop().map(drop)
    });
}

#[test]
fn a_page_for_everybody_needs_tls() {
    scenario(&PAGE_TOOLS, |lab| {
        let config = lab.write("hearth.toml", "[web]\naddress = '0.0.0.0:9811'\n")?;
        let config = config.display().to_string();
        let refused = e2e::hearth(&["serve", "--config", &config])?;
        ensure!(
            refused.code == 2 && refused.stderr.contains("tls_certificate"),
            "{}",
            refused.stderr
        );
        Ok(())
    });
}
