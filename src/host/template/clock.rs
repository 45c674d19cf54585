//! Dates, in UTC.

use std::format;
use std::string::{String, ToString};
use std::time::{SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Formats a time as `strftime` does, for the fields that chat templates use. Other fields stay as they are. A time
/// before 1970 becomes the beginning of 1970.
pub(super) fn strftime(format: &str, time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day, day_of_year) = date(days);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    let name = |names: &[&'static str], index: u64| names.get(index as usize).copied().unwrap_or_default();
    let short = |name: &'static str| name.get(..3).unwrap_or_default().to_string();
    let hour12 = (hour + 11) % 12 + 1;
    let mut out = String::new();
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut field = rest.next();
        let pads = field != Some('-');
        if !pads {
            field = rest.next();
        }
        let number = |number: u64, width: usize| {
            if pads { format!("{number:0width$}") } else { format!("{number}") }
        };
        out.push_str(&match field {
            Some('Y') => year.to_string(),
            Some('y') => number(year % 100, 2),
            Some('m') => number(month, 2),
            Some('d') => number(day, 2),
            Some('e') => format!("{day:2}"),
            Some('j') => number(day_of_year, 3),
            Some('H') => number(hour, 2),
            Some('I') => number(hour12, 2),
            Some('M') => number(minute, 2),
            Some('S') => number(second, 2),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.to_string(),
            Some('B') => name(&MONTHS, month - 1).to_string(),
            Some('b') => short(name(&MONTHS, month - 1)),
            Some('A') => name(&DAYS, days % 7).to_string(),
            Some('a') => short(name(&DAYS, days % 7)),
            Some('F') => format!("{year}-{month:02}-{day:02}"),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('%') => "%".to_string(),
            Some(other) => format!("%{other}"),
            None => "%".to_string(),
        });
    }
    out
}

/// Returns the year, the month, and the day of the month and of the year, all but the year from 1, `days` days after
/// the 1st of January 1970.
fn date(days: u64) -> (u64, u64, u64, u64) {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    // 400 years always have the same number of days.
    let (mut year, mut left) = (1970 + days / 146_097 * 400, days % 146_097);
    while left >= 365 + u64::from(is_leap(year)) {
        left -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let day_of_year = left + 1;
    for month in 1..=12 {
        let len = match month {
            2 => 28 + u64::from(is_leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if left < len {
            return (year, month, left + 1, day_of_year);
        }
        left -= len;
    }
    (year, 12, 31, day_of_year)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let long = "%A %a, %d %B %b %Y %y-%m-%d %j %H:%M:%S %I %p %% %Q %-d/%-m %F";
        assert_eq!(
            strftime(long, at(0)),
            "Thursday Thu, 01 January Jan 1970 70-01-01 001 00:00:00 12 AM % %Q 1/1 1970-01-01"
        );
        assert_eq!(strftime("%F %T %p %j %a", at(951_827_696)), "2000-02-29 12:34:56 PM 060 Tue");
        assert_eq!(strftime("%F %T %j %a", at(1_735_689_599)), "2024-12-31 23:59:59 366 Tue");
        assert_eq!(strftime("%F %a", at(4_107_542_400)), "2100-03-01 Mon");
        assert_eq!(strftime("%F%", at(253_402_300_799)), "9999-12-31%");
    }
}
