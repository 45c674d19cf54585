//! Writes SVG as text. The colours are light or dark, as the reader's system is.

use std::fmt::Write;

/// Number of colours for the series of a plot.
pub const COLORS: usize = 6;

const STYLE: &str = "\
.paper { fill: #fbfaf7; stroke: #d5d0c4; }
.text { fill: #2b2926; }
.quiet { fill: #6b665d; }
.grid { stroke: #e4e0d6; }
.axis { stroke: #8a8478; }
.cell { fill: #ffffff; stroke: #b9b3a6; }
.hollow { fill: #fbfaf7; }
.line { fill: none; stroke-linejoin: round; }
.c0 { stroke: #c8501c; } .f0 { fill: #c8501c; }
.c1 { stroke: #2c6a96; } .f1 { fill: #2c6a96; }
.c2 { stroke: #4f7d1f; } .f2 { fill: #4f7d1f; }
.c3 { stroke: #8a4f9e; } .f3 { fill: #8a4f9e; }
.c4 { stroke: #9a7400; } .f4 { fill: #9a7400; }
.c5 { stroke: #5f6b7a; } .f5 { fill: #5f6b7a; }
@media (prefers-color-scheme: dark) {
.paper { fill: #1b1a18; stroke: #45413a; }
.text { fill: #ece8df; }
.quiet { fill: #a9a396; }
.grid { stroke: #35322d; }
.axis { stroke: #8a8478; }
.cell { fill: #282622; stroke: #5b564d; }
.hollow { fill: #1b1a18; }
.c0 { stroke: #f2935c; } .f0 { fill: #f2935c; }
.c1 { stroke: #7db8e0; } .f1 { fill: #7db8e0; }
.c2 { stroke: #a6cb70; } .f2 { fill: #a6cb70; }
.c3 { stroke: #cf9be3; } .f3 { fill: #cf9be3; }
.c4 { stroke: #e0bd4f; } .f4 { fill: #e0bd4f; }
.c5 { stroke: #aab4c2; } .f5 { fill: #aab4c2; }
}
";

/// The part of a text that lies at its coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// An SVG picture to which elements are added.
pub struct Svg {
    pub width: f64,
    body: String,
}

impl Svg {
    pub fn new(width: f64) -> Self {
        Self { width, body: String::new() }
    }

    /// Adds an element. The attributes are written as they are.
    pub fn element(&mut self, name: &str, attributes: &str) {
        let _ = writeln!(self.body, "<{name} {attributes}/>");
    }

    pub fn line(&mut self, class: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        self.element("line", &format!(r#"class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}""#));
    }

    pub fn rect(&mut self, class: &str, [x, y]: [f64; 2], [width, height]: [f64; 2], more: &str) {
        let place = format!(r#"x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}""#);
        self.element("rect", &format!(r#"class="{class}" {place} {more}"#));
    }

    pub fn text(&mut self, class: &str, [x, y]: [f64; 2], size: f64, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let text = escape(text);
        let _ = writeln!(
            self.body,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" font-size="{size}"{anchor}>{text}</text>"#
        );
    }

    /// Adds a title, and below it a subtitle in lines that fit the width. Returns the y coordinate at which the rest
    /// begins.
    pub fn heading(&mut self, title: &str, subtitle: &str) -> f64 {
        self.text("text", [28.0, 32.0], 16.0, Anchor::Start, title);
        let lines = wrap(subtitle, self.width - 56.0, SMALL);
        for (index, line) in lines.iter().enumerate() {
            self.text("quiet", [28.0, 52.0 + 16.0 * index as f64], SMALL, Anchor::Start, line);
        }
        44.0 + 16.0 * lines.len() as f64
    }

    /// Returns the text of the file. `description` is for readers who cannot see the picture.
    pub fn finish(self, height: f64, title: &str, description: &str) -> String {
        let Self { width, body } = self;
        let (title, description) = (escape(title), escape(description));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', \
             sans-serif\">\n<title>{title}</title>\n<desc>{description}</desc>\n<style>\n{STYLE}</style>\n\
             <rect class=\"paper\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"10\"/>\n{body}</svg>\n",
            width - 1.0,
            height - 1.0,
        )
    }
}

/// Font size of all text that is not a title.
pub const SMALL: f64 = 12.0;

/// Returns an estimate of the largest width of a text in a usual font.
pub fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.53
}

/// Splits a text between words into lines of at most this width.
fn wrap(text: &str, width: f64, size: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line, size) + text_width(word, size) + size <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
