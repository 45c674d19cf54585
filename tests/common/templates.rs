//! Chat templates, and the texts that transformers renders with them (`tests/data/templates`).

use gleed::turns::{Message, Role};
use serde_json::Value;

use super::root;

pub struct Templates {
    data: Value,
}

/// A conversation, and the text that a template makes of it.
pub struct Case<'c> {
    pub title: &'c str,
    /// All input of the template, as JSON in its original order.
    pub json: &'c str,
    conversation: Value,
    /// The rendered text, or `None` if the template refuses the conversation.
    pub expected: Option<&'c str>,
}

fn file(name: &str) -> String {
    let path = root().join("tests/data/templates").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl Templates {
    pub fn read() -> Self {
        Self { data: serde_json::from_str(&file("expected.json")).unwrap() }
    }

    /// Returns name and source of each template.
    pub fn all(&self) -> impl Iterator<Item = (&str, String)> {
        let names = self.data["expected"].as_object().unwrap().keys();
        names.map(|name| (name.as_str(), file(&format!("{name}.jinja"))))
    }

    pub fn cases<'c>(&'c self, template: &str) -> impl Iterator<Item = Case<'c>> {
        let expected = &self.data["expected"][template];
        let conversations = self.data["conversations"].as_object().unwrap().iter();
        conversations.map(|(title, json)| {
            let json = json.as_str().unwrap();
            let conversation = serde_json::from_str(json).unwrap();
            Case { title, json, conversation, expected: expected[title].as_str() }
        })
    }
}

impl Case<'_> {
    pub fn reply(&self) -> bool {
        self.conversation["add_generation_prompt"].as_bool().unwrap()
    }

    /// Returns the messages, if the conversation consists of nothing else.
    pub fn messages(&self) -> Option<Vec<Message<'_>>> {
        let messages = self.conversation["messages"].as_array().unwrap();
        let is_plain = self.conversation.as_object().unwrap().len() == 2;
        is_plain
            .then(|| {
                messages
                    .iter()
                    .map(|message| Message { role: role(&message["role"]), text: message["content"].as_str().unwrap() })
            })
            .map(Iterator::collect)
    }
}

fn role(name: &Value) -> Role {
    let roles = [Role::System, Role::User, Role::Assistant];
    roles.into_iter().find(|role| Some(role.name()) == name.as_str()).unwrap()
}
