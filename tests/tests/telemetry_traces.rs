//! Commands and moves are traces at a collector of OpenTelemetry, below the trace of who asks; whether the collector is well, dead or
//! stands still, no command waits for it, and without one nothing connects.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::{
    Collector, Expected, Flash, Hearth, HearthSettings, Image, Lab, RoamingPair, RoamingSettings,
    TracedSpan, free_port, hearth, hearth_program, scenario, wait_until,
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";
const DISK: &str = RoamingPair::DISK;
const LIMIT: Duration = Duration::from_secs(20);
/// What a batch may take until it is dropped: three attempts of 3 s, with pauses.
const DROPPED_IN: Duration = Duration::from_mins(1);
/// What nine commands may take on a busy machine. If each waited for one attempt they would take 27 s.
const AT_ONCE: Duration = Duration::from_secs(15);

fn traced(socket: &std::path::Path, words: &[&str]) -> anyhow::Result<i32> {
    let output = Command::new(hearth_program()?)
        .env("TRACEPARENT", format!("00-{TRACE}-{SPAN}-01"))
        .arg("--socket")
        .arg(socket)
        .args(words)
        .output()?;
    output.status.code().context("it ended by a signal")
}

fn start(lab: &Lab, telemetry: &str) -> anyhow::Result<(Hearth, Image)> {
    let image = Image::new(lab, "origin.raw", 8)?;
    let flash = Flash::format(lab, "flash.img", 64)?;
    let settings = HearthSettings::new(&flash).section(telemetry);
    Ok((Hearth::start(lab, &settings)?, image))
}

/// Two hosts that have met.
fn traced_pair(
    lab: &Lab,
    settings: RoamingSettings,
    collector: &Collector,
) -> anyhow::Result<RoamingPair> {
    let mut pair = RoamingPair::new(lab, settings)?;
    for at in [0, 1] {
        pair.configure(at, &section(&collector.url()));
    }
    let mut pair = pair.started()?;
    wait_until("a session", LIMIT, || {
        let shown = pair.host(1).json(&["migrate", "show", DISK])?;
        Ok(shown["peer"]["stands"] == true)
    })?;
    Ok(pair)
}

fn section(url: &str) -> String {
    format!("\n[telemetry]\notlp = '{url}'\n")
}

fn below<'s>(
    spans: &'s [TracedSpan],
    above: &TracedSpan,
    name: &str,
) -> anyhow::Result<&'s TracedSpan> {
    let mut below = spans.iter().filter(|span| span.parent == above.span);
    let found = below.find(|span| span.name == name && span.trace == above.trace);
    found.with_context(|| format!("no {name} below {}: {spans:#?}", above.name))
}

fn metric(hearth: &Hearth, result: &str) -> anyhow::Result<u64> {
    let series = format!("hearth_telemetry_spans_total{{result=\"{result}\"}} ");
    let text = hearth.metrics()?;
    let value = text.lines().find_map(|line| line.strip_prefix(&series));
    Ok(value.with_context(|| text.clone())?.parse()?)
}

#[test]
fn commands_are_spans_below_the_trace_of_who_asks() {
    scenario(&[], |lab| {
        let collector = Collector::start()?;
        let headers = lab.write("headers", "Authorization: Bearer one\n")?;
        let telemetry = format!(
            "{}service_name = 'cache'\nheaders_file = '{}'\n",
            section(&collector.url()),
            headers.display()
        );
        let (hearth, image) = start(lab, &telemetry)?;
        let (socket, origin) = (hearth.admin_socket(), image.path().display().to_string());
        let attach = ["disk", "attach", "late", "--origin", &origin];
        ensure!(traced(socket, &attach)? == 0);
        let span = collector.wait_for("an attach", |span| span.name == "disk attach")?;
        ensure!(span.trace == TRACE && span.parent == SPAN, "{span:?}");
        ensure!(span.is_server && span.failure.is_none(), "{span:?}");
        for (key, value) in [
            ("http.request.method", "POST"),
            ("http.route", "/v1/disks"),
            ("http.response.status_code", "201"),
            ("hearth.disk", "late"),
            ("error.type", ""),
        ] {
            ensure!(span.get(key) == value, "{key}: {span:?}");
        }
        ensure!(!span.get("user.id").is_empty(), "{span:?}");
        let spans = collector.spans();
        for name in ["origin open", "cache attach"] {
            let step = below(&spans, &span, name)?;
            let (began, ended) = step.times;
            ensure!(span.times.0 <= began && ended <= span.times.1, "{step:?}");
        }
        // Refused, and without a trace of who asks.
        hearth.refused_command(&attach)?;
        let refused = |span: &TracedSpan| span.name == "disk attach" && span.failure.is_some();
        let span = collector.wait_for("a refusal", refused)?;
        ensure!(span.trace != TRACE && span.parent.is_empty(), "{span:?}");
        ensure!(span.get("http.response.status_code") == "409", "{span:?}");
        ensure!(span.get("error.type") == "already-attached", "{span:?}");
        let why = span.failure.unwrap_or_default();
        ensure!(why.contains("there is a disk 'late'"), "{why}");
        // What only looks is none.
        hearth.command(&["disk", "list"])?;
        std::fs::write(&headers, "Authorization: Bearer two\n")?;
        ensure!(traced(socket, &["disk", "detach", "late"])? == 0);
        let span = collector.wait_for("a detach", |span| span.name == "disk detach")?;
        ensure!(span.trace == TRACE && span.get("hearth.disk") == "late");
        below(&collector.spans(), &span, "cache detach")?;
        ensure!(
            collector
                .spans()
                .iter()
                .all(|span| span.name != "disk list")
        );
        let heads = collector.heads();
        let token = |head: Option<&String>, token: &str| {
            head.is_some_and(|head| head.contains(&format!("authorization: bearer {token}")))
        };
        ensure!(
            token(heads.first(), "one") && token(heads.last(), "two"),
            "{heads:?}"
        );
        wait_until("the counts", LIMIT, || {
            let sent = collector.spans().len() as u64;
            Ok(metric(&hearth, "delivered")? == sent && metric(&hearth, "dropped")? == 0)
        })?;
        ensure!(!hearth.log()?.contains("Bearer"), "a secret in the log");
        hearth.stop()?;
        Ok(())
    });
}

