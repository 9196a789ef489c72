//! The unified diff of two short texts: what `diff -u` prints.
//!
//! Lines that both begin or end with are left out first; the longest common subsequence of the rest is found by the
//! textbook table (Wagner and Fischer, "The String-to-String Correction Problem", 1974), whose size is the product of both lengths.

use std::fmt::Write as _;

/// Lines around a change.
const CONTEXT: usize = 3;
/// Lines of a text beyond which all that differs is shown as one change: the table has 16 million places at most.
const LINES_MAX: usize = 4096;

/// A line of the diff, with its place in both texts.
#[derive(Clone, Copy)]
struct Row<'a> {
    sign: char,
    line: &'a str,
    old: usize,
    new: usize,
}

/// The diff of two texts under these names; empty if they are equal.
pub(crate) fn unified(names: (&str, &str), old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let rows = rows(&lines(old), &lines(new));
    let mut out = format!("--- {}\n+++ {}\n", names.0, names.1);
    for hunk in hunks(&rows) {
        write_hunk(&mut out, hunk);
    }
    out
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn rows<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Row<'a>> {
    let alike = |(one, other): &(&&str, &&str)| one == other;
    let head = old.iter().zip(new).take_while(alike).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev());
    let tail = tail.take_while(alike).count();
    let old_rest = &old_rest[..old_rest.len() - tail];
    let new_rest = &new_rest[..new_rest.len() - tail];
    let mut signs = vec![' '; head];
    signs.extend(middle(old_rest, new_rest));
    signs.extend(std::iter::repeat_n(' ', tail));
    let (mut at_old, mut at_new) = (0, 0);
    let mut rows = Vec::with_capacity(signs.len());
    for sign in signs {
        let line = if sign == '+' {
            new[at_new]
        } else {
            old[at_old]
        };
        rows.push(Row {
            sign,
            line,
            old: at_old,
            new: at_new,
        });
        at_old += usize::from(sign != '+');
        at_new += usize::from(sign != '-');
    }
    rows
}

/// What becomes of each line: `-`, `+`, or a blank for one that both have.
fn middle(old: &[&str], new: &[&str]) -> Vec<char> {
    let all = |sign: char, count: usize| std::iter::repeat_n(sign, count);
    if old.len().max(new.len()) > LINES_MAX {
        return all('-', old.len()).chain(all('+', new.len())).collect();
    }
    let width = new.len() + 1;
    // How many lines the rests of both from here on have in common.
    let mut common = vec![0_u16; (old.len() + 1) * width];
    for at_old in (0..old.len()).rev() {
        for at_new in (0..new.len()).rev() {
            let at = at_old * width + at_new;
            common[at] = if old[at_old] == new[at_new] {
                common[at + width + 1] + 1
            } else {
                common[at + width].max(common[at + 1])
            };
        }
    }
    let (mut at_old, mut at_new) = (0, 0);
    let mut signs = Vec::new();
    while at_old < old.len() && at_new < new.len() {
        let at = at_old * width + at_new;
        if old[at_old] == new[at_new] {
            signs.push(' ');
            (at_old, at_new) = (at_old + 1, at_new + 1);
        } else if common[at + width] >= common[at + 1] {
            signs.push('-');
            at_old += 1;
        } else {
            signs.push('+');
            at_new += 1;
        }
    }
    signs.extend(all('-', old.len() - at_old));
    signs.extend(all('+', new.len() - at_new));
    signs
}

/// The changes with their context; those that are near each other are one.
fn hunks<'r, 'a>(rows: &'r [Row<'a>]) -> Vec<&'r [Row<'a>]> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (at, _) in rows.iter().enumerate().filter(|(_, row)| row.sign != ' ') {
        let (from, to) = (
            at.saturating_sub(CONTEXT),
            (at + CONTEXT + 1).min(rows.len()),
        );
        match found.last_mut() {
            Some(last) if last.1 >= from => last.1 = to,
            _ => found.push((from, to)),
        }
    }
    found
        .into_iter()
        .map(|(from, to)| &rows[from..to])
        .collect()
}

fn write_hunk(out: &mut String, hunk: &[Row<'_>]) {
    let count = |other: char| hunk.iter().filter(|row| row.sign != other).count();
    let (old, new) = (count('+'), count('-'));
    let first = hunk.first().map_or((0, 0), |row| (row.old, row.new));
    // Nothing begins before the first line, by diff's custom.
    let begin = |at: usize, count: usize| at + usize::from(count > 0);
    let _ = writeln!(
        out,
        "@@ -{},{old} +{},{new} @@",
        begin(first.0, old),
        begin(first.1, new)
    );
    for row in hunk {
        let _ = write!(out, "{}{}", row.sign, row.line);
        if !row.line.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_differ_in_nothing() {
        assert_eq!(unified(("a", "b"), "x\n", "x\n"), "");
    }

    #[test]
    fn a_change_is_shown_with_three_lines_around_it() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n";
        let diff = "--- a\n+++ b\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n";
        assert_eq!(unified(("a", "b"), old, new), diff);
    }

    #[test]
    fn changes_that_are_far_from_each_other_are_two() {
        let old: Vec<String> = (0..20).map(|n| format!("{n}\n")).collect();
        let old = old.concat();
        let new = old.replace("\n3\n", "\n").replace("\n16\n", "\n16\nnew\n");
        let diff = unified(("a", "b"), &old, &new);
        assert_eq!(diff.matches("@@ -").count(), 2, "{diff}");
        assert!(
            diff.contains("@@ -1,7 +1,6 @@") && diff.contains("@@ -15,6 +14,7 @@"),
            "{diff}"
        );
        assert!(
            unified(("a", "b"), "", "x")
                .ends_with("@@ -0,0 +1,1 @@\n+x\n\\ No newline at end of file\n")
        );
    }
}
