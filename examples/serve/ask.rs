//! Parses requests.

use gleed::sample::SamplerParams;
use gleed::turns::Role;
use serde_json::Value;

/// Text that says what is wrong with a request.
pub(crate) type Wrong = String;

pub(crate) struct Ask {
    pub(crate) begin: Begin,
    /// Most tokens of the answer; `None` means as many as fit the context.
    pub(crate) most: Option<usize>,
    pub(crate) sampling: SamplerParams,
    /// Biases that are added to the logits of tokens.
    pub(crate) biases: Vec<(u32, f32)>,
    /// Strings that end the answer.
    pub(crate) stops: Vec<String>,
    /// JSON Schema that the answer follows.
    pub(crate) schema: Option<String>,
    /// Whether the answer is sent as events. `counts`: whether one of the events counts tokens.
    pub(crate) streams: bool,
    pub(crate) counts: bool,
}

pub(crate) enum Begin {
    Text(String),
    Ids(Vec<u32>),
    Chat(Chat),
}

pub(crate) struct Chat {
    pub(crate) turns: Vec<Turn>,
    pub(crate) tools: Option<Offered>,
}

/// A message.
pub(crate) enum Turn {
    Said(Role, String),
    Called { text: String, calls: Vec<Called> },
    Result { id: String, text: String },
}

/// A call of a tool.
#[derive(Clone)]
pub(crate) struct Called {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Arguments in JSON.
    pub(crate) arguments: String,
}

/// Tools that the model may call.
pub(crate) struct Offered {
    /// List of tools in JSON.
    pub(crate) list: String,
    pub(crate) choice: Choice,
    pub(crate) parallel: bool,
}

pub(crate) enum Choice {
    Auto,
    Required,
    Named(String),
}

impl Ask {
    /// Returns whether the answer must be complete to be of use: it follows a schema or must contain a call.
    pub(crate) fn has_an_end(&self) -> bool {
        let must_call = self.offered().is_some_and(|offered| !matches!(offered.choice, Choice::Auto));
        self.schema.is_some() || must_call
    }

    /// Returns the tools that the model may call.
    pub(crate) fn offered(&self) -> Option<&Offered> {
        match &self.begin {
            Begin::Chat(chat) => chat.tools.as_ref(),
            _ => None,
        }
    }

    /// Parses a request to complete a text.
    pub(crate) fn completion(json: &Value, sampling: SamplerParams) -> Result<Self, Wrong> {
        refuse(json, &["suffix", "logprobs", "echo"])?;
        let begin = match &json["prompt"] {
            Value::String(text) => Begin::Text(text.clone()),
            Value::Array(ids) if ids.iter().all(Value::is_u64) => {
                let ids = ids.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()));
                Begin::Ids(ids.collect::<Option<_>>().ok_or("prompt has a number that is no token")?)
            }
            Value::Array(prompts) => match &prompts[..] {
                [Value::String(text)] => Begin::Text(text.clone()),
                _ => return Err("prompt must be one text, or a list of token ids".into()),
            },
            Value::Null => return Err("prompt is missing".into()),
            _ => return Err("prompt must be a text or a list of token ids".into()),
        };
        Self::with(begin, json, sampling, "max_tokens")
    }

    /// Parses a request to continue a conversation.
    pub(crate) fn chat(json: &Value, sampling: SamplerParams) -> Result<Self, Wrong> {
        refuse(json, &["logprobs", "functions", "audio", "web_search_options"])?;
        let messages = json["messages"].as_array().filter(|messages| !messages.is_empty());
        let messages = messages.ok_or("messages must be a list with at least one message")?;
        let turns: Vec<Turn> =
            messages.iter().enumerate().map(|(index, message)| turn(index, message)).collect::<Result<_, _>>()?;
        let tools = offered(json)?;
        let most = if json["max_completion_tokens"].is_null() { "max_tokens" } else { "max_completion_tokens" };
        let ask = Self::with(Begin::Chat(Chat { turns, tools }), json, sampling, most)?;
        match ask.offered() {
            Some(_) if ask.schema.is_some() => Err("response_format and tools cannot be used together".into()),
            _ => Ok(ask),
        }
    }

    fn with(begin: Begin, json: &Value, given: SamplerParams, most: &str) -> Result<Self, Wrong> {
        for name in ["n", "best_of"] {
            if !json[name].is_null() && json[name] != 1 {
                return Err(must_be(name, &json[name], "1"));
            }
        }
        let number = |name: &str, default: f32| match &json[name] {
            Value::Null => Ok(default),
            value => value.as_f64().map(|x| x as f32).ok_or_else(|| must_be(name, value, "a number")),
        };
        let sampling = SamplerParams {
            temperature: number("temperature", given.temperature)?,
            top_p: number("top_p", given.top_p)?,
            min_p: number("min_p", given.min_p)?,
            top_k: whole(json, "top_k", 0)?.unwrap_or(given.top_k),
            frequency_penalty: number("frequency_penalty", given.frequency_penalty)?,
            presence_penalty: number("presence_penalty", given.presence_penalty)?,
            seed: whole(json, "seed", 0)?.map_or(given.seed, |seed| seed as u64),
            ..given
        };
        let most = whole(json, most, 1)?;
        let stops = match &json["stop"] {
            Value::Null => Vec::new(),
            Value::String(text) => vec![text.clone()],
            Value::Array(texts) => {
                let texts = texts.iter().map(|text| text.as_str().map(str::to_owned));
                texts.collect::<Option<_>>().ok_or("stop must be a text or a list of texts")?
            }
            _ => return Err("stop must be a text or a list of texts".into()),
        };
        let streams = truth(json, "stream")?.unwrap_or(false);
        let counts = counts(&json["stream_options"])?;
        let (biases, schema) = (biases(json)?, schema(json)?);
        Ok(Self { begin, most, sampling, biases, stops, schema, streams, counts })
    }
}

