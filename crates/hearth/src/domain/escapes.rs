//! Characters that XML does not take as they are.

/// A text as an attribute or an element has it.
pub(crate) fn escaped(plain: &str) -> String {
    let mut text = String::with_capacity(plain.len());
    for c in plain.chars() {
        match c {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '\'' => text.push_str("&apos;"),
            '"' => text.push_str("&quot;"),
            other => text.push(other),
        }
    }
    text
}

/// A text without XML's escapes. What is no escape stays as it is.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        plain.push_str(before);
        let found = after
            .split_once(';')
            .and_then(|(name, after)| Some((character(name)?, after)));
        if let Some((c, after)) = found {
            plain.push(c);
            rest = after;
        } else {
            plain.push('&');
            rest = after;
        }
    }
    plain + rest
}

/// The character that an escape stands for.
fn character(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "apos" => Some('\''),
        "quot" => Some('"'),
        _ => {
            let digits = name.strip_prefix('#')?;
            let code = match digits.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => digits.parse(),
            };
            char::from_u32(code.ok()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_escaped_is_read_again() {
        let text = "a&b <c> 'd' \"e\" &amp; ä";
        assert_eq!(plain(&escaped(text)), text);
    }

    #[test]
    fn numbers_stand_for_characters_and_other_words_for_themselves() {
        assert_eq!(plain("&#65;&#x42;&lt;"), "AB<");
        assert_eq!(
            plain("a & b &no; &#xffffffff; &"),
            "a & b &no; &#xffffffff; &"
        );
    }
}
