//! Tools for a model in a conversation: reads the list, and runs the two built-in tools.

use gleed::tools::{Call, Tools};
use serde_json::Value;

use super::calculator::calculate;
use super::random::Random;

/// The list of tools for `--tools builtin`.
pub const BUILTIN: &str = r#"[
  {"type": "function", "function": {"name": "calculator", "description": "Calculates the value of an arithmetic expression",
    "parameters": {"type": "object", "properties": {"expression": {"type": "string",
      "description": "Numbers, + - * / % ^, parentheses, pi, e, sqrt, abs, round, floor, ceil, sin, cos, tan, ln, exp"}},
      "required": ["expression"]}}},
  {"type": "function", "function": {"name": "dice", "description": "Rolls dice and returns what each of them shows",
    "parameters": {"type": "object", "properties": {
      "count": {"type": "integer", "description": "How many dice, 1 to 100"},
      "sides": {"type": "integer", "description": "Sides of each, 2 to 1000"}}, "required": ["count", "sides"]}}}
]"#;

/// Returns the list of tools that a flag names.
pub fn list(flag: &str) -> Result<String, String> {
    match flag {
        "builtin" => Ok(BUILTIN.to_owned()),
        file => std::fs::read_to_string(file).map_err(|error| format!("--tools {file}: {error}")),
    }
}

/// What the program does with a call.
pub enum Outcome {
    /// Run the tool with these arguments, in JSON. They have been checked against the tool's parameters.
    Run(String),
    /// The call cannot be run. The model gets this text as its result.
    Result(String),
}

/// Checks whether a call can be run.
pub fn check(call: &Call<'_>, tools: &Tools<'_>) -> Outcome {
    let (tool, mut json) = (tools.find(call.name), String::new());
    if call.arguments.write_json(tool.as_ref(), &mut json).is_err() {
        return Outcome::Result("error: the arguments cannot be written".to_owned());
    }
    match tool.map_or(Ok(()), |tool| tool.check(&json).map_err(|error| format!("error: {error}"))) {
        Ok(()) => Outcome::Run(json),
        Err(error) => Outcome::Result(error),
    }
}

/// Runs a built-in tool and returns its result, or `None` if the tool is not built in.
pub fn run(name: &str, json: &str, random: &mut Random) -> Option<String> {
    let arguments: Value = serde_json::from_str(json).unwrap_or_default();
    let result = match name {
        "calculator" => calculate(arguments["expression"].as_str().unwrap_or_default()).map(|value| value.to_string()),
        "dice" => roll(&arguments, random),
        _ => return None,
    };
    Some(result.unwrap_or_else(|error| format!("error: {error}")))
}

fn roll(arguments: &Value, random: &mut Random) -> Result<String, String> {
    let number = |name: &str, range: std::ops::RangeInclusive<u64>| {
        let given = arguments[name].as_f64().map(|value| value as u64);
        given
            .filter(|value| range.contains(value))
            .ok_or_else(|| format!("{name} is {}, it must be {} to {}", arguments[name], range.start(), range.end()))
    };
    let (count, sides) = (number("count", 1..=100)?, number("sides", 2..=1000)?);
    let shown: Vec<String> = (0..count).map(|_| (random.draw() % sides + 1).to_string()).collect();
    Ok(shown.join(", "))
}