/// Refuses members that would change the answer but are not supported.
fn refuse(json: &Value, names: &[&str]) -> Result<(), Wrong> {
    if !json.is_object() {
        return Err("the body must be a JSON object".into());
    }
    let is_set = |name: &&&str| match &json[**name] {
        Value::Null | Value::Bool(false) => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    names.iter().find(is_set).map_or(Ok(()), |name| Err(format!("{name} is not supported")))
}

/// Returns the error for a member whose value is not what it must be.
fn must_be(name: &str, value: &Value, what: &str) -> Wrong {
    /// Most bytes of a text that the error repeats.
    const SHOWN: usize = 60;
    let shown = match value {
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        Value::String(text) if text.len() > SHOWN => "a text".into(),
        value => value.to_string(),
    };
    format!("{name} is {shown}, it must be {what}")
}

fn whole(json: &Value, name: &str, least: u64) -> Result<Option<usize>, Wrong> {
    match &json[name] {
        Value::Null => Ok(None),
        value => match value.as_u64().filter(|number| *number >= least) {
            Some(number) => Ok(Some(usize::try_from(number).unwrap_or(usize::MAX))),
            None => Err(must_be(name, value, &format!("a whole number from {least} on"))),
        },
    }
}

fn truth(json: &Value, name: &str) -> Result<Option<bool>, Wrong> {
    match &json[name] {
        Value::Null => Ok(None),
        value => value.as_bool().map(Some).ok_or_else(|| must_be(name, value, "true or false")),
    }
}

/// Returns the elements of a list, or `None` if it is absent.
fn list<'j>(json: &'j Value, name: &str) -> Result<Option<&'j [Value]>, Wrong> {
    match &json[name] {
        Value::Null => Ok(None),
        Value::Array(members) => Ok(Some(members)),
        value => Err(must_be(name, value, "a list")),
    }
}

/// Returns whether one of the events counts tokens.
fn counts(options: &Value) -> Result<bool, Wrong> {
    match options {
        Value::Null => Ok(false),
        Value::Object(_) => {
            let counts = truth(options, "include_usage").map_err(|wrong| format!("stream_options.{wrong}"))?;
            Ok(counts.unwrap_or(false))
        }
        value => Err(must_be("stream_options", value, "an object")),
    }
}

/// Parses biases: numbers by the ids of tokens.
fn biases(json: &Value) -> Result<Vec<(u32, f32)>, Wrong> {
    /// The number that bans a token in this API.
    const BAN: f64 = -100.0;
    let biases = match &json["logit_bias"] {
        Value::Null => return Ok(Vec::new()),
        Value::Object(biases) => biases,
        _ => return Err("logit_bias must be an object: numbers by the ids of tokens".into()),
    };
    let bias = |(token, value): (&String, &Value)| {
        let token = token.parse().map_err(|_| format!("logit_bias: {token:?} is no token"))?;
        let value =
            value.as_f64().ok_or_else(|| format!("logit_bias: that of {token} is {value}, it must be a number"))?;
        Ok((token, if value <= BAN { f32::NEG_INFINITY } else { value as f32 }))
    };
    biases.iter().map(bias).collect()
}

