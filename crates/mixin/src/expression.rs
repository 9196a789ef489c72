//! Which metrics and labels an expression of `PromQL` names.
//!
//! This is no parser of the language: it finds names in expressions that `promtool` accepts.

/// A metric in an expression, and the labels that its braces name.
#[derive(Debug, PartialEq, Eq)]
pub struct Selector<'a> {
    /// The metric's name.
    pub metric: &'a str,
    /// The labels between its braces.
    pub labels: Vec<&'a str>,
}

/// What an expression names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Names<'a> {
    /// Its metrics, in the order of the text.
    pub selectors: Vec<Selector<'a>>,
    /// Labels after `by`, `without`, `on`, `ignoring`, `group_left` and `group_right`.
    pub groupings: Vec<&'a str>,
}

const GROUPINGS: &[&str] = &[
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];
const OPERATORS: &[&str] = &["and", "or", "unless", "bool", "offset"];

/// The names in `expression`.
pub fn names(expression: &str) -> Names<'_> {
    let tokens = tokens(expression);
    let mut names = Names::default();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        let Token::Word(word) = *token else { continue };
        let next = tokens.get(at);
        if GROUPINGS.contains(&word) {
            names.groupings.extend(words_until(&tokens, &mut at, ')'));
        } else if next == Some(&Token::Sign('{')) {
            names.selectors.push(Selector {
                metric: word,
                labels: words_until(&tokens, &mut at, '}'),
            });
        } else if !is_of_the_language(word, next) {
            names.selectors.push(Selector {
                metric: word,
                labels: Vec::new(),
            });
        }
    }
    names
}

/// Whether a word is an operator, or a function before its arguments or its grouping.
fn is_of_the_language(word: &str, next: Option<&Token<'_>>) -> bool {
    let is_function = match next {
        Some(Token::Sign(sign)) => *sign == '(',
        Some(Token::Word(word)) => GROUPINGS.contains(word),
        None => false,
    };
    is_function || OPERATORS.contains(&word)
}

/// The words up to a closing sign; `at` moves behind the sign.
fn words_until<'a>(tokens: &[Token<'a>], at: &mut usize, close: char) -> Vec<&'a str> {
    let mut words = Vec::new();
    while let Some(token) = tokens.get(*at) {
        *at += 1;
        match token {
            Token::Word(word) => words.push(*word),
            Token::Sign(sign) if *sign == close => break,
            Token::Sign(_) => {}
        }
    }
    words
}

#[derive(Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Sign(char),
}

/// Words and signs. Strings, numbers and ranges in brackets hold no names and are left out.
fn tokens(expression: &str) -> Vec<Token<'_>> {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.');
    let mut tokens = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => behind(rest, '"'),
            '[' => behind(rest, ']'),
            _ if is_inside(first) => rest.find(|c| !is_inside(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, behind) = rest.split_at(length);
        rest = behind;
        if first.is_ascii_alphabetic() || first == '_' {
            tokens.push(Token::Word(token));
        } else if !is_inside(first) && !matches!(first, '"' | '[') && !first.is_whitespace() {
            tokens.push(Token::Sign(first));
        }
    }
    tokens
}

/// Bytes up to and with the closing sign, or all.
fn behind(text: &str, close: char) -> usize {
    let after_the_first = text.get(1..).unwrap_or_default();
    after_the_first
        .find(close)
        .map_or(text.len(), |at| 1 + at + close.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(expression: &str) -> Vec<&str> {
        let found = names(expression).selectors;
        found.iter().map(|selector| selector.metric).collect()
    }

    #[test]
    fn functions_operators_and_numbers_are_no_metrics() {
        let expression =
            "sum by (le) (rate(a_bucket{op=\"b\"}[5m])) > 0.9 * c and on (job) d != bool 1e3";
        assert_eq!(metrics(expression), ["a_bucket", "c", "d"]);
        assert_eq!(names(expression).groupings, ["le", "job"]);
        assert_eq!(names(expression).selectors[0].labels, ["op"]);
    }

    #[test]
    fn strings_and_ranges_hold_no_names() {
        assert_eq!(metrics("rate(a{b=~\"c|d{e}\"}[$__rate_interval])"), ["a"]);
        assert_eq!(metrics("a{b=\"unended"), ["a"]);
    }

    #[test]
    fn each_label_between_braces_is_named() {
        let found = names("a{one=\"1\",two!~\"2\"}");
        assert_eq!(found.selectors[0].labels, ["one", "two"]);
    }
}
