//! Chat templates with what transformers renders of them (`tests/data/templates`).

use gleed::turns::{Message, Role};
use serde_json::Value;

use super::root;

pub struct Templates {
    data: Value,
}

/// A conversation and what a template makes of it.
pub struct Case<'c> {
    pub title: &'c str,
    /// Everything that the template is given, as JSON in its original order.
    pub json: &'c str,
    conversation: Value,
    /// `None`: the template refuses it.
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

    /// Name and source of each template.
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

    /// The messages, if they and nothing else make the conversation.
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
