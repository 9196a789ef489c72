//! Hosts of a cluster say what their VMs want of their flash, and `hearth plan --dry-run` at any of them plans for all.

use anyhow::ensure;
use e2e::{DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, Session, scenario, wait_until};
use serde_json::Value;
use std::time::Duration;

/// How long it takes until a host with the shortest windows has said something of its VM.
const SAID_IN: Duration = Duration::from_mins(1);
const NAMES: [&str; 2] = ["node-a", "node-b"];

fn host(lab: &Lab, name: &str) -> anyhow::Result<Hearth> {
    let own = lab.host(name)?;
    let flash = Flash::format(&own, "flash.img", 128)?;
    let image = Image::new(&own, "disk.raw", 16)?;
    let store = lab.path("store.json");
    let disk = DiskSettings::on_file(&format!("disk-{name}"), image.path());
    let settings = HearthSettings::new(&flash)
        .section(&format!(
            "[store]\nfile = '{}'\nhost = '{name}'",
            store.display()
        ))
        .policy_key("window = '1s'")
        .disk(&disk);
    Hearth::start(&own, &settings)
}

/// What a host has said of its load.
fn load_of(lab: &Lab, name: &str) -> anyhow::Result<Value> {
    let store = std::fs::read_to_string(lab.path("store.json"))?;
    let store: Value = serde_json::from_str(&store)?;
    let said = store["entries"][format!("load/{name}")]["value"].as_str();
    Ok(serde_json::from_str(said.unwrap_or("null"))?)
}

#[test]
fn any_host_plans_for_all() {
    scenario(&[], |lab| {
        let hosts = [host(lab, NAMES[0])?, host(lab, NAMES[1])?];
        let mut client = Session::open(hosts[0].nbd_socket(), "disk-node-a")?;
        let mut of_a = Value::Null;
        wait_until("node-a to say what its VM wants", SAID_IN, || {
            // Read twice, so that there is something to reuse.
            client.read(0, 1 << 20)?;
            client.read(0, 1 << 20)?;
            of_a = load_of(lab, NAMES[0])?;
            let vm = &of_a["vms"][0];
            Ok(vm["rwss_bytes"].as_u64() > Some(0) && vm["hits"].as_f64() > Some(0.5))
        })?;
        wait_until("node-b to say that it has a VM", SAID_IN, || {
            Ok(load_of(lab, NAMES[1])?["vms"][0]["vm"] == "disk-node-b")
        })?;
        ensure!(of_a["vms"][0]["vm"] == "disk-node-a", "{of_a}");
        ensure!(
            of_a["vms"][0]["pinned"] == true,
            "its disk does not roam: {of_a}"
        );
        ensure!(of_a["capacity_bytes"].as_u64() > Some(64 << 20), "{of_a}");
        for hearth in &hosts {
            let text = hearth.command(&["plan", "--dry-run"])?.stdout;
            ensure!(text.contains("2 hosts, 2 VMs"), "{text}");
            let plan = hearth.json(&["plan", "--dry-run"])?;
            ensure!(plan["before"]["load_max"].as_f64() > Some(0.0), "{plan}");
        }
        client.close()?;
        hosts.into_iter().try_for_each(|host| host.stop().map(drop))
    });
}
