//! The page in a browser, each view against a real daemon with disks and I/O: what is wrong and what to do, in words; figures, charts and curves; a search, keys and links; no word on the console, no request to elsewhere, and a script in a path shown as text.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use anyhow::ensure;
use e2e::{
    BROWSER_TOOLS, Browser, DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, SHORT,
    free_port, nbdsh, scenario, wait_until,
};

/// What would run if a text were taken for HTML.
const SCRIPT: &str = "x<img src=q onerror=document.title=1>.raw";

struct Page {
    hearth: Hearth,
    port: u16,
    origin: String,
}

/// A daemon with a VM that reads and writes, a base image, and a disk whose origin is not there.
fn daemon(lab: &Lab) -> anyhow::Result<Page> {
    let port = free_port()?;
    let flash = Flash::format(lab, "flash.img", 256)?;
    let web = Image::new(lab, SCRIPT, 32)?;
    let data = Image::new(lab, "data.raw", 32)?;
    let base = Image::new(lab, "base.raw", 32)?;
    let store = lab.path("store.json");
    let section = format!(
        "\n[web]\naddress = '127.0.0.1:{port}'\nhistory_step = '1s'\n[store]\nfile = '{}'\nhost = 'node-a'\n",
        store.display()
    );
    let settings = HearthSettings::new(&flash)
        .section(&section)
        .vm("web", "images = ['debian']")
        .disk(&DiskSettings::on_file("web", web.path()))
        .disk(
            &DiskSettings::on_file("data", data.path())
                .key("vm = 'web'")
                .keeping_dirty(16),
        )
        .disk(&DiskSettings::on_file("debian", base.path()).key("shared = true"))
        .disk(&DiskSettings::on_file("lost", &lab.path("gone.raw")))
        .in_trouble("lost");
    let hearth = Hearth::start(lab, &settings)?;
    nbdsh(
        Some(&hearth.uri("web")),
        "for n in range(3):\n    for at in range(0, 8 << 20, 1 << 16):\n        h.pread(1 << 16, at)",
    )?;
    nbdsh(Some(&hearth.uri("data")), "h.pwrite(b'x' * (1 << 20), 0)")?;
    nbdsh(Some(&hearth.uri("debian@web")), "h.pread(1 << 20, 0)")?;
    Ok(Page {
        hearth,
        port,
        origin: format!("http://127.0.0.1:{port}/"),
    })
}

