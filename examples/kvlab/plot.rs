//! Curves as SVG.

use std::ops::Range;
use std::path::Path;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use serde_json::{Value, json};

use common::Result;

const COLORS: [RGBColor; 5] = [
    RGBColor(214, 96, 41),
    RGBColor(52, 101, 164),
    RGBColor(78, 140, 60),
    RGBColor(130, 80, 150),
    RGBColor(140, 150, 165),
];

pub(crate) struct Plot {
    /// The name of the file.
    pub(crate) file: &'static str,
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) curves: Vec<Curve>,
}

pub(crate) struct Axis {
    pub(crate) name: &'static str,
    /// The base of a logarithmic scale.
    pub(crate) log: Option<f64>,
}

pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Axis {
    pub(crate) const fn linear(name: &'static str) -> Self {
        Self { name, log: None }
    }

    pub(crate) const fn log(name: &'static str, base: f64) -> Self {
        Self { name, log: Some(base) }
    }

    /// What holds all values; those that a logarithm does not have are left out.
    fn range(&self, values: impl Iterator<Item = f64>) -> Range<f64> {
        let values = values.filter(|&x| self.log.is_none() || x > 0.0);
        let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
        match self.log {
            _ if least > most => 1.0..10.0,
            Some(_) => least / 1.2..most * 1.3,
            None => 0.0..(most * 1.08).max(f64::MIN_POSITIVE),
        }
    }
}

impl Plot {
    pub(crate) fn to_json(&self) -> Value {
        let curves = self.curves.iter().map(|curve| json!({ "name": curve.name, "points": curve.points }));
        json!({
            "file": self.file,
            "title": self.title,
            "x": self.x.name,
            "y": self.y.name,
            "curves": curves.collect::<Vec<_>>(),
        })
    }

    pub(crate) fn draw(&self, path: &Path) -> Result<()> {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let x = self.x.range(points().map(|point| point.0));
        let y = self.y.range(points().map(|point| point.1));
        match (self.x.log, self.y.log) {
            (None, None) => self.draw_in(path, x, y),
            (Some(a), None) => self.draw_in(path, x.log_scale().base(a), y),
            (None, Some(b)) => self.draw_in(path, x, y.log_scale().base(b)),
            (Some(a), Some(b)) => self.draw_in(path, x.log_scale().base(a), y.log_scale().base(b)),
        }
    }

    fn draw_in<X, Y>(&self, path: &Path, x: X, y: Y) -> Result<()>
    where
        X: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
        Y: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
    {
        let root = SVGBackend::new(path, (860, 480)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, ("sans-serif", 18))
            .margin(14)
            .x_label_area_size(46)
            .y_label_area_size(76)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(self.x.name)
            .y_desc(self.y.name)
            .x_label_formatter(&|x| label(*x))
            .y_label_formatter(&|y| label(*y))
            .label_style(("sans-serif", 13))
            .draw()?;
        for (curve, color) in self.curves.iter().zip(COLORS.into_iter().cycle()) {
            let shown = |&&(x, y): &&(f64, f64)| (self.x.log.is_none() || x > 0.0) && (self.y.log.is_none() || y > 0.0);
            let points = || curve.points.iter().filter(shown).copied();
            chart
                .draw_series(LineSeries::new(points(), color.stroke_width(2)))?
                .label(&curve.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
            chart.draw_series(points().map(|point| Circle::new(point, 3, color.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .label_font(("sans-serif", 13))
            .draw()?;
        Ok(root.present()?)
    }
}

/// A number in few characters.
fn label(x: f64) -> String {
    match x.abs() {
        0.0 => "0".into(),
        a if !(1e-3..1e6).contains(&a) => format!("{x:.0e}"),
        a if a < 10.0 => format!("{:.3}", x).trim_end_matches('0').trim_end_matches('.').into(),
        _ => format!("{x:.0}"),
    }
}