fn schema(json: &Value) -> Result<Option<String>, Wrong> {
    let format = &json["response_format"];
    match format["type"].as_str() {
        None if format.is_null() => Ok(None),
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(r#"{"type":"object"}"#.into())),
        Some("json_schema") => match &format["json_schema"]["schema"] {
            schema @ (Value::Object(_) | Value::Bool(_)) => Ok(Some(schema.to_string())),
            _ => Err("response_format.json_schema.schema must be an object".into()),
        },
        _ if !format.is_object() => Err(must_be("response_format", format, "an object")),
        _ => Err("response_format.type must be text, json_object or json_schema".into()),
    }
}

fn offered(json: &Value) -> Result<Option<Offered>, Wrong> {
    let (choice, tools) = (&json["tool_choice"], list(json, "tools")?.filter(|tools| !tools.is_empty()));
    let parallel = truth(json, "parallel_tool_calls")?.unwrap_or(true);
    let allowed = &choice["allowed_tools"];
    let word = if allowed.is_null() { choice } else { &allowed["mode"] };
    let choice = match word.as_str() {
        Some("none") => return Ok(None),
        Some("auto") => Choice::Auto,
        Some("required") => Choice::Required,
        None if choice.is_null() => Choice::Auto,
        _ => match choice["function"]["name"].as_str() {
            Some(name) => Choice::Named(name.to_owned()),
            None => return Err("tool_choice must be none, auto, required, a function or allowed_tools".into()),
        },
    };
    let Some(tools) = tools else {
        return match choice {
            Choice::Auto => Ok(None),
            _ => Err("tool_choice asks for a call, but there are no tools".into()),
        };
    };
    let list = if allowed.is_null() { json["tools"].to_string() } else { chosen(tools, &allowed["tools"])? };
    Ok(Some(Offered { list, choice, parallel }))
}

/// Returns the tools that a choice allows, as a list in JSON.
fn chosen(tools: &[Value], allowed: &Value) -> Result<String, Wrong> {
    let find = |wanted: &Value| {
        let name =
            wanted["function"]["name"].as_str().ok_or("tool_choice.allowed_tools.tools has a tool without name")?;
        let tool = tools.iter().find(|tool| tool["function"]["name"] == name);
        tool.cloned().ok_or_else(|| format!("tool_choice.allowed_tools.tools: no tool has the name {name}"))
    };
    let allowed = allowed.as_array().filter(|allowed| !allowed.is_empty());
    let allowed = allowed.ok_or("tool_choice.allowed_tools.tools must be a list of tools")?;
    Ok(Value::Array(allowed.iter().map(find).collect::<Result<_, Wrong>>()?).to_string())
}

fn turn(index: usize, message: &Value) -> Result<Turn, Wrong> {
    if !message.is_object() {
        return Err(must_be(&format!("messages[{index}]"), message, "an object"));
    }
    let role = message["role"].as_str();
    let wrong = |what: Wrong| format!("messages[{index}].{what}");
    let text = content(&message["content"], role == Some("assistant")).map_err(wrong)?;
    match role {
        Some("system" | "developer") => Ok(Turn::Said(Role::System, text)),
        Some("user") => Ok(Turn::Said(Role::User, text)),
        Some("assistant") => match list(message, "tool_calls").map_err(wrong)? {
            None | Some([]) => Ok(Turn::Said(Role::Assistant, text)),
            Some(calls) => {
                let calls: Option<_> = calls.iter().map(called).collect();
                let calls = calls.ok_or_else(|| wrong("tool_calls has a call without id, name or arguments".into()))?;
                Ok(Turn::Called { text, calls })
            }
        },
        Some("tool") => match &message["tool_call_id"] {
            Value::Null => Err(wrong("tool_call_id is missing".into())),
            Value::String(id) => Ok(Turn::Result { id: id.clone(), text }),
            id => Err(wrong(must_be("tool_call_id", id, "a text"))),
        },
        _ => Err(wrong("role must be system, developer, user, assistant or tool".into())),
    }
}

/// Returns the text of a message.
fn content(content: &Value, may_be_none: bool) -> Result<String, Wrong> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let text: Option<String> = parts.iter().map(|part| part["text"].as_str()).collect();
            text.ok_or_else(|| "content has a part that is no text".into())
        }
        Value::Null if may_be_none => Ok(String::new()),
        _ => Err("content must be a text".into()),
    }
}

fn called(call: &Value) -> Option<Called> {
    let function = &call["function"];
    Some(Called {
        id: call["id"].as_str()?.to_owned(),
        name: function["name"].as_str()?.to_owned(),
        arguments: function["arguments"].as_str()?.to_owned(),
    })
}
