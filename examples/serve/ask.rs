//! What a request asks for.

use gleed::sample::SamplerParams;
use gleed::turns::Role;
use serde_json::Value;

/// What is wrong with a request.
pub(crate) type Wrong = String;

pub(crate) struct Ask {
    pub(crate) begin: Begin,
    /// The most tokens of the answer; as many as the context has room for.
    pub(crate) most: Option<usize>,
    pub(crate) sampling: SamplerParams,
    /// What is added to the logits of tokens.
    pub(crate) biases: Vec<(u32, f32)>,
    /// Strings that end the answer.
    pub(crate) stops: Vec<String>,
    /// A JSON Schema that the answer follows.
    pub(crate) schema: Option<String>,
    /// Whether the answer comes as events, and whether one of them counts tokens.
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
    /// In JSON.
    pub(crate) arguments: String,
}

/// Tools that the model may call.
pub(crate) struct Offered {
    /// The list in JSON.
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
    /// Whether the answer is of no use if it is cut off: it follows a schema, or has to have a call.
    pub(crate) fn has_an_end(&self) -> bool {
        let must_call = match &self.begin {
            Begin::Chat(Chat { tools: Some(offered), .. }) => !matches!(offered.choice, Choice::Auto),
            _ => false,
        };
        self.schema.is_some() || must_call
    }

    /// A request to complete a text.
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

    /// A request to go on with a conversation.
    pub(crate) fn chat(json: &Value, sampling: SamplerParams) -> Result<Self, Wrong> {
        refuse(json, &["logprobs", "functions", "audio", "web_search_options"])?;
        let messages = json["messages"].as_array().filter(|messages| !messages.is_empty());
        let messages = messages.ok_or("messages must be a list with at least one message")?;
        let turns: Vec<Turn> =
            messages.iter().enumerate().map(|(index, message)| turn(index, message)).collect::<Result<_, _>>()?;
        let tools = offered(json)?;
        let most = if json["max_completion_tokens"].is_null() { "max_tokens" } else { "max_completion_tokens" };
        let ask = Self::with(Begin::Chat(Chat { turns, tools }), json, sampling, most)?;
        match &ask.begin {
            Begin::Chat(Chat { tools: Some(_), .. }) if ask.schema.is_some() => {
                Err("response_format and tools cannot be used together".into())
            }
            _ => Ok(ask),
        }
    }

    fn with(begin: Begin, json: &Value, given: SamplerParams, most: &str) -> Result<Self, Wrong> {
        for name in ["n", "best_of"] {
            if !json[name].is_null() && json[name] != 1 {
                return Err(format!("{name} is {}, it must be 1", json[name]));
            }
        }
        let number = |name: &str, default: f32| match &json[name] {
            Value::Null => Ok(default),
            value => value.as_f64().map(|x| x as f32).ok_or(format!("{name} is {value}, it must be a number")),
        };
        let sampling = SamplerParams {
            temperature: number("temperature", given.temperature)?,
            top_p: number("top_p", given.top_p)?,
            min_p: number("min_p", given.min_p)?,
            top_k: whole(json, "top_k")?.unwrap_or(given.top_k),
            frequency_penalty: number("frequency_penalty", given.frequency_penalty)?,
            presence_penalty: number("presence_penalty", given.presence_penalty)?,
            seed: whole(json, "seed")?.map_or(given.seed, |seed| seed as u64),
            ..given
        };
        let most = match whole(json, most)? {
            Some(0) => return Err(format!("{most} is 0, it must be at least 1")),
            most => most,
        };
        let stops = match &json["stop"] {
            Value::Null => Vec::new(),
            Value::String(text) => vec![text.clone()],
            Value::Array(texts) => {
                let texts = texts.iter().map(|text| text.as_str().map(str::to_owned));
                texts.collect::<Option<_>>().ok_or("stop must be a text or a list of texts")?
            }
            _ => return Err("stop must be a text or a list of texts".into()),
        };
        let streams = json["stream"].as_bool().unwrap_or(false);
        let counts = json["stream_options"]["include_usage"].as_bool().unwrap_or(false);
        let (biases, schema) = (biases(json)?, schema(json)?);
        Ok(Self { begin, most, sampling, biases, stops, schema, streams, counts })
    }
}

/// Refuses what would change the answer and is not there.
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

fn whole(json: &Value, name: &str) -> Result<Option<usize>, Wrong> {
    match &json[name] {
        Value::Null => Ok(None),
        value => match value.as_u64() {
            Some(number) => Ok(Some(number as usize)),
            None => Err(format!("{name} is {value}, it must be a whole number from 0 on")),
        },
    }
}

/// Numbers by the ids of tokens.
fn biases(json: &Value) -> Result<Vec<(u32, f32)>, Wrong> {
    /// In this API the number that bans a token.
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
        _ => Err("response_format.type must be text, json_object or json_schema".into()),
    }
}

fn offered(json: &Value) -> Result<Option<Offered>, Wrong> {
    let (choice, tools) = (&json["tool_choice"], json["tools"].as_array().filter(|tools| !tools.is_empty()));
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
    let parallel = json["parallel_tool_calls"].as_bool().unwrap_or(true);
    Ok(Some(Offered { list, choice, parallel }))
}

/// The tools that a choice allows, as a list.
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
    let wrong = |what: &str| format!("messages[{index}].{what}");
    let calls = message["tool_calls"].as_array().filter(|calls| !calls.is_empty());
    let text = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().map(|part| part["text"].as_str());
            let text: Option<String> = texts.collect();
            text.ok_or_else(|| wrong("content has a part that is no text"))?
        }
        Value::Null if calls.is_some() => String::new(),
        _ => return Err(wrong("content must be a text")),
    };
    match message["role"].as_str() {
        Some("system" | "developer") => Ok(Turn::Said(Role::System, text)),
        Some("user") => Ok(Turn::Said(Role::User, text)),
        Some("assistant") => match calls {
            None => Ok(Turn::Said(Role::Assistant, text)),
            Some(calls) => {
                let calls = calls.iter().map(|call| {
                    let function = &call["function"];
                    Some(Called {
                        id: call["id"].as_str()?.to_owned(),
                        name: function["name"].as_str()?.to_owned(),
                        arguments: function["arguments"].as_str()?.to_owned(),
                    })
                });
                let calls: Option<_> = calls.collect();
                Ok(Turn::Called {
                    text,
                    calls: calls.ok_or_else(|| wrong("tool_calls has a call without id, name or arguments"))?,
                })
            }
        },
        Some("tool") => {
            let id = message["tool_call_id"].as_str().ok_or_else(|| wrong("tool_call_id is missing"))?;
            Ok(Turn::Result { id: id.to_owned(), text })
        }
        _ => Err(wrong("role must be system, developer, user, assistant or tool")),
    }
}
