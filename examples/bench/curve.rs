//! Plots the speed.

use common::plot::{Axis, Curve, Plot};

use crate::measure::{Bench, Phase, Run};
use crate::report::spread;

/// Returns a plot of the medians: by depth if there are several depths, otherwise by the number of threads.
pub(crate) fn plot(measured: &[(Bench<'_>, Vec<Run>)]) -> Plot {
    let file = "bench.svg";
    let title = |what: &str| match measured.first().map_or(0, |(bench, _)| bench.repeat) {
        1 => format!("{what}, one run"),
        repeats => format!("{what}, median of {repeats} runs"),
    };
    let y = Axis::linear("tokens/s");
    if measured.len() > 1 {
        let (x, title) = (Axis::linear("tokens before"), title("Decode by depth"));
        return Plot { file, title, x, y, curves: by_depth(measured) };
    }
    let runs: Vec<&Run> = measured.iter().flat_map(|(_, runs)| runs).collect();
    let curves = [
        ("prefill", (|run| run.prefill.as_ref()) as fn(&Run) -> Option<&Phase>),
        ("decode", |run| run.decode.as_ref()),
    ];
    let curve = |(name, phase): (&str, fn(&Run) -> Option<&Phase>)| {
        let points = runs.iter().filter_map(|run| Some((run.limits.workers as f64, spread(&phase(run)?.tokens_s).0)));
        Curve { name: name.into(), points: points.collect() }
    };
    let curves = curves.map(curve).into_iter().filter(|curve| !curve.points.is_empty()).collect();
    Plot {
        file,
        title: title("Speed by threads"),
        x: Axis::log("threads", 2.0),
        y: Axis::log("tokens/s", 10.0),
        curves,
    }
}

/// Returns a curve for each number of threads.
fn by_depth(measured: &[(Bench<'_>, Vec<Run>)]) -> Vec<Curve> {
    let count = measured.iter().map(|(_, runs)| runs.len()).max().unwrap_or(0);
    let curve = |index: usize| {
        let runs = measured.iter().filter_map(|(bench, runs)| Some((bench.depth, runs.get(index)?)));
        let points =
            runs.clone().filter_map(|(depth, run)| Some((depth as f64, spread(&run.decode.as_ref()?.tokens_s).0)));
        let threads = runs.clone().next().map_or(0, |(_, run)| run.limits.workers);
        let name = if threads == 1 { "1 thread".into() } else { format!("{threads} threads") };
        Curve { name, points: points.collect() }
    };
    (0..count).map(curve).collect()
}
