//! Draws rows of two bars each.

use super::axis::{Axis, label};
use super::svg::{Anchor, SMALL, Svg, text_width};
use super::{WIDTH, legend};

/// Rows that compare two values each.
pub struct Pairs {
    pub title: String,
    /// Name of the x axis, with its unit.
    pub x: &'static str,
    pub names: [&'static str; 2],
    pub rows: Vec<Pair>,
}

pub struct Pair {
    pub name: String,
    pub values: [f64; 2],
    /// Text after the bars.
    pub text: String,
}

const ROW: f64 = 34.0;
const BAR: f64 = 12.0;

impl Pairs {
    /// Returns the text of the SVG file.
    pub fn draw(&self, subtitle: &str) -> String {
        let mut svg = Svg::new(WIDTH);
        let top = svg.heading(&self.title, subtitle);
        let top = legend(&mut svg, top + 6.0, &self.names, |svg, index, [x, y]| {
            svg.rect(&format!("f{}", COLORS[index % 2]), [x, y - BAR / 2.0], [28.0, BAR], "");
        });
        let (top, bottom) = (top + 14.0, top + 14.0 + ROW * self.rows.len() as f64);
        let widest =
            |texts: &mut dyn Iterator<Item = &str>| texts.map(|text| text_width(text, SMALL)).fold(0.0, f64::max);
        let left = 46.0 + widest(&mut self.rows.iter().map(|row| &*row.name));
        let right = WIDTH - 36.0 - widest(&mut self.rows.iter().map(|row| &*row.text));
        let x = Axis::linear(self.x).scale(self.rows.iter().flat_map(|row| row.values), [left, right]);
        for tick in x.ticks() {
            svg.line("grid", [x.place(tick), top], [x.place(tick), bottom]);
            svg.text("text", [x.place(tick), bottom + 18.0], SMALL, Anchor::Middle, &label(tick));
        }
        for (index, row) in self.rows.iter().enumerate() {
            let middle = top + ROW * (index as f64 + 0.5);
            svg.text("text", [left - 8.0, middle + 4.0], SMALL, Anchor::End, &row.name);
            for (bar, value) in row.values.iter().enumerate() {
                let y = middle - BAR + BAR * bar as f64;
                svg.rect(&format!("f{}", COLORS[bar]), [left, y], [x.place(*value) - left, BAR - 1.0], "");
            }
            let end = row.values.iter().map(|value| x.place(*value)).fold(left, f64::max);
            svg.text("quiet", [end + 8.0, middle + 4.0], SMALL, Anchor::Start, &row.text);
        }
        svg.line("axis", [left, top], [left, bottom]);
        svg.text("quiet", [(left + right) / 2.0, bottom + 38.0], SMALL, Anchor::Middle, self.x);
        svg.finish(bottom + 54.0, &self.title, subtitle)
    }
}

/// Colours of the two bars. The first is the subject of the plot, the second is its comparison.
const COLORS: [usize; 2] = [0, 5];