#[test]
fn a_move_is_one_trace_of_both_hosts() {
    scenario(RoamingPair::TOOLS, |lab| {
        let collector = Collector::start()?;
        let settings = RoamingSettings {
            write_policy: "through",
            ..RoamingSettings::default()
        };
        let mut pair = traced_pair(lab, settings, &collector)?;
        let mut expected = Expected::of(&pair.image)?;
        let mut guest = pair.client(0)?;
        expected.write(&mut guest, (0..400).step_by(3), 1)?;
        expected.check("the source", &mut guest)?;
        guest.close()?;
        let [node_a, node_b] = RoamingPair::NAMES;
        let socket = pair.host(0).admin_socket().to_owned();
        ensure!(traced(&socket, &["migrate", "prepare", DISK, "--to", node_b])? == 0);
        let mut guest = pair.client(1)?;
        expected.write(&mut guest, 7..8, 2)?;
        pair.wait_until_owned_by(1)?;
        expected.check("the destination", &mut guest)?;
        guest.close()?;

        let prepare = collector.wait_for("the command", |span| span.name == "migrate prepare")?;
        ensure!(
            prepare.trace == TRACE && prepare.parent == SPAN,
            "{prepare:?}"
        );
        let of =
            |host: &'static str| move |span: &TracedSpan| span.name == "move" && span.host == host;
        let source = collector.wait_for("the source's move", of(node_a))?;
        let target = collector.wait_for("the target's move", of(node_b))?;
        ensure!(
            source.trace == TRACE && source.parent == prepare.span,
            "{source:?}"
        );
        ensure!(
            target.trace == TRACE && target.parent == source.span,
            "{target:?}"
        );
        for (span, role, outcome, peer) in [
            (&source, "source", "given", node_b),
            (&target, "target", "taken", node_a),
        ] {
            ensure!(span.failure.is_none(), "{span:?}");
            for (key, value) in [
                ("hearth.disk", DISK),
                ("hearth.peer", peer),
                ("hearth.move.role", role),
                ("hearth.move.begun", "announced"),
                ("hearth.move.outcome", outcome),
            ] {
                ensure!(span.get(key) == value, "{key}: {span:?}");
            }
        }
        collector.wait_for("what comes behind", |span| span.name == "move post-copy")?;
        let spans = collector.spans();
        let cutover = below(&spans, &source, "move cutover")?;
        for step in ["settle", "close", "decide", "record", "unlock"] {
            below(&spans, cutover, &format!("move {step}"))?;
        }
        let waits = below(&spans, &target, "move cutover")?;
        let take = below(&spans, waits, "move take")?;
        below(&spans, take, "origin open")?;
        below(&spans, &target, "move pre-copy")?;
        below(&spans, &target, "move post-copy")?;
        pair.stop_both()
    });
}

