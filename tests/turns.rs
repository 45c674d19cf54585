//! Turn formats write the texts that transformers renders with the templates by which the formats are recognised.

use common::templates::Templates;
use gleed::turns::{Message, Piece, Role, TurnFormat, Turns};

/// Templates whose format has another name.
const OTHER_NAMES: [(&str, &str); 2] = [("llama3.2", "llama3.1"), ("gemma3", "gemma")];

/// Lines in first messages that formats leave out, because formats have no clock.
const DATES: [(&str, &str); 3] = [
    ("\nCurrent date: 2025-03-09<|system_end|>", "<|system_end|>"),
    ("Current date: 2025-03-09\n", ""),
    ("Today Date: 09 March 2025\n", ""),
];

/// Returns the reason why a format deliberately differs from a template, if it does.
fn exception(template: &str, messages: &[Message<'_>], reply: bool) -> Option<&'static str> {
    let has = |role| messages.iter().any(|message| message.role == role);
    let users = messages.iter().filter(|message| message.role == Role::User).count();
    let has_empty_reply = messages.iter().any(|message| message.role == Role::Assistant && message.text.is_empty());
    match template {
        "llama3.2" => Some("the system turn has today's date"),
        "granite3.1" | "granite3.3" if !has(Role::User) => {
            Some("the template opens the model's turn after other messages only")
        }
        "granite3.1" | "granite3.3" if !has(Role::System) => Some("the template's own system message has today's date"),
        "mistral-v7-tekken" if !has(Role::System) => Some("the template's own system message has today's date"),
        "mistral-v3" | "mistral-v3-tekken" if has(Role::System) && users > 1 => {
            Some("the template puts the system's message into the last turn of the user")
        }
        "seed-oss" if has_empty_reply => Some("the template does not end an empty turn of the assistant"),
        "exaone4" | "glm4.5" if has_empty_reply => Some("the template writes less of an empty turn of the assistant"),
        "harmony" if !reply && messages.last()?.role == Role::Assistant => {
            Some("the template ends the last turn of the assistant with another token")
        }
        "qwen3" | "minicpm5" | "qwen3.5" | "qwen3.5-small" | "nemotron-nano-v2"
            if !reply && messages.last()?.role == Role::Assistant =>
        {
            Some("the template writes an empty thought into the last turn of the assistant")
        }
        "llama2" | "gemma3" | "mistral-v1" | "mistral-v3" | "mistral-v3-tekken" if !has(Role::User) => {
            Some("the template leaves a system message out that no message of the user follows")
        }
        "deepseek-v3.1" if messages.last()?.role != Role::User && reply => {
            Some("the template opens the model's turn after the user's only")
        }
        _ => None,
    }
}

#[test]
fn every_format_has_a_template() {
    let templates = Templates::read();
    let mut found: Vec<&str> = Vec::new();
    for (name, source) in templates.all() {
        let format = TurnFormat::of_template(&source).map(TurnFormat::name);
        let other = OTHER_NAMES.iter().find(|(template, _)| *template == name);
        let expected = other.map_or(name, |(_, format)| format);
        assert_eq!(format, Some(expected).filter(|name| *name != "constructs"), "{name}");
        found.extend(format);
    }
    for format in TurnFormat::ALL {
        assert!(found.contains(&format.name()), "{format} has no template");
        assert_eq!(TurnFormat::named(format.name()), Some(format));
    }
    assert_eq!(TurnFormat::named("zebra"), None);
}

#[test]
fn formats_write_what_transformers_renders() {
    let templates = Templates::read();
    let (mut same, mut wrong) = (0, Vec::new());
    for (name, source) in templates.all() {
        let Some(format) = TurnFormat::of_template(&source) else { continue };
        for case in templates.cases(name) {
            let (Some(messages), Some(expected)) = (case.messages(), case.expected) else { continue };
            let mut text = String::new();
            format.write(&messages, case.reply(), ("<s>", "</s>"), &mut text).unwrap();
            let expected = DATES.iter().fold(expected.to_owned(), |text, (date, without)| text.replace(date, without));
            if (text == expected) == exception(name, &messages, case.reply()).is_some() {
                wrong.push(format!("{name}, {}, {}:\n{text:?}\n{expected:?}", case.title, case.json));
            } else {
                same += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), wrong.len() + same, wrong.join("\n"));
}

/// Returns the text of pieces.
fn text<'t>(pieces: impl Iterator<Item = Piece<'t>>) -> String {
    pieces.map(|piece| piece.text("<s>", "</s>")).collect()
}

#[test]
fn turns_are_appended() {
    let say = |role, text| Message { role, text };
    let system = say(Role::System, "Be brief.");
    let talk = [
        say(Role::User, "Hi"),
        say(Role::Assistant, "Hello!"),
        say(Role::User, "How are you?"),
        say(Role::Assistant, "Fine."),
    ];
    for format in TurnFormat::ALL {
        let (mut turns, mut all) = (Turns::new(format), String::new());
        let mut whole = vec![system];
        all += &text(turns.add(system));
        for pair in talk.chunks(2) {
            // The text before the reply is the template's, and the reply is appended to it.
            all += &text(turns.add(pair[0]));
            all += &text(turns.reply());
            whole.push(pair[0]);
            let mut expected = String::new();
            format.write(&whole, true, ("<s>", "</s>"), &mut expected).unwrap();
            // This ignores the blanks that templates put around given replies, and a thought that they open.
            let bare = |text: &str| {
                let text = text.replace("<|assistant|>\n", "<|assistant|>");
                [
                    "</s>",
                    " ",
                    "<think>\n\n</think>\n\n",
                    "<think></think>\n",
                    "<think></think>",
                    "<think>\n",
                    "<think>",
                    "</think>",
                    "<|channel>thought\n<channel|>",
                    "<|channel|>final<|message|>",
                ]
                .iter()
                .fold(text, |text, part| text.replace(part, ""))
            };
            assert_eq!(bare(&all), bare(&expected), "{format}");
            all += &text(turns.add(pair[1]));
            whole.push(pair[1]);
        }

        // The next turn closes a reply that the model has written, also after the conversation was loaded.
        let mut loaded = Turns::after_reply(format);
        let mut turns = Turns::new(format);
        turns.add(talk[0]);
        turns.reply();
        assert_eq!(text(turns.reply()), "", "{format}");
        assert_eq!(text(turns.add(talk[2])), text(loaded.add(talk[2])), "{format}");
    }
}

#[test]
fn a_conversation_goes_on_after_a_message_of_any_role() {
    for format in TurnFormat::ALL {
        for role in [Role::System, Role::User, Role::Assistant] {
            for next in [Role::System, Role::User, Role::Assistant] {
                let (mut turns, mut loaded) = (Turns::new(format), Turns::after_message(format, role));
                turns.add(Message { role, text: "Hi" });
                let message = Message { role: next, text: "Ho" };
                assert_eq!(text(turns.add(message)), text(loaded.add(message)), "{format} {role:?} {next:?}");
                assert_eq!(text(turns.reply()), text(loaded.reply()), "{format} {role:?} {next:?}");
            }
        }
    }
}

#[test]
fn formats_say_what_a_host_needs() {
    let named = |name| TurnFormat::named(name).unwrap();
    assert_eq!(named("gemma").stops(), ["<end_of_turn>"]);
    assert!(named("llama2").writes_bos() && named("gemma").writes_bos() && !named("qwen2").writes_bos());
    assert_eq!(named("qwen2").default_system(), Some("You are a helpful assistant."));
    assert_eq!(named("chatml").to_string(), "chatml");
    // A template's own message is text of the format, in which names of special tokens have a meaning.
    let own = Piece::Frame(named("ministral3-reasoning").default_system().unwrap());
    let pieces = Turns::new(named("ministral3-reasoning")).add(Message { role: Role::User, text: "Hi" });
    assert!(pieces.clone().any(|piece| piece == own) && pieces.clone().any(|piece| piece == Piece::Text("Hi")));
}
