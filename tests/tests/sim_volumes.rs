//! Several VMs in one trace have a result each.

use anyhow::ensure;
use e2e::{hearth, scenario};

#[test]
fn each_volume_has_its_counts_and_they_add_up() {
    scenario(&[], |lab| {
        let trace = lab
            .write(
                "hosts.csv",
                "128166372003061629,web,0,Read,0,4096,100\n128166372003061629,db,1,Write,0,8192,100\n\
                 128166372003061630,web,0,Read,0,4096,100\n128166372003061631,db,1,Read,4096,4096,100\n",
            )?
            .display()
            .to_string();
        let words = [
            "sim", &trace, "--format", "msr", "--policy", "lru", "--size", "10blk",
        ];
        let run = hearth(&[&words[..], &["--json"]].concat())?.json()?[0].clone();
        let told = |place: usize| {
            let volume = &run["volumes"][place];
            (
                volume["vm"].clone(),
                volume["accesses"].clone(),
                volume["hits"].clone(),
            )
        };
        ensure!(
            told(0) == ("web".into(), 2.into(), 1.into()),
            "{}",
            run["volumes"]
        );
        ensure!(
            told(1) == ("db".into(), 3.into(), 1.into()),
            "{}",
            run["volumes"]
        );
        ensure!(run["accesses"] == 5 && run["hits"] == 2, "{run}");
        let table = hearth(&[&words[..], &["--volumes"]].concat())?.stdout;
        ensure!(table.contains("web/0") && table.contains("db/1"), "{table}");
        Ok(())
    });
}
