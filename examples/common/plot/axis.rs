//! Axes: maps values to coordinates, and chooses the ticks.

/// The kind of an axis and its name.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub name: &'static str,
    /// Base of a logarithmic scale; `None` for a linear one.
    pub log: Option<f64>,
}

/// An axis with a range of values and a range of coordinates.
pub struct Scale {
    log: Option<f64>,
    least: f64,
    most: f64,
    /// Coordinates of the least and of the largest value.
    at: [f64; 2],
}

/// Least number of ticks, except for powers of two.
const FEW: usize = 4;
/// Largest number of ticks.
const MANY: usize = 11;

impl Axis {
    pub const fn linear(name: &'static str) -> Self {
        Self { name, log: None }
    }

    pub const fn log(name: &'static str, base: f64) -> Self {
        Self { name, log: Some(base) }
    }

    /// Returns whether a value can be shown on the axis.
    pub fn shows(&self, x: f64) -> bool {
        x.is_finite() && (self.log.is_none() || x > 0.0)
    }

    /// Returns a scale that contains all values, between the coordinates `at`.
    pub fn scale(&self, values: impl Iterator<Item = f64>, at: [f64; 2]) -> Scale {
        let values = values.filter(|&x| self.shows(x));
        let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
        let (least, most) = match self.log {
            _ if least > most => (1.0, 10.0),
            Some(_) => (least / 1.15, most * 1.15),
            None => (0.0, (most * 1.06).max(f64::MIN_POSITIVE)),
        };
        Scale { log: self.log, least, most, at }
    }
}

impl Scale {
    pub fn place(&self, x: f64) -> f64 {
        let share = match self.log {
            None => (x - self.least) / (self.most - self.least),
            Some(_) => (x / self.least).ln() / (self.most / self.least).ln(),
        };
        self.at[0] + share * (self.at[1] - self.at[0])
    }

    /// Returns the values of the ticks.
    pub fn ticks(&self) -> Vec<f64> {
        let Some(base) = self.log else { return self.linear_ticks() };
        let (few, sets): (usize, &[&[f64]]) = match base == 2.0 {
            true => (2, &[&[1.0]]),
            false => (FEW, &[&[1.0], &[1.0, 3.0], &[1.0, 2.0, 5.0]]),
        };
        let power = |x: f64| (x.ln() / base.ln()).floor() as i32;
        let (first, last) = (power(self.least), power(self.most));
        for set in sets {
            let all = (first..=last).flat_map(|power| set.iter().map(move |factor| factor * base.powi(power)));
            let ticks: Vec<f64> = all.filter(|x| (self.least..=self.most).contains(x)).collect();
            if ticks.len() >= few {
                let every = ticks.len().div_ceil(MANY);
                return ticks.into_iter().step_by(every).collect();
            }
        }
        self.linear_ticks()
    }

    /// Returns ticks at multiples of 1, 2 or 5 times a power of ten.
    fn linear_ticks(&self) -> Vec<f64> {
        let range = self.most - self.least;
        let power = 10f64.powf((range / MANY as f64).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = steps.into_iter().find(|step| range / step <= (MANY - 3) as f64).unwrap_or(steps[3]);
        let first = (self.least / step).ceil() as i64;
        let last = (self.most / step).floor() as i64;
        (first..=last).map(|index| index as f64 * step).collect()
    }
}

/// Returns a number in few characters.
pub fn label(x: f64) -> String {
    let decimals = |count: usize| {
        let text = format!("{x:.count$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    };
    match x.abs() {
        0.0 => "0".into(),
        a if !(1e-4..1e7).contains(&a) => format!("{x:.0e}"),
        a if a < 0.01 => decimals(5),
        a if a < 10.0 => decimals(3),
        a if a < 1000.0 => decimals(1),
        _ => thousands(x),
    }
}

fn thousands(x: f64) -> String {
    let digits = format!("{:.0}", x.abs());
    let mut text = String::from(if x < 0.0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
