//! An operator at the page in a browser: signs in with a token that is kept nowhere, changes a disk's limit and sees it, reads an error in words, types a name before cached data is lost, and signs out. No word of scripts on the console, no request to elsewhere.

use anyhow::ensure;
use e2e::{BROWSER_TOOLS, Browser, OperatedPage, PAGE_TOOLS, SHORT, scenario, wait_until};
use serde_json::Value;

/// Keys of `WebDriver`.
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";
/// Selects what is in a field.
const ALL: &str = "\u{e009}a\u{e000}";

fn gone(browser: &Browser, selector: &str) -> anyhow::Result<()> {
    wait_until(&format!("{selector} to go"), SHORT, || {
        Ok(browser.texts(selector)?.is_empty())
    })
}

fn sign_in(browser: &Browser, token: &str) -> anyhow::Result<()> {
    browser.wait_for("[data-test=to-sign-in]", "Sign in")?;
    ensure!(browser.texts("[data-test=change-flush]")?.is_empty());
    browser.click("[data-test=to-sign-in]")?;
    browser.keys("[data-test=token]", &format!("hearth-00{ENTER}"))?;
    browser.wait_for("[data-test=problem]", "this is no operator's token")?;
    browser.keys("[data-test=token]", &format!("{ALL}{token}{ENTER}"))?;
    browser.wait_for("[data-test=operator]", "alice")?;
    gone(browser, "dialog")?;
    let kept = "return [localStorage.length, sessionStorage.length, document.cookie, location.href].join(' ')";
    let kept = browser.script(kept)?;
    let kept = kept.as_str().unwrap_or_default();
    ensure!(kept.starts_with("0 0  ") && !kept.contains(token), "{kept}");
    Ok(())
}

/// Fills a field in, and opens the dialog of the command that comes of it.
fn set_limit(browser: &Browser, value: &str) -> anyhow::Result<()> {
    browser.keys("[data-test=limits-iops]", &format!("{ALL}{value}"))?;
    let command = format!("hearth disk set web --iops {value}");
    browser.wait_for("[data-test=command]", &command)?;
    browser.click("[data-test=change-limits]")?;
    browser.wait_for("[data-test=to-run]", &command)
}

fn change(browser: &Browser, page: &OperatedPage<'_>) -> anyhow::Result<()> {
    browser.click("[data-test=changes-web] summary")?;
    set_limit(browser, "500")?;
    ensure!(
        page.iops()?.is_null(),
        "nothing is done before it is confirmed"
    );
    // By the keyboard: the button has the focus.
    browser.keys("[data-test=run]", ENTER)?;
    browser.wait_for("[data-test=done]", "Done: the limits hold.")?;
    browser.keys("[data-test=close]", ENTER)?;
    gone(browser, "dialog")?;
    browser.wait_for(".facts", "500 requests/s")?;
    ensure!(page.iops()? == 500);
    // What the daemon refuses is said in words.
    set_limit(browser, "many")?;
    browser.click("[data-test=run]")?;
    browser.wait_for("[data-test=problem]", "many")?;
    browser.keys("[data-test=run]", ESCAPE)?;
    gone(browser, "dialog")?;
    ensure!(page.iops()? == 500);
    Ok(())
}

fn drop_cached(browser: &Browser) -> anyhow::Result<()> {
    browser.click("[data-test=change-drop]")?;
    browser.wait_for("[data-test=to-run]", "hearth disk drop web")?;
    let is_disabled =
        || browser.script("return document.querySelector('[data-test=run]').disabled");
    browser.keys("[data-test=typed]", "we")?;
    ensure!(is_disabled()? == true);
    let wide = browser.script("return document.documentElement.scrollWidth")?;
    ensure!(wide.as_u64() <= Some(360), "the page is {wide} pixels wide");
    browser.keys("[data-test=typed]", &format!("b{ENTER}"))?;
    browser.wait_for("[data-test=done]", "nothing is cached")?;
    browser.keys("[data-test=close]", ESCAPE)?;
    gone(browser, "dialog")
}

fn scrub(browser: &Browser) -> anyhow::Result<()> {
    browser.script("location.hash = '#/host'")?;
    browser.wait_for("[data-test=changes-cache-flash]", "Change")?;
    browser.click("[data-test=changes-cache-flash] summary")?;
    browser.click("[data-test=change-scrub]")?;
    browser.wait_for("[data-test=to-run]", "hearth cache scrub flash")?;
    browser.click("[data-test=run]")?;
    browser.wait_for("[data-test=done]", "read and verified")?;
    browser.keys("[data-test=close]", ESCAPE)?;
    gone(browser, "dialog")
}

#[test]
fn an_operator_changes_a_disk_from_a_browser() {
    scenario(&[&BROWSER_TOOLS[..], &PAGE_TOOLS].concat(), |lab| {
        let page = OperatedPage::start(lab)?;
        let token = page.add("alice")?;
        let origin = format!("https://localhost:{}/", page.port);
        let browser = Browser::start(lab)?;
        browser.open(&format!("{origin}#/vm/web"))?;
        browser.wait_for("h1", "VM web")?;
        sign_in(&browser, &token)?;
        change(&browser, &page)?;
        browser.show_as("dark", 360)?;
        drop_cached(&browser)?;
        scrub(&browser)?;
        browser.script("location.hash = '#/events'")?;
        browser.wait_for("[data-test=event]", "by alice from 127.0.0.1:")?;
        browser.script("location.hash = '#/vm/web'")?;
        browser.click("[data-test=sign-out]")?;
        browser.wait_for("[data-test=to-sign-in]", "Sign in")?;
        gone(&browser, "[data-test=operator]")?;
        browser.wait_for("h1", "VM web")?;
        ensure!(browser.texts("[data-test=change-flush]")?.is_empty());
        let requests: Value = browser
            .script("return performance.getEntriesByType('resource').map(e => e.name).join(' ')")?;
        ensure!(!requests.as_str().unwrap_or_default().contains(&token));
        browser.ensure_quiet_but(&origin, &[401, 400])?;
        page.hearth.stop().map(drop)
    });
}
