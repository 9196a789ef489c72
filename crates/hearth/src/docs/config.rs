//! The book's page of the configuration, made of `packaging/reference.toml`.

use super::NOTICE;
use configuration::reference_sections;
use std::fmt::Write;

pub(super) fn page() -> String {
    let mut page = format!("# Configuration\n\n{NOTICE}\n");
    page.push_str(
        "`hearth serve --config FILE` reads a TOML file at start, the files of the folder `conf.d` beside\n\
         it, and variables of the environment: [Several files](../configuration-files.md). The file\n\
         `packaging/reference.toml` is a valid configuration that holds every key with its default.\n\
         Unknown keys are errors. Sizes are texts with a unit (`B`, `KiB`, `MiB`, `GiB`, `TiB`), times\n\
         are texts with a unit (`ns`, `us`, `ms`, `s`, `min`, `h`). `--check-config` checks the file and\n\
         what it needs from the machine, and changes nothing.\n\n\
         The file is the truth about the disks in it: they are attached at every start. Disks that were\n\
         attached at run time (`hearth disk attach`) are kept in `daemon.state_dir` and attached again\n\
         after a restart until they are detached; `hearth disk show` tells which is which. If the file\n\
         and the kept disks name the same disk, the file wins and the kept one is forgotten.\n",
    );
    for section in reference_sections() {
        write!(page, "\n## `{}`\n\n{}\n\n", section.header, section.meaning)
            .expect("writing to a string does not fail");
        page.push_str("| key | default | meaning |\n|---|---|---|\n");
        for entry in section.entries {
            let default = if entry.meaning.ends_with("No default.") {
                "required".to_owned()
            } else if entry.unset {
                format!("unset; such as `{}`", entry.value)
            } else {
                format!("`{}`", entry.value)
            };
            let meaning = entry.meaning.trim_end_matches(" No default.");
            writeln!(page, "| `{}` | {default} | {meaning} |", entry.key)
                .expect("writing to a string does not fail");
        }
    }
    page
}
