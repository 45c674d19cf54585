//! Reads schemas and instances. The instances become texts that a grammar of the schema can write.

use serde_json::{Map, Value};

use crate::Result;

/// A schema, and valid instances of it.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) schema: Value,
    /// The instances as JSON, with a blank after each comma and colon. Members are in the order of the schema.
    pub(crate) texts: Vec<String>,
}

/// Takes every `every`-th schema that has a valid instance.
pub(crate) fn read(text: &str, every: usize, instances: usize) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()).step_by(every) {
        let row: Value = serde_json::from_str(line)?;
        let schema = &row["schema"];
        let tests = row["tests"].as_array().ok_or("a line without tests")?;
        let valid = tests.iter().filter(|test| test["valid"] == true).take(instances);
        let texts: Vec<String> = valid.map(|test| spaced(&ordered(&test["data"], schema, schema))).collect();
        if !texts.is_empty() {
            let name = row["name"].as_str().ok_or("a line without a name")?.to_owned();
            cases.push(Case { name, schema: schema.clone(), texts });
        }
    }
    Ok(cases)
}

/// Returns the instance with the members of its objects in the order of the schema: first `properties`, then other
/// required members, then the rest.
fn ordered(data: &Value, schema: &Value, root: &Value) -> Value {
    let mut parts = Vec::new();
    collect(schema, root, 8, &mut parts);
    match data {
        Value::Object(members) => {
            let declared = parts.iter().filter_map(|part| part["properties"].as_object()).flat_map(Map::keys);
            let required = parts.iter().filter_map(|part| part["required"].as_array()).flatten();
            let names = declared.map(String::as_str).chain(required.filter_map(Value::as_str));
            let mut result = Map::new();
            for name in names.chain(members.keys().map(String::as_str)) {
                let Some(value) = members.get(name).filter(|_| !result.contains_key(name)) else { continue };
                let of = |part: &&Value| part["properties"].get(name).or(part.get("additionalProperties")).cloned();
                let schema = parts.iter().find_map(of).unwrap_or(Value::Null);
                result.insert(name.to_owned(), ordered(value, &schema, root));
            }
            Value::Object(result)
        }
        Value::Array(items) => {
            let schema = parts.iter().find_map(|part| part.get("items")).unwrap_or(&Value::Null);
            Value::Array(items.iter().map(|item| ordered(item, schema, root)).collect())
        }
        other => other.clone(),
    }
}

/// Collects the schema and the schemas that it refers to.
fn collect<'v>(schema: &'v Value, root: &'v Value, depth: usize, parts: &mut Vec<&'v Value>) {
    if depth == 0 {
        return;
    }
    parts.push(schema);
    let target = schema["$ref"].as_str().and_then(|target| root.pointer(target.strip_prefix('#')?));
    target.into_iter().for_each(|target| collect(target, root, depth - 1, parts));
    for name in ["allOf", "anyOf", "oneOf"] {
        schema[name].as_array().into_iter().flatten().for_each(|part| collect(part, root, depth - 1, parts));
    }
}

/// Writes JSON as Python's `json.dumps` does.
fn spaced(value: &Value) -> String {
    let list = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Object(members) => {
            let member =
                |(name, value): (&String, &Value)| format!("{}: {}", Value::from(name.as_str()), spaced(value));
            format!("{{{}}}", list(members.iter().map(member).collect()))
        }
        Value::Array(items) => format!("[{}]", list(items.iter().map(spaced).collect())),
        other => other.to_string(),
    }
}