#[test]
fn a_move_that_is_withdrawn_or_that_nobody_announced_says_so() {
    scenario(RoamingPair::TOOLS, |lab| {
        let collector = Collector::start()?;
        let mut pair = traced_pair(lab, RoamingSettings::default(), &collector)?;
        pair.host(1)
            .command(&["migrate", "prepare", DISK, "--here"])?;
        pair.host(0).command(&["migrate", "abort", DISK])?;
        let [node_a, node_b] = RoamingPair::NAMES;
        let ended = |host: &'static str, outcome: &'static str| {
            move |span: &TracedSpan| span.host == host && span.get("hearth.move.outcome") == outcome
        };
        let target = collector.wait_for("the target's word", ended(node_b, "withdrawn"))?;
        let source = collector.wait_for("the source's word", ended(node_a, "withdrawn"))?;
        ensure!(source.parent == target.span && source.trace == target.trace);
        // A guest comes at the other host, and nobody has said so.
        let mut expected = Expected::of(&pair.image)?;
        let mut guest = pair.client(1)?;
        expected.write(&mut guest, 7..8, 2)?;
        pair.wait_until_owned_by(1)?;
        let target = collector.wait_for("the target's move", ended(node_b, "taken"))?;
        let source = collector.wait_for("the source's move", ended(node_a, "given"))?;
        ensure!(target.parent.is_empty() && target.get("hearth.move.begun") == "claimed");
        ensure!(source.parent == target.span && source.trace == target.trace);
        guest.close()?;
        pair.stop_both()
    });
}

#[test]
fn nobody_waits_for_a_collector_that_is_dead_or_stands_still() {
    for stalls in [false, true] {
        scenario(&[], |lab| {
            let stalled = Collector::stalled()?;
            let dead = format!("http://127.0.0.1:{}", free_port()?);
            let url = if stalls { stalled.url() } else { dead };
            let (hearth, image) = start(lab, &section(&url))?;
            let origin = image.path().display().to_string();
            let began = Instant::now();
            for _ in 0..3 {
                hearth.command(&["disk", "attach", "late", "--origin", &origin])?;
                hearth.command(&["disk", "flush", "late"])?;
                hearth.command(&["disk", "detach", "late"])?;
            }
            let took = began.elapsed();
            ensure!(took < AT_ONCE, "nine commands took {took:?}");
            let line = "traces do not reach the collector";
            wait_until("spans to be dropped", DROPPED_IN, || {
                Ok(metric(&hearth, "dropped")? > 0 && hearth.log()?.contains(line))
            })?;
            ensure!(metric(&hearth, "delivered")? == 0);
            hearth.command(&["disk", "attach", "late", "--origin", &origin])?;
            let before = metric(&hearth, "dropped")?;
            wait_until("more to be dropped", DROPPED_IN, || {
                Ok(metric(&hearth, "dropped")? > before)
            })?;
            let log = hearth.log()?;
            ensure!(log.matches(line).count() == 1, "told more than once: {log}");
            // One more that waits when the daemon ends.
            hearth.command(&["disk", "detach", "late"])?;
            let began = Instant::now();
            hearth.stop()?;
            ensure!(began.elapsed() < Duration::from_secs(10), "the end waits");
            Ok(())
        });
    }
}

#[test]
fn without_a_collector_nothing_connects_and_a_wrong_address_is_refused() {
    scenario(&[], |lab| {
        let collector = Collector::start()?;
        let (daemon, image) = start(lab, "")?;
        let origin = image.path().display().to_string();
        let socket = daemon.admin_socket();
        ensure!(traced(socket, &["disk", "attach", "late", "--origin", &origin])? == 0);
        ensure!(!daemon.metrics()?.contains("hearth_telemetry"));
        // What a reload finds holds after a restart.
        let config = lab.path("hearth.toml");
        let mut text = std::fs::read_to_string(&config)?;
        text.push_str(&section(&collector.url()));
        std::fs::write(&config, &text)?;
        let reload = hearth_at(&daemon, &["--json", "reload"])?;
        ensure!(reload.code == 4, "{}", reload.stdout);
        let told: serde_json::Value = serde_json::from_str(&reload.stdout)?;
        let changes = told["changes"].as_array().context("changes")?;
        let change = changes.iter().find(|one| one["key"] == "telemetry.otlp");
        ensure!(
            change.is_some_and(|one| one["outcome"] == "needs-restart"),
            "{told}"
        );
        ensure!(traced(socket, &["disk", "flush", "late"])? == 0);
        ensure!(collector.connections() == 0, "{:?}", collector.spans());
        daemon.stop()?;
        for (wrong, remedy) in [
            ("127.0.0.1:4318", "write http://host:4318"),
            (
                "http://user:secret@127.0.0.1:4318",
                "telemetry.headers_file",
            ),
        ] {
            let text = text.replace(&collector.url(), wrong);
            std::fs::write(&config, text)?;
            let path = config.display().to_string();
            let checked = hearth(&["serve", "--config", &path, "--check-config"])?;
            ensure!(checked.code == 2, "{wrong}: {}", checked.code);
            ensure!(checked.stderr.contains(remedy), "{}", checked.stderr);
            ensure!(
                !checked.stderr.contains("user:secret"),
                "{}",
                checked.stderr
            );
        }
        Ok(())
    });
}

fn hearth_at(daemon: &Hearth, words: &[&str]) -> anyhow::Result<e2e::Answer> {
    let socket = daemon.admin_socket().display().to_string();
    hearth(&[&["--socket", &socket], words].concat())
}
