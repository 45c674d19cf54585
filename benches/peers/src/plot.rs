//! A plot per metric: bars of Gleed and of llama.cpp's better setting, for each file and number of threads.

use std::path::Path;

use plotters::prelude::*;

use crate::Result;
use crate::engines::Kind;
use crate::report::{Metric, Row, spread};

const OURS: RGBColor = RGBColor(214, 96, 41);
const THEIRS: RGBColor = RGBColor(140, 150, 165);

pub(crate) fn all(folder: &Path, rows: &[Row]) -> Result<()> {
    let mut metrics: Vec<Metric> = Vec::new();
    for row in rows {
        if !metrics.contains(&row.metric) {
            metrics.push(row.metric);
        }
    }
    for metric in metrics {
        let rows: Vec<_> = rows.iter().filter(|row| row.metric == metric).collect();
        let path = folder.join(format!("{}.svg", metric.to_string().replace(' ', "-")));
        plot(&path, metric, &rows)?;
    }
    Ok(())
}

/// Two bars per row, the first row on top.
fn plot(path: &Path, metric: Metric, rows: &[&Row]) -> Result<()> {
    let count = rows.len();
    let values = |row: &Row| [spread(row.samples(Kind::Gleed)).0, spread(row.samples(row.best_llama())).0];
    let most = rows.iter().flat_map(|row| values(row)).fold(0.0, f64::max);
    let root = SVGBackend::new(path, (900, 110 + 46 * count as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("{metric}, {}", metric.unit()), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(30)
        .y_label_area_size(220)
        .build_cartesian_2d(0.0..most * 1.25, 0.0..count as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .x_label_formatter(&|x| format!("{x}"))
        .label_style(("sans-serif", 13))
        .draw()?;
    for (engine, (color, name)) in [(OURS, "Gleed"), (THEIRS, "llama.cpp")].into_iter().enumerate() {
        let bars = rows.iter().enumerate().map(|(index, row)| {
            let top = (count - index) as f64 - 0.12 - 0.38 * engine as f64;
            Rectangle::new([(0.0, top), (values(row)[engine], top - 0.36)], color.filled())
        });
        chart
            .draw_series(bars)?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], color.filled()));
    }
    for (index, row) in rows.iter().enumerate() {
        let y = (count - index) as f64 - 0.4;
        let text =
            |text: String, x: f64, dx: i32| EmptyElement::at((x, y)) + Text::new(text, (dx, 0), ("sans-serif", 13));
        let [ours, theirs] = values(row);
        let threads = if row.threads == 1 { "1 thread".into() } else { format!("{} threads", row.threads) };
        chart.draw_series([
            text(format!("{ours:.1} / {theirs:.1} ({:.2}x)", row.ratio()), ours.max(theirs), 6),
            text(format!("{}, {threads}", row.file), 0.0, -215),
        ])?;
    }
    chart.configure_series_labels().position(SeriesLabelPosition::LowerRight).background_style(WHITE).draw()?;
    Ok(root.present()?)
}
