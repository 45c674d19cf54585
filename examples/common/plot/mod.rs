//! Curves and bars as SVG, for light and dark pages. A subtitle says what was measured and where. The legend is outside
//! of the data. Curves differ in colour, dashes and markers, so that a curve below another one is still visible.

mod axis;
mod bars;
mod pairs;
pub mod svg;

use serde_json::{Value, json};

pub use axis::{Axis, label};
pub use bars::Bars;
pub use pairs::{Pair, Pairs};
use svg::{Anchor, COLORS, SMALL, Svg, text_width};

pub struct Plot {
    /// Name of the file.
    pub file: &'static str,
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub curves: Vec<Curve>,
}

pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 860.0;
/// Coordinates of the left and the right edge of the data. `HEIGHT` is the height of the data.
const SIDES: [f64; 2] = [76.0, 832.0];
const HEIGHT: f64 = 320.0;

/// Most markers of a curve.
const MARKERS: usize = 16;

/// Dashes of each curve in turn. The first curve, which others may cover, has none.
const DASHES: [&str; COLORS] = ["", "8 5", "2 4", "12 4 2 4", "5 3", "16 5"];

impl Plot {
    pub fn to_json(&self) -> Value {
        let curves = self.curves.iter().map(|curve| json!({ "name": curve.name, "points": curve.points }));
        json!({
            "file": self.file,
            "title": self.title,
            "x": self.x.name,
            "y": self.y.name,
            "curves": curves.collect::<Vec<_>>(),
        })
    }

    /// Returns the text of the SVG file.
    pub fn draw(&self, subtitle: &str) -> String {
        let mut svg = Svg::new(WIDTH);
        let top = svg.heading(&self.title, subtitle);
        let names: Vec<&str> = self.curves.iter().map(|curve| curve.name.as_str()).collect();
        // The name of the y axis stands above the axis, so that it can be written horizontally.
        let top = legend(&mut svg, top + 6.0, &names, sample) + 34.0;
        let bottom = top + HEIGHT;
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let x = self.x.scale(points().map(|point| point.0), SIDES);
        let y = self.y.scale(points().map(|point| point.1), [bottom, top]);
        svg.text("quiet", [28.0, top - 14.0], SMALL, Anchor::Start, self.y.name);
        for tick in y.ticks() {
            let at = y.place(tick);
            svg.line("grid", [SIDES[0], at], [SIDES[1], at]);
            svg.text("text", [SIDES[0] - 8.0, at + 4.0], SMALL, Anchor::End, &label(tick));
        }
        for tick in x.ticks() {
            let at = x.place(tick);
            svg.line("grid", [at, top], [at, bottom]);
            svg.text("text", [at, bottom + 18.0], SMALL, Anchor::Middle, &label(tick));
        }
        svg.line("axis", [SIDES[0], bottom], [SIDES[1], bottom]);
        svg.text("quiet", [(SIDES[0] + SIDES[1]) / 2.0, bottom + 40.0], SMALL, Anchor::Middle, self.x.name);
        for (index, curve) in self.curves.iter().enumerate() {
            let shown = curve.points.iter().filter(|(a, b)| self.x.shows(*a) && self.y.shows(*b));
            let places: Vec<[f64; 2]> = shown.map(|(a, b)| [x.place(*a), y.place(*b)]).collect();
            self::curve(&mut svg, index, &places);
        }
        svg.finish(bottom + 56.0, &self.title, &format!("{}. {subtitle}", names.join(", ")))
    }
}

/// Draws a legend in one or more rows: a sample, then the name. Returns the y coordinate of its end.
fn legend(svg: &mut Svg, top: f64, names: &[&str], sample: fn(&mut Svg, usize, [f64; 2])) -> f64 {
    const SAMPLE: f64 = 44.0;
    let (mut x, mut y) = (28.0, top + 8.0);
    for (index, name) in names.iter().enumerate() {
        let width = SAMPLE + text_width(name, SMALL) + 20.0;
        if x > 28.0 && x + width > WIDTH - 28.0 {
            (x, y) = (28.0, y + 20.0);
        }
        sample(svg, index, [x, y]);
        svg.text("text legend", [x + SAMPLE - 8.0, y + 4.0], SMALL, Anchor::Start, name);
        x += width;
    }
    if names.is_empty() { top } else { y + 6.0 }
}

fn sample(svg: &mut Svg, index: usize, [x, y]: [f64; 2]) {
    polyline(svg, index, &[[x, y], [x + 28.0, y]]);
    marker(svg, index % COLORS, [x + 14.0, y]);
}

fn curve(svg: &mut Svg, index: usize, places: &[[f64; 2]]) {
    polyline(svg, index, places);
    // A curve of many points has markers at some of them, at other points than the next curve.
    let every = places.len().div_ceil(MARKERS).max(1);
    places.iter().skip(index % every).step_by(every).for_each(|place| marker(svg, index % COLORS, *place));
}

/// Draws the line of a curve. Later curves are thinner, so that the curves below them stay visible.
fn polyline(svg: &mut Svg, index: usize, places: &[[f64; 2]]) {
    let class = index % COLORS;
    let points: Vec<String> = places.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
    let dash = match DASHES[class] {
        "" => String::new(),
        dash => format!(r#" stroke-dasharray="{dash}""#),
    };
    let width = 3.0 - 0.25 * class as f64;
    let points = points.join(" ");
    svg.element("polyline", &format!(r#"class="line c{class}" points="{points}" stroke-width="{width}"{dash}"#));
}

/// Draws a marker. The markers of later curves are smaller.
fn marker(svg: &mut Svg, class: usize, [x, y]: [f64; 2]) {
    let r = 5.0 - 0.4 * class as f64;
    let filled = format!(r#"class="f{class}""#);
    let hollow = format!(r#"class="hollow c{class}" stroke-width="1.8""#);
    let polygon = |corners: &[[f64; 2]]| {
        let corners: Vec<String> = corners.iter().map(|[a, b]| format!("{:.1},{:.1}", x + a * r, y + b * r)).collect();
        format!(r#"points="{}""#, corners.join(" "))
    };
    let square = [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]];
    let triangle = [[0.0, -1.2], [1.1, 0.8], [-1.1, 0.8]];
    let diamond = [[0.0, -1.3], [1.3, 0.0], [0.0, 1.3], [-1.3, 0.0]];
    match class {
        0 => svg.element("circle", &format!(r#"{filled} cx="{x:.1}" cy="{y:.1}" r="{r:.1}""#)),
        1 => svg.element("polygon", &format!("{hollow} {}", polygon(&square))),
        2 => svg.element("polygon", &format!("{filled} {}", polygon(&triangle))),
        3 => svg.element("polygon", &format!("{hollow} {}", polygon(&diamond))),
        4 => svg.element("circle", &format!(r#"{hollow} cx="{x:.1}" cy="{y:.1}" r="{r:.1}""#)),
        _ => svg.element("polygon", &format!("{filled} {}", polygon(&diamond))),
    }
}
