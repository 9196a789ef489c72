//! Links between two hosts: their certificates, and what the configuration of each says.

use std::process::Command;

use crate::wire::HOSTS;
use crate::{Lab, Wire, free_port, run};

/// What the hosts are called on the link.
pub(crate) const NAMES: [&str; 2] = ["node-a", "node-b"];

/// The link of host `at`, which listens at a port and reaches the other host at another one.
pub(crate) fn link_section(lab: &Lab, at: usize, own: u16, other: u16) -> String {
    let [name, peer] = [NAMES[at], NAMES[1 - at]];
    let file = |what: &str| lab.path(&format!("host-{at}.{what}")).display().to_string();
    format!(
        "\n[link]\nname = '{name}'\naddress = '{HOSTS}:{own}'\ncertificate = '{}'\nkey = '{}'\n\
         authority = '{}'\n\n[[peer]]\nname = '{peer}'\naddress = '127.0.0.1:{other}'\n",
        file("pem"),
        file("key"),
        lab.path("authority.pem").display(),
    )
}

/// The links of two hosts that take turns, so that each finds its peer away.
///
/// # Errors
///
/// When their certificates cannot be made.
pub fn links_to_nobody(lab: &Lab) -> anyhow::Result<[String; 2]> {
    make_certificates(lab, NAMES)?;
    let ports = [free_port()?, free_port()?];
    Ok([0, 1].map(|at| link_section(lab, at, ports[at], ports[1 - at])))
}

/// The links of two hosts that meet, and the cable between them.
///
/// # Errors
///
/// When their certificates cannot be made.
pub fn linked(lab: &Lab) -> anyhow::Result<([String; 2], Wire)> {
    make_certificates(lab, NAMES)?;
    let ports = [free_port()?, free_port()?];
    let (wire, through) = Wire::new(ports)?;
    Ok((
        [0, 1].map(|at| link_section(lab, at, ports[at], through[1 - at])),
        wire,
    ))
}

/// An authority, and a certificate for each host.
pub(crate) fn make_certificates(lab: &Lab, names: [&str; 2]) -> anyhow::Result<()> {
    let openssl = |line: &str| {
        run(Command::new("openssl")
            .current_dir(lab.folder())
            .args(line.split(' ')))
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!(
        "req -x509 {key} -keyout authority.key -out authority.pem -days 2 -subj /CN=test-authority"
    ))?;
    for (at, name) in names.into_iter().enumerate() {
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
