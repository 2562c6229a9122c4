//! Text inside pages of HTML.

/// Escapes text for HTML, attributes in quotes included.
#[must_use]
pub fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_markup() {
        assert_eq!(
            escape_html("<a href='x' title=\"&amp;\">ä"),
            "&lt;a href=&#39;x&#39; title=&quot;&amp;amp;&quot;&gt;ä"
        );
    }
}
