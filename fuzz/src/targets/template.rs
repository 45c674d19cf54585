//! Any text as a chat template: it is refused, or it renders within its bounds. The text also goes to the function that
//! recognises turn formats.

use gleed::host::{ChatTemplate, RenderOptions};
use gleed::turns::{Message, Role, TurnFormat};

use crate::support::{Bytes, forbidden};

pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let kind = bytes.u8();
    let texts: Vec<(Role, String)> = (0..bytes.below(5))
        .map(|_| {
            let role = [Role::System, Role::User, Role::Assistant][bytes.below(3)];
            (role, String::from_utf8_lossy(&bytes.some(12)).into_owned())
        })
        .collect();
    let source = String::from_utf8_lossy(bytes.rest()).into_owned();
    std::hint::black_box(forbidden(|| TurnFormat::of_template(&source).is_some()));
    let template = match ChatTemplate::new(&source, "<s>", "</s>") {
        Ok(template) => template,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let messages: Vec<Message<'_>> = texts.iter().map(|(role, text)| Message { role: *role, text }).collect();
    let options = RenderOptions {
        reply: kind & 1 == 1,
        variables: (kind & 2 == 2).then_some(r#"{"tools":[{"a":1}],"x":null,"enable_thinking":false}"#),
        now: Some(std::time::UNIX_EPOCH),
    };
    if let Err(error) = template.render(&messages, &options) {
        assert!(!error.to_string().is_empty());
    }
}
