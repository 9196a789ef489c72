//! A browser without a window, driven by `WebDriver`: what a page shows, what its console said, where its requests went.
//!
//! The protocol is JSON over HTTP (W3C `WebDriver`); the media that a page is shown on and its network come by the browser's own
//! protocol, which the driver passes on. So one file speaks it, and no crate does.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::{Lab, Process, SHORT, free_port, wait_until};

/// What a test with a browser needs.
pub const BROWSER_TOOLS: [&str; 2] = ["chromium", "chromedriver"];

/// The key under which `WebDriver` names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one window. It ends with this.
pub struct Browser {
    port: u16,
    session: String,
    shots: std::path::PathBuf,
    // Ends last: the session is closed by it.
    _driver: Process,
}

impl Browser {
    /// Starts one.
    ///
    /// # Errors
    ///
    /// When the driver or the browser does not start.
    pub fn start(lab: &Lab) -> anyhow::Result<Self> {
        let port = free_port()?;
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={port}"));
        let driver = Process::start(lab, "chromedriver", &mut command)?;
        wait_until("chromedriver to listen", SHORT, || {
            Ok(TcpStream::connect(("127.0.0.1", port)).is_ok())
        })?;
        let profile = lab.path("browser").display().to_string();
        // The sandbox of a browser needs rights that a container and root lack.
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--window-size=1400,1000",
            &format!("--user-data-dir={profile}"),
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            // Those of the tests are signed by nobody whom it knows.
            "acceptInsecureCerts": true,
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "goog:chromeOptions": { "args": arguments },
        }}});
        let answer = ask(port, "POST", "/session", Some(&wanted))?;
        let session = answer["sessionId"].as_str().context("a session")?;
        Ok(Self {
            port,
            session: session.to_owned(),
            shots: lab.folder().to_owned(),
            _driver: driver,
        })
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let path = format!("/session/{}{path}", self.session);
        ask(self.port, method, &path, body)
    }

    /// Goes to an address.
    ///
    /// # Errors
    ///
    /// When it cannot be loaded.
    pub fn open(&self, url: &str) -> anyhow::Result<()> {
        self.ask("POST", "/url", Some(&json!({ "url": url })))
            .map(drop)
    }

    /// What a script of the page returns.
    ///
    /// # Errors
    ///
    /// When the script throws.
    pub fn script(&self, script: &str) -> anyhow::Result<Value> {
        let body = json!({ "script": script, "args": [] });
        self.ask("POST", "/execute/sync", Some(&body))
    }

    fn command(&self, command: &str, parameters: &Value) -> anyhow::Result<Value> {
        let body = json!({ "cmd": command, "params": parameters });
        self.ask("POST", "/goog/cdp/execute", Some(&body))
    }

    /// Shows pages `width` pixels wide, in the `light` or the `dark` scheme.
    ///
    /// # Errors
    ///
    /// When the browser does not.
    pub fn show_as(&self, scheme: &str, width: u32) -> anyhow::Result<()> {
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.command("Emulation.setEmulatedMedia", &media)?;
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.command("Emulation.setDeviceMetricsOverride", &size)
            .map(drop)
    }

    /// The text of the elements that a selector finds, in their order.
    ///
    /// # Errors
    ///
    /// When the selector makes no sense.
    pub fn texts(&self, selector: &str) -> anyhow::Result<Vec<String>> {
        let selector = serde_json::to_string(selector)?;
        let script = format!(
            "return [...document.querySelectorAll({selector})].map(e => e.innerText ?? e.textContent)"
        );
        Ok(serde_json::from_value(self.script(&script)?)?)
    }

    /// Waits until a selector finds an element with this text.
    ///
    /// # Errors
    ///
    /// When that does not come; the error says what is there instead.
    pub fn wait_for(&self, selector: &str, text: &str) -> anyhow::Result<()> {
        let mut there = Vec::new();
        wait_until(&format!("{selector} to say '{text}'"), SHORT, || {
            there = self.texts(selector)?;
            Ok(there.iter().any(|one| one.contains(text)))
        })
        .with_context(|| format!("{selector} says {there:?}"))
        .map_err(|error| self.with_shot(error))
    }

    /// Clicks on an element.
    ///
    /// # Errors
    ///
    /// When there is none, or something lies over it.
    pub fn click(&self, selector: &str) -> anyhow::Result<()> {
        let element = self.find(selector)?;
        self.ask(
            "POST",
            &format!("/element/{element}/click"),
            Some(&json!({})),
        )
        .map(drop)
    }

    /// Types into an element.
    ///
    /// # Errors
    ///
    /// When there is none that takes keys.
    pub fn keys(&self, selector: &str, keys: &str) -> anyhow::Result<()> {
        let element = self.find(selector)?;
        let body = json!({ "text": keys });
        self.ask("POST", &format!("/element/{element}/value"), Some(&body))
            .map(drop)
    }

    fn find(&self, selector: &str) -> anyhow::Result<String> {
        let body = json!({ "using": "css selector", "value": selector });
        let found = self.ask("POST", "/element", Some(&body))?;
        Ok(found[ELEMENT].as_str().context("an element")?.to_owned())
    }

    /// Keeps a picture of the page beside the logs, and says so with an error.
    fn with_shot(&self, error: anyhow::Error) -> anyhow::Error {
        let path = self.shots.join("failure.png");
        match self.shot(&path) {
            Ok(()) => error.context(format!("a picture of the page is {}", path.display())),
            Err(_) => error,
        }
    }

    /// Writes a picture of what the window shows.
    ///
    /// # Errors
    ///
    /// When it cannot be taken or written.
    pub fn shot(&self, path: &std::path::Path) -> anyhow::Result<()> {
        let picture = self.ask("GET", "/screenshot", None)?;
        let bytes = base64(picture.as_str().context("a picture")?)?;
        std::fs::write(path, bytes).context("a picture")
    }

    /// Nothing stands in the console, and every request since the last look went to `origin`.
    ///
    /// # Errors
    ///
    /// When it is not so: says what was found.
    pub fn ensure_quiet(&self, origin: &str) -> anyhow::Result<()> {
        self.ensure_quiet_but(origin, &[])
    }

    /// The same, where the browser itself notes answers with these statuses.
    ///
    /// # Errors
    ///
    /// When anything else is there, or one of these is not.
    pub fn ensure_quiet_but(&self, origin: &str, statuses: &[u16]) -> anyhow::Result<()> {
        let console = self.ask("POST", "/se/log", Some(&json!({ "type": "browser" })))?;
        let said = console.as_array().context("the console")?;
        let is_of = |line: &Value, status: &u16| {
            let noted = format!("a status of {status} ");
            let message = line["message"].as_str().unwrap_or_default();
            line["source"] == "network" && message.contains(&noted)
        };
        let is_expected = |line: &Value| statuses.iter().any(|status| is_of(line, status));
        ensure!(said.iter().all(is_expected), "the console says {console}");
        for status in statuses {
            let is_there = said.iter().any(|line| is_of(line, status));
            ensure!(is_there, "no {status}: the console says {console}");
        }
        let log = self.ask("POST", "/se/log", Some(&json!({ "type": "performance" })))?;
        let mut requests = 0;
        for entry in log.as_array().context("the network")? {
            let message: Value = serde_json::from_str(entry["message"].as_str().unwrap_or("{}"))?;
            let message = &message["message"];
            if message["method"] != "Network.requestWillBeSent" {
                continue;
            }
            let url = message["params"]["request"]["url"].as_str().unwrap_or("");
            // The browser's own pages are no requests to anybody.
            if !url.starts_with("chrome:") && !url.starts_with("data:") {
                ensure!(url.starts_with(origin), "a request went to {url}");
                requests += 1;
            }
        }
        ensure!(requests > 0, "the page has asked for nothing");
        Ok(())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session; the driver would leave it behind.
        let _ = self.ask("DELETE", "", None);
    }
}

