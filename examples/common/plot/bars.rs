//! Draws columns, each with a name.

use super::axis::{Axis, label};
use super::svg::{Anchor, SMALL, Svg};
use super::{HEIGHT, SIDES, WIDTH};

/// Columns beside each other.
pub struct Bars {
    pub title: String,
    /// Name of the x axis. `y` is the name of the y axis.
    pub x: &'static str,
    pub y: &'static str,
    pub columns: Vec<(String, f64)>,
}

impl Bars {
    /// Returns the text of the SVG file.
    pub fn draw(&self, subtitle: &str) -> String {
        let mut svg = Svg::new(WIDTH);
        let top = svg.heading(&self.title, subtitle) + 34.0;
        let bottom = top + HEIGHT;
        let y = Axis::linear(self.y).scale(self.columns.iter().map(|column| column.1), [bottom, top]);
        svg.text("quiet", [28.0, top - 14.0], SMALL, Anchor::Start, self.y);
        for tick in y.ticks() {
            let at = y.place(tick);
            svg.line("grid", [SIDES[0], at], [SIDES[1], at]);
            svg.text("text", [SIDES[0] - 8.0, at + 4.0], SMALL, Anchor::End, &label(tick));
        }
        let width = (SIDES[1] - SIDES[0]) / self.columns.len().max(1) as f64;
        for (index, (name, value)) in self.columns.iter().enumerate() {
            let (left, at) = (SIDES[0] + width * index as f64, y.place(*value));
            svg.rect("f0", [left + 0.12 * width, at], [0.76 * width, bottom - at], "");
            svg.text("text", [left + 0.5 * width, bottom + 18.0], SMALL, Anchor::Middle, name);
            if *value > 0.0 {
                svg.text("quiet", [left + 0.5 * width, at - 5.0], SMALL, Anchor::Middle, &label(*value));
            }
        }
        svg.line("axis", [SIDES[0], bottom], [SIDES[1], bottom]);
        svg.text("quiet", [(SIDES[0] + SIDES[1]) / 2.0, bottom + 40.0], SMALL, Anchor::Middle, self.x);
        svg.finish(bottom + 56.0, &self.title, subtitle)
    }
}
