//! Traces of which `hearth trace info` says that results will be wrong: whatever draws results from them says so first, and
//! `advise` refuses them.

use anyhow::ensure;
use e2e::{Answer, Lab, hearth, scenario};
use std::fmt::Write as _;

/// A trace that has every I/O twice, and one that has not.
fn traces(lab: &Lab) -> anyhow::Result<[String; 2]> {
    let mut sound = String::from("time_us,vm,volume,op,offset_bytes,length_bytes\n");
    let mut twice = sound.clone();
    for i in 0..4_000_u64 {
        let line = format!(
            "{},vm,disk,read,{},4096\n",
            i * 1_000,
            (i * 7 % 1_500) * 4096
        );
        sound += &line;
        write!(twice, "{line}{line}")?;
    }
    let twice = lab.write("twice.csv", &twice)?;
    let sound = lab.write("sound.csv", &sound)?;
    Ok([twice, sound].map(|path| path.display().to_string()))
}

fn run(trace: &str, words: &str) -> anyhow::Result<Answer> {
    let words: Vec<&str> = words
        .split(' ')
        .map(|word| if word == "TRACE" { trace } else { word })
        .collect();
    hearth(&words)
}

#[test]
fn whatever_draws_results_from_a_wrong_trace_says_so() {
    scenario(&[], |lab| {
        let [twice, sound] = traces(lab)?;
        let page = lab.path("page.html").display().to_string();
        let info = run(&twice, "trace info TRACE")?;
        ensure!(
            info.stdout.contains("duplicated-logging"),
            "{}",
            info.stdout
        );
        for command in [
            &format!("sim TRACE --policy lru --size 10% --report {page}"),
            "--json sim TRACE --policy lru --size 10%",
            &format!("mrc TRACE --report {page}"),
            "mrc TRACE --policy lru,arc",
            "advise TRACE --anyway",
            "sim gather TRACE",
            "sim prefetch TRACE",
        ] {
            let said = run(&twice, command)?;
            ensure!(said.code == 0, "{command}: {}", said.stderr);
            let told = said.stderr.matches("(duplicated-logging)").count();
            ensure!(told == 1, "{command}: {}", said.stderr);
            ensure!(
                said.stderr.contains("try: keep one of each pair"),
                "{}",
                said.stderr
            );
            if command.contains("--report") {
                let page = std::fs::read_to_string(&page)?;
                ensure!(page.contains("These results are wrong"), "{command}");
            }
            let said = run(&sound, command)?;
            let mut lines = said.stderr.lines();
            ensure!(
                said.code == 0 && lines.all(|line| line.starts_with("memory: ")),
                "{command}: {}",
                said.stderr
            );
        }
        let refused = run(&twice, "advise TRACE")?;
        ensure!(refused.code == 5, "{}", refused.stdout);
        ensure!(refused.stdout.is_empty(), "{}", refused.stdout);
        ensure!(refused.stderr.contains("--anyway"), "{}", refused.stderr);
        Ok(())
    });
}