/// Asks the driver.
fn ask(port: u16, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).context("chromedriver")?;
    stream.set_read_timeout(Some(SHORT))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    // The driver leaves the connection open, whatever it is told.
    let mut stream = BufReader::new(stream);
    let mut length = None;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse()?);
        }
    }
    let mut json = vec![0; length.context("the length of an answer")?];
    stream.read_exact(&mut json)?;
    let answer: Value = serde_json::from_slice(&json).context("JSON")?;
    if let Some(error) = answer["value"]["error"].as_str() {
        let message = answer["value"]["message"].as_str().unwrap_or_default();
        bail!("{method} {path}: {error}: {message}");
    }
    Ok(answer["value"].clone())
}

/// The bytes of a base64 text, as `WebDriver` has pictures.
fn base64(text: &str) -> anyhow::Result<Vec<u8>> {
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0_u32);
    for symbol in text.bytes().filter(|symbol| *symbol != b'=') {
        let value = match symbol {
            b'A'..=b'Z' => symbol - b'A',
            b'a'..=b'z' => symbol - b'a' + 26,
            b'0'..=b'9' => symbol - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => bail!("no base64"),
        };
        bits = (bits << 6) | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(((bits >> held) & 0xff) as u8);
        }
    }
    Ok(bytes)
}
