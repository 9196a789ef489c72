//! The page in a browser against a daemon with 10,000 VMs: a page of a hundred rows, the next one, a search, another order.

use anyhow::ensure;
use e2e::{
    BROWSER_TOOLS, Browser, DiskSettings, Flash, Hearth, HearthSettings, Image, free_port, scenario,
};
use std::fmt::Write as _;

const VMS: usize = 10_000;

#[test]
fn a_list_of_ten_thousand_vms_is_read_a_page_at_a_time() {
    scenario(&BROWSER_TOOLS, |lab| {
        let port = free_port()?;
        let origin = format!("http://127.0.0.1:{port}/");
        let flash = Flash::format(lab, "flash.img", 64)?;
        let image = Image::new(lab, "disk.raw", 8)?;
        // Disks for all of them would take a minute to attach: most have settings only, as VMs that are shut down.
        let mut vms = String::new();
        for number in 0..VMS - 1 {
            write!(vms, "\n[[vm]]\nname = 'vm-{number:05}'\n")?;
        }
        let settings = HearthSettings::new(&flash)
            .section(&format!("\n[web]\naddress = '127.0.0.1:{port}'\n{vms}"))
            .disk(&DiskSettings::on_file("worst", image.path()));
        let hearth = Hearth::start(lab, &settings)?;
        let browser = Browser::start(lab)?;
        browser.open(&format!("{origin}#/vms?sort=name"))?;
        browser.wait_for("[data-test=total]", "100 of 10000 VMs")?;
        let names = "[data-test=vms] tbody th";
        let first = browser.texts(names)?;
        ensure!(first.len() == 100 && first[99] == "vm-00099", "{first:?}");
        browser.click("[data-test=next]")?;
        browser.wait_for(names, "vm-00100")?;
        browser.keys("[data-test=search]", "7777\u{e007}")?;
        browser.wait_for("[data-test=total]", "1 of 1 VMs")?;
        ensure!(browser.texts(names)? == ["vm-07777"]);
        browser.open(&format!("{origin}#/vms?sort=flash&search=o"))?;
        browser.wait_for(names, "worst")?;
        browser.ensure_quiet(&origin)?;
        hearth.stop().map(drop)
    });
}
