//! `$ref`: which schema of the document is meant.

use heapless::Vec;

use super::Schemas;
use crate::grammar::dom::{Kind, Node};
use crate::grammar::json::DEPTH;
use crate::grammar::scratch::Result;

/// The most bytes of a reference.
const LENGTH: usize = 512;
type Text = Vec<u8, LENGTH>;

impl Schemas<'_, '_, '_, '_> {
    /// Returns the schema to which the value of a `$ref` refers.
    pub(super) fn reference(&mut self, node: Node) -> Result<Node> {
        self.survey();
        // Most references are pointers in a document that is one resource. Other references look at all objects of the
        // document.
        let is_pointer = self.dom.bytes(self.scratch, node).starts_with(b"#/");
        if self.kept.has_resources || !is_pointer {
            self.scratch.spend(self.kept.objects_read);
        }
        let target = self.text_of(node).and_then(|text| {
            let split = text.iter().position(|byte| *byte == b'#').unwrap_or(text.len());
            let (base, fragment) = text.split_at_checked(split)?;
            let resource = if base.is_empty() { self.resource_of(node) } else { self.resource(base)? };
            self.fragment(resource, fragment.get(1..).unwrap_or(&[]))
        });
        match target {
            Some(target) => Ok(target),
            None => self.refused("$ref", self.dom.name_at(self.scratch, node)),
        }
    }

    /// Returns the bytes of a string, if there are at most [`LENGTH`].
    fn text_of(&self, node: Node) -> Option<Text> {
        if self.dom.kind(self.scratch, node) != Kind::String {
            return None;
        }
        let mut text = Text::new();
        for char in self.dom.chars(self.scratch, node) {
            let mut bytes = [0; 4];
            text.extend_from_slice(char::from_u32(char)?.encode_utf8(&mut bytes).as_bytes()).ok()?;
        }
        Some(text)
    }

    /// Counts the objects of the document, once, and looks for resources in it.
    fn survey(&mut self) {
        if self.kept.objects_read > 0 {
            return;
        }
        let (mut objects, mut has_resources) = (1, false);
        self.visit(self.kept.root, &mut |schemas, node| {
            objects += 1;
            has_resources |= node != schemas.kept.root && schemas.is_resource(node);
        });
        (self.kept.objects_read, self.kept.has_resources) = (objects, has_resources);
        self.scratch.spend(objects);
    }

    /// Returns whether a schema has an `$id` that is no anchor.
    fn is_resource(&self, node: Node) -> bool {
        let id = self.dom.member(self.scratch, node, "$id");
        id != 0 && self.text_of(id).is_some_and(|id| !id.starts_with(b"#"))
    }

    /// Returns the innermost schema with an `$id` around a node, or the root.
    fn resource_of(&self, node: Node) -> Node {
        if !self.kept.has_resources {
            return self.kept.root;
        }
        let place = self.dom.range(self.scratch, node).0;
        let mut found = self.kept.root;
        self.visit(self.kept.root, &mut |schemas, node| {
            let (from, to) = schemas.dom.range(schemas.scratch, node);
            if schemas.is_resource(node) && (from..to).contains(&place) {
                found = node;
            }
        });
        found
    }

    /// Returns the schema whose `$id` is the base of a reference.
    fn resource(&self, base: &[u8]) -> Option<Node> {
        let root = self.text_of(self.dom.member(self.scratch, self.kept.root, "$id")).unwrap_or_default();
        let folder = root.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let folder = root.get(..folder)?;
        let mut found = None;
        self.visit(self.kept.root, &mut |schemas, node| {
            let id = schemas.dom.member(schemas.scratch, node, "$id");
            let Some(id) = schemas.text_of(id).filter(|_| id != 0) else { return };
            let id = id.strip_suffix(b"#").unwrap_or(&id);
            // Both texts are relative to the document, and can have its folder in front.
            let short = |text: &[u8]| text.strip_prefix(folder).map_or(text.len(), <[u8]>::len);
            let (a, b) = (id.len() - short(id).min(id.len()), base.len() - short(base).min(base.len()));
            if id.get(a..) == base.get(b..) {
                found = found.or(Some(node));
            }
        });
        found
    }

    /// Returns the schema that a pointer or an anchor names within a resource.
    fn fragment(&self, resource: Node, fragment: &[u8]) -> Option<Node> {
        if fragment.is_empty() {
            return Some(resource);
        }
        let Some(pointer) = fragment.strip_prefix(b"/") else { return self.anchor(resource, fragment) };
        let mut node = resource;
        for token in pointer.split(|byte| *byte == b'/') {
            let token = unescaped(token)?;
            node = match self.dom.kind(self.scratch, node) {
                Kind::Object => self.member_named(node, &token),
                Kind::Array => self.element_at(node, &token),
                _ => 0,
            };
            if node == 0 {
                return None;
            }
        }
        Some(node)
    }

    fn member_named(&self, object: Node, name: &[u8]) -> Node {
        let Ok(name) = core::str::from_utf8(name) else { return 0 };
        self.dom.member(self.scratch, object, name)
    }

    fn element_at(&self, array: Node, index: &[u8]) -> Node {
        let digits = !index.is_empty() && index.iter().all(u8::is_ascii_digit);
        let value = |value: u32, digit: &u8| value.saturating_mul(10).saturating_add(u32::from(digit & 15));
        let index = if digits { index.iter().fold(0, value) } else { u32::MAX };
        let mut child = self.dom.child(self.scratch, array);
        for _ in 0..index {
            if child == 0 {
                break;
            }
            child = self.dom.next(self.scratch, child);
        }
        child
    }

    fn anchor(&self, resource: Node, name: &[u8]) -> Option<Node> {
        let mut found = None;
        self.visit(resource, &mut |schemas, node| {
            let anchor = schemas.text_of(schemas.dom.member(schemas.scratch, node, "$anchor"));
            let id = schemas.text_of(schemas.dom.member(schemas.scratch, node, "$id"));
            let id = id.as_ref().and_then(|id| id.strip_prefix(b"#"));
            if anchor.is_some_and(|anchor| anchor == name) || id == Some(name) {
                found = found.or(Some(node));
            }
        });
        found
    }

    /// Calls a function with each object from a node on, outer objects first.
    fn visit(&self, node: Node, found: &mut dyn FnMut(&Self, Node)) {
        let (mut at, mut outside) = (node, Vec::<Node, DEPTH>::new());
        loop {
            if self.dom.kind(self.scratch, at) == Kind::Object {
                found(self, at);
            }
            let child = self.dom.child(self.scratch, at);
            // The text is not nested deeper than `DEPTH`.
            if child != 0 && outside.push(at).is_ok() {
                at = child;
                continue;
            }
            loop {
                let Some(parent) = outside.last().copied() else { return };
                let next = self.dom.next(self.scratch, at);
                if next != 0 {
                    at = next;
                    break;
                }
                outside.pop();
                at = parent;
            }
        }
    }
}

/// Undoes the escapes of a pointer in a URI.
fn unescaped(token: &[u8]) -> Option<Text> {
    let mut result = Text::new();
    let mut rest = token;
    while let [byte, after @ ..] = rest {
        let (value, after) = match (byte, after) {
            (b'%', [high, low, after @ ..]) => (crate::grammar::json::hex(&[*high, *low])? as u8, after),
            (b'~', [b'0', after @ ..]) => (b'~', after),
            (b'~', [b'1', after @ ..]) => (b'/', after),
            _ => (*byte, after),
        };
        result.push(value).ok()?;
        rest = after;
    }
    Some(result)
}
