//! Links between two hosts: their certificates, and what the configuration of each says.

use std::process::Command;

use crate::wire::HOSTS;
use crate::{Lab, Wire, free_port, run};

/// What the hosts are called on the link.
pub(crate) const NAMES: [&str; 2] = ["node-a", "node-b"];

/// The link of host `at`, which listens at a port and reaches the other host at another one.
pub(crate) fn link_section(lab: &Lab, at: usize, own: u16, other: u16) -> String {
    let peer = (NAMES[1 - at], format!("127.0.0.1:{other}"));
    link_among(lab, (at, NAMES[at], own), &[peer])
}

/// The links of several hosts that meet.
///
/// # Errors
///
/// When their certificates cannot be made.
pub fn links_among(lab: &Lab, names: &[&str]) -> anyhow::Result<Vec<String>> {
    make_certificates(lab, names)?;
    let ports = names.iter().map(|_| free_port());
    let ports = ports.collect::<anyhow::Result<Vec<u16>>>()?;
    let hosts: Vec<_> = names.iter().copied().zip(ports).collect();
    let link = |(at, (name, own)): (usize, &(&str, u16))| {
        let others = hosts.iter().enumerate().filter(|(other, _)| *other != at);
        let peers = others.map(|(_, (name, port))| (*name, format!("{HOSTS}:{port}")));
        let peers: Vec<_> = peers.collect();
        link_among(lab, (at, name, *own), &peers)
    };
    Ok(hosts.iter().enumerate().map(link).collect())
}

/// The link of host `at`, with its name and port, to these peers.
fn link_among(lab: &Lab, (at, name, own): (usize, &str, u16), peers: &[(&str, String)]) -> String {
    let file = |what: &str| lab.path(&format!("host-{at}.{what}")).display().to_string();
    let peers = peers
        .iter()
        .map(|(peer, address)| format!("\n[[peer]]\nname = '{peer}'\naddress = '{address}'\n"));
    format!(
        "\n[link]\nname = '{name}'\naddress = '{HOSTS}:{own}'\ncertificate = '{}'\nkey = '{}'\n\
         authority = '{}'\n{}",
        file("pem"),
        file("key"),
        lab.path("authority.pem").display(),
        peers.collect::<String>(),
    )
}

/// The links of two hosts that take turns, so that each finds its peer away.
///
/// # Errors
///
/// When their certificates cannot be made.
pub fn links_to_nobody(lab: &Lab) -> anyhow::Result<[String; 2]> {
    make_certificates(lab, &NAMES)?;
    let ports = [free_port()?, free_port()?];
    Ok([0, 1].map(|at| link_section(lab, at, ports[at], ports[1 - at])))
}

/// The links of two hosts that meet, and the cable between them.
///
/// # Errors
///
/// When their certificates cannot be made.
pub fn linked(lab: &Lab) -> anyhow::Result<([String; 2], Wire)> {
    make_certificates(lab, &NAMES)?;
    let ports = [free_port()?, free_port()?];
    let (wire, through) = Wire::new(ports)?;
    Ok((
        [0, 1].map(|at| link_section(lab, at, ports[at], through[1 - at])),
        wire,
    ))
}

/// An authority, and a certificate for each host.
pub(crate) fn make_certificates(lab: &Lab, names: &[&str]) -> anyhow::Result<()> {
    let openssl = |line: &str| {
        run(Command::new("openssl")
            .current_dir(lab.folder())
            .args(line.split(' ')))
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!(
        "req -x509 {key} -keyout authority.key -out authority.pem -days 2 -subj /CN=test-authority"
    ))?;
    for (at, name) in names.iter().enumerate() {
        lab.write(
            "host.ext",
            &format!("subjectAltName=DNS:{name}\nextendedKeyUsage=serverAuth,clientAuth\n"),
        )?;
        openssl(&format!(
            "req {key} -keyout host-{at}.key -out host-{at}.csr -subj /CN={name}"
        ))?;
        openssl(&format!(
            "x509 -req -in host-{at}.csr -CA authority.pem -CAkey authority.key -CAcreateserial \
             -out host-{at}.pem -days 2 -extfile host.ext"
        ))?;
    }
    Ok(())
}
