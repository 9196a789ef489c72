//! An etcd of its own on the loopback, with one member or three.

use crate::{Lab, Process, free_port, wait_until};
use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

/// How long etcd has until it answers.
const STARTS_IN: Duration = Duration::from_mins(1);

/// The members of an etcd. All end with this.
pub struct Etcd {
    members: Vec<Member>,
    cluster: String,
}

struct Member {
    name: String,
    client: u16,
    peer: u16,
    /// None while it is killed.
    process: Option<Process>,
}

impl Etcd {
    /// What it needs.
    pub const TOOLS: &'static [&'static str] = &["etcd", "etcdctl"];

    /// Starts one with so many members and waits until each answers.
    ///
    /// # Errors
    ///
    /// When one does not start.
    pub fn start(lab: &Lab, members: usize) -> anyhow::Result<Self> {
        let mut all = Vec::new();
        for at in 0..members {
            all.push(Member {
                name: format!("etcd-{at}"),
                client: free_port()?,
                peer: free_port()?,
                process: None,
            });
        }
        let of_cluster = |member: &Member| format!("{}={}", member.name, url(member.peer));
        let cluster: Vec<_> = all.iter().map(of_cluster).collect();
        let mut etcd = Self {
            members: all,
            cluster: cluster.join(","),
        };
        for at in 0..members {
            etcd.run(lab, at)?;
        }
        etcd.wait_for_all()?;
        Ok(etcd)
    }

    /// Where its members are, as a configuration names them.
    pub fn endpoints(&self) -> Vec<String> {
        let clients = self.members.iter().map(|member| member.client);
        clients.map(url).collect()
    }

    /// The section of a configuration that names it, with more keys.
    pub fn as_section(&self, more: &str) -> String {
        format!("[store]\netcd = {:?}\n{more}\n", self.endpoints())
    }

    /// The owner's record of a disk.
    ///
    /// # Errors
    ///
    /// When etcd does not say.
    pub fn record(&self, disk: &str) -> anyhow::Result<String> {
        let key = format!("/hearth/main/disks/{disk}/owner");
        self.control(&["get", &key, "--print-value-only"])
    }

    fn run(&mut self, lab: &Lab, at: usize) -> anyhow::Result<()> {
        let member = &mut self.members[at];
        let mut command = Command::new("etcd");
        let data = lab.path(&member.name);
        command
            .arg("--name")
            .arg(&member.name)
            .arg("--data-dir")
            .arg(data)
            .args(["--listen-client-urls", &url(member.client)])
            .args(["--advertise-client-urls", &url(member.client)])
            .args(["--listen-peer-urls", &url(member.peer)])
            .args(["--initial-advertise-peer-urls", &url(member.peer)])
            .args(["--initial-cluster", &self.cluster])
            // Loaded machines: a member is not taken for dead before two seconds.
            .args(["--heartbeat-interval", "200", "--election-timeout", "2000"]);
        member.process = Some(Process::start(lab, &member.name, &mut command)?);
        Ok(())
    }

    fn wait_for_all(&self) -> anyhow::Result<()> {
        wait_until("etcd to answer", STARTS_IN, || {
            let connects = |port| TcpStream::connect(("127.0.0.1", port)).is_ok();
            let all = self.members.iter().all(|member| connects(member.client));
            Ok(all && self.control(&["endpoint", "health"]).is_ok())
        })
    }

    /// Runs `etcdctl` and returns what it prints.
    ///
    /// # Errors
    ///
    /// When it fails.
    pub fn control(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints={}", self.endpoints().join(",")))
            .args(arguments)
            .output()
            .context("etcdctl")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "etcdctl {arguments:?}: {error}");
        Ok(text)
    }

    /// Which of the members leads.
    ///
    /// # Errors
    ///
    /// When none does.
    pub fn leader(&self) -> anyhow::Result<usize> {
        let status = self.control(&["endpoint", "status"])?;
        let leads = |line: &str| line.split(", ").nth(4) == Some("true");
        let line = status.lines().find(|line| leads(line));
        let line = line.with_context(|| format!("no leader: {status}"))?;
        let at = self
            .members
            .iter()
            .position(|member| line.starts_with(&url(member.client)));
        at.context("a member of this etcd")
    }

    /// Kills a member as a power cut would.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub fn kill(&mut self, at: usize) -> anyhow::Result<()> {
        let process = self.members[at].process.take();
        process.context("a member that runs")?.kill()
    }

    /// Starts a member again with what it has on its disk.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn again(&mut self, lab: &Lab, at: usize) -> anyhow::Result<()> {
        self.run(lab, at)?;
        self.wait_for_all()
    }

    /// Lets all members stand still: they take connections and answer nothing.
    ///
    /// # Errors
    ///
    /// When one has gone.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.processes().try_for_each(Process::pause)
    }

    /// Lets them go on.
    ///
    /// # Errors
    ///
    /// When one has gone.
    pub fn go_on(&self) -> anyhow::Result<()> {
        let signal = |process: &Process| process.signal(Signal::CONT);
        self.processes().try_for_each(signal)
    }

    fn processes(&self) -> impl Iterator<Item = &Process> {
        self.members.iter().flat_map(|member| &member.process)
    }
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}
