//! Chat templates in Jinja are rendered as transformers renders them (`tests/data/templates`), to the byte.

use std::time::{Duration, UNIX_EPOCH};

use common::templates::Templates;
use gleed::host::{ChatTemplate, RenderOptions};
use gleed::turns::{Message, Role, TurnFormat};

/// Time at which the script made the expected texts: 2025-03-09 07:05.
const NOW: u64 = 1_741_503_900;

#[test]
fn templates_give_what_transformers_gives() {
    let templates = Templates::read();
    let mut count = 0;
    for (name, source) in templates.all() {
        let template = ChatTemplate::new(&source, "<s>", "</s>").unwrap();
        for case in templates.cases(name) {
            let options = RenderOptions {
                variables: Some(case.json),
                now: Some(UNIX_EPOCH + Duration::from_secs(NOW)),
                ..RenderOptions::default()
            };
            let rendered = template.render(&[], &options);
            assert_eq!(rendered.as_deref().ok(), case.expected, "{name}, {}: {rendered:?}", case.title);
            // The conversation as messages gives the same text.
            if let Some(messages) = case.messages() {
                let options = RenderOptions { reply: case.reply(), variables: None, ..options };
                assert_eq!(template.render(&messages, &options), rendered, "{name}, {}", case.title);
            }
            count += 1;
        }
    }
    assert!(count > 500, "{count}");
}

#[test]
fn long_conversations_are_within_the_bounds() {
    let text = "All work and no play makes Jack a dull boy. ".repeat(100);
    let roles = [Role::User, Role::Assistant];
    let messages: Vec<Message<'_>> = (0..500).map(|turn| Message { role: roles[turn % 2], text: &text }).collect();
    let short = &messages[..4];
    for (name, source) in Templates::read().all() {
        // This template writes only a part of each text.
        if name == "constructs" {
            continue;
        }
        let template = ChatTemplate::new(&source, "<s>", "</s>").unwrap();
        let render = |messages: &[Message<'_>]| template.render(messages, &RenderOptions::default());
        if render(short).is_ok() {
            let rendered = render(&messages).map(|rendered| rendered.len());
            assert!(rendered.as_ref().is_ok_and(|&len| len >= 200 * text.len()), "{name}: {rendered:?}");
        }
    }
}

#[test]
fn formats_are_checked_against_templates() {
    let templates = Templates::read();
    // Templates for which the two differ in an ordinary conversation.
    let different = [
        "smollm3",
        "mistral-v3",
        "mistral-v3-tekken",
        "llama3.2",
        "granite3.1",
        "granite3.3",
        "mistral-v7-tekken",
        "harmony",
        "apertus",
    ];
    for (name, source) in templates.all() {
        let template = ChatTemplate::new(&source, "<s>", "</s>").unwrap();
        let Some(format) = TurnFormat::of_template(&source) else { continue };
        assert_eq!(template.agrees_with(format), !different.contains(&name), "{name}");
    }
    let template = ChatTemplate::new(&templates.all().next().unwrap().1, "", "").unwrap();
    assert!(!template.agrees_with(TurnFormat::named("zephyr").unwrap()));
}