/// The head and the body that the page's address answers.
fn answer(port: u16, request: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(stream, "{request}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn overview(browser: &Browser, page: &Page) -> anyhow::Result<()> {
    browser.open(&page.origin)?;
    browser.wait_for("[data-test=health]", "Disk 'lost' is not attached")?;
    browser.wait_for("[data-test=remedy]", "Restore the origin")?;
    browser.wait_for("[data-test=command]", "hearth overview")?;
    let said = page.hearth.command(&["overview"])?.stdout;
    let first = said.lines().next().unwrap_or_default();
    let shown = browser.texts("[data-test=health] strong")?;
    ensure!(
        shown == [first],
        "the page says {shown:?}, and the program {said}"
    );
    // The point before the last is drawn, too.
    wait_until("points of the charts", SHORT, || {
        let script = "return Number(document.querySelector('[data-test=chart]').dataset.points)";
        Ok(browser.script(script)?.as_u64() > Some(1))
    })?;
    let drawn = browser.script("return document.querySelectorAll('.uplot canvas').length")?;
    ensure!(drawn == 6, "{drawn} charts");
    Ok(())
}

fn vms(browser: &Browser) -> anyhow::Result<()> {
    browser.click("[data-test=to-vms]")?;
    browser.wait_for("[data-test=total]", "2 of 2 VMs")?;
    let names = browser.texts("[data-test=vms] tbody th")?;
    ensure!(names == ["lost", "web"], "the worst comes first: {names:?}");
    browser.keys("[data-test=search]", "we\u{e007}")?;
    browser.wait_for("[data-test=total]", "1 of 1 VMs")?;
    ensure!(browser.script("return location.hash")? == "#/vms?sort=worst&search=we");
    browser.click("[data-test=vms] tbody th a")?;
    browser.wait_for("h1", "VM web")?;
    browser.wait_for("[data-test=command]", "hearth vm show web")?;
    browser.wait_for("[data-test=origin]", SCRIPT)?;
    browser.wait_for(".legend", "on flash")?;
    wait_until("the curve", SHORT, || {
        Ok(browser.script("return document.querySelectorAll('[data-test=curve]').length")? == 1)
    })?;
    let marks = browser.texts("[data-test=curve]")?.join(" ");
    ensure!(
        marks.contains("share") && marks.contains("target"),
        "{marks}"
    );
    let title = browser.script("return document.title")?;
    ensure!(
        title == "web · Hearth",
        "a path was run as a script: {title}"
    );
    Ok(())
}

#[test]
fn each_view_shows_what_the_daemon_knows() {
    let tools = [&BROWSER_TOOLS[..], &["nbdsh"]].concat();
    scenario(&tools, |lab| {
        let page = daemon(lab)?;
        let browser = Browser::start(lab)?;
        overview(&browser, &page)?;
        vms(&browser)?;
        browser.open(&format!("{}#/host", page.origin))?;
        browser.wait_for("h2", "Cache flash")?;
        browser.wait_for("[data-test=drives]", "flash")?;
        browser.wait_for("[data-test=nothing]", "hearth-monitor.service")?;
        browser.open(&format!("{}#/images", page.origin))?;
        browser.wait_for("[data-test=readers] tbody", "web")?;
        browser.open(&format!("{}#/write-back", page.origin))?;
        browser.wait_for("[data-test=disks] tbody", "1.0 MiB")?;
        browser.open(&format!("{}#/events", page.origin))?;
        browser.wait_for("[data-test=event]", "disk-waits")?;
        // Happens while somebody looks.
        page.hearth.command(&["disk", "detach", "lost"])?;
        browser.wait_for("[data-test=event]", "disk-detached")?;
        browser.open(&format!("{}#/fleet", page.origin))?;
        browser.wait_for("[data-test=hosts] tbody", "node-a")?;
        browser.wait_for("[data-test=fleet] tbody", "data")?;
        // By keys, and at the width of a telephone.
        browser.show_as("dark", 360)?;
        browser.keys("body", "1")?;
        browser.wait_for(
            "[data-test=health]",
            "All is well: 3 disks of 1 VM on 1 cache.",
        )?;
        let wide = browser.script("return document.documentElement.scrollWidth")?;
        ensure!(wide.as_u64() <= Some(360), "the page is {wide} pixels wide");
        browser.ensure_quiet(&page.origin)
    });
}

#[test]
fn only_this_host_is_answered_and_nothing_is_changed() {
    scenario(&["nbdsh"], |lab| {
        let Page { hearth, port, .. } = daemon(lab)?;
        let here = format!("Host: 127.0.0.1:{port}");
        let index = answer(port, &format!("GET / HTTP/1.1\r\n{here}"))?;
        ensure!(index.starts_with("HTTP/1.1 200"), "{index}");
        ensure!(
            index.contains("content-security-policy: default-src 'self'"),
            "{index}"
        );
        for host in ["evil.example", "192.0.2.1:80"] {
            let refused = answer(port, &format!("GET /v1/status HTTP/1.1\r\nHost: {host}"))?;
            ensure!(refused.starts_with("HTTP/1.1 409"), "{refused}");
            ensure!(!refused.contains("uptime_seconds"), "{refused}");
        }
        for (method, path) in [
            ("POST", "/v1/disks"),
            ("POST", "/v1/disks/web/detach"),
            ("PATCH", "/v1/vms/web"),
            ("DELETE", "/v1/vms/web/settings"),
            ("POST", "/"),
        ] {
            let refused = answer(port, &format!("{method} {path} HTTP/1.1\r\n{here}"))?;
            ensure!(
                refused.starts_with("HTTP/1.1 403") && refused.contains("set operators = "),
                "{method} {path}: {refused}"
            );
        }
        ensure!(hearth.json(&["disk", "show", "web"])?["state"] == "attached");
        hearth.stop().map(drop)
    });
}
