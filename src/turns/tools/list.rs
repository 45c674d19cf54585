//! The list of tools at the start of a conversation.

use super::super::pieces::{At, Frame, piece};
use super::super::{Message, Piece};
use super::{Offer, Put, ToolTurns, definitions, gemma, namespace, python, spaced, tags, typed};
use crate::tools::{Tool, Tools, json};

/// How the tools of a list are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// Each tool in a line, after a line end.
    Lines,
    /// Each tool in a line, before a line end.
    LinesAfter,
    /// Each tool in a line, after a line end, without the object with `type` and `function` around it.
    FunctionLines,
    /// Each tool in a line, between tags.
    Tagged,
    /// An array.
    Array,
    /// An array with one line for each tool.
    ArrayLines,
    /// An array of tools without the objects with `type` and `function` around them.
    Functions,
    /// An array, indented by 4.
    Indented,
    /// Each tool indented by 4, with an empty line after it.
    IndentedEach,
    /// Declarations of Gemma with these marks.
    Gemma(&'static gemma::Marks),
    /// Types of TypeScript in a namespace.
    Namespace,
    /// Each tool with the signature of a Python function in its description.
    Signatures,
    /// Each tool as Python prints it, with a line end after it.
    Python,
    /// Each tool in tags, with tags for its arguments and their descriptions.
    Tags,
    /// As `Tags`, with the members of descriptions in their order.
    TagsInOrder,
    /// Each tool under a heading, without the object around the function.
    Headings,
    /// Each tool in a block of Markdown.
    Blocks,
    /// Definitions of functions in Python.
    Definitions,
    /// Types of TypeScript, one in a line.
    Typed,
}

impl ToolTurns<'_> {
    /// Writes the start of a conversation: the system turn and the list of tools, unless the list belongs to the user's
    /// turn.
    pub(super) fn offer<E>(&mut self, system: Option<&str>, put: Put<'_, E>) -> Result<(), E> {
        let (tools, format) = (self.format, self.turns.format());
        let text = system.filter(|text| !(text.is_empty() && format.system.skips_empty));
        frame(tools.start.unwrap_or(format.start), put)?;
        // A system message that is part of the user's turn comes after the list.
        let is_joined = format.system.user.is_some();
        if tools.offer == Offer::BeforeSystem || is_joined {
            self.list(put)?;
        }
        let default = tools.default.or(format.system.default);
        let is_inside = matches!(tools.offer, Offer::InSystem(..) | Offer::BeforeText(_));
        if text.is_some() || default.is_some() || is_inside {
            frame(tools.before_system.unwrap_or(format.system.turn.before), put)?;
            self.system_text(text, default, put)?;
            let is_default = text.is_none() && !is_inside;
            let after = if is_default { format.system.default_after } else { format.system.turn.after };
            frame(tools.after_system.unwrap_or(after), put)?;
        }
        if tools.offer == Offer::AfterSystem && !is_joined {
            self.list(put)?;
        }
        self.is_offered = tools.offer != Offer::InUser;
        self.turns.stands(if is_joined && text.is_some() { At::System } else { At::User });
        Ok(())
    }

    /// Writes the start of a conversation without a system message, if nothing has been written.
    pub(super) fn offer_without_system<E>(&mut self, put: Put<'_, E>) -> Result<(), E> {
        if self.turns.at() == At::Start {
            self.offer(None, put)?;
        }
        self.is_offered = true;
        Ok(())
    }

    fn system_text<E>(&self, text: Option<&str>, default: Option<&str>, put: Put<'_, E>) -> Result<(), E> {
        let trim = self.turns.format().system.turn.trim;
        let text = text.map(|text| Piece::Text(trim.apply(text))).or(default.map(Piece::Frame));
        let is_there = |text: &Piece<'_>| !text.text("", "").is_empty();
        match self.format.offer {
            Offer::InSystem(head, joint) => {
                if let Some(text) = text.filter(is_there) {
                    frame(head, put)?;
                    put(text)?;
                    frame(joint, put)?;
                }
                self.list(put)
            }
            Offer::BeforeText(joint) => {
                self.list(put)?;
                match text.filter(is_there) {
                    Some(text) => {
                        frame(joint, put)?;
                        put(text)
                    }
                    None => Ok(()),
                }
            }
            _ => text.map_or(Ok(()), put),
        }
    }

    /// Writes the first message of the user, with the list of tools in formats that have it there.
    pub(super) fn user<E>(&mut self, message: Message<'_>, put: Put<'_, E>) -> Result<(), E> {
        if self.format.offer != Offer::InUser {
            return self.turns.add(message).try_for_each(put);
        }
        let user = self.turns.format().user;
        frame(user.before, put)?;
        self.list(put)?;
        put(Piece::Text(user.trim.apply(message.text)))?;
        frame(user.after, put)?;
        self.turns.stands(At::User);
        Ok(())
    }

    fn list<E>(&self, put: Put<'_, E>) -> Result<(), E> {
        frame(self.format.before, put)?;
        self.format.list.write(self.tools, put)?;
        frame(self.format.after, put)
    }
}

impl List {
    fn write<E>(self, tools: Tools<'_>, put: Put<'_, E>) -> Result<(), E> {
        let mut put: Put<'_, E> = put;
        let (open, between, close) = match self {
            Self::Array | Self::Functions => ("[", ", ", "]"),
            Self::ArrayLines => ("[", ",\n", "]"),
            Self::Indented => ("[\n    ", ",\n    ", "\n]"),
            Self::Signatures | Self::Typed => ("", "\n", ""),
            _ => ("", "", ""),
        };
        put(Piece::Text(open))?;
        for (index, tool) in tools.iter().enumerate() {
            put(Piece::Text(if index == 0 { "" } else { between }))?;
            self.tool(&tool, &mut put)?;
        }
        put(Piece::Text(close))
    }

    fn tool<E>(self, tool: &Tool<'_>, put: Put<'_, E>) -> Result<(), E> {
        match self {
            Self::Lines => {
                put(Piece::Text("\n"))?;
                wrapped(tool, put)
            }
            Self::FunctionLines => {
                put(Piece::Text("\n"))?;
                spaced::json(tool.function(), put)
            }
            Self::LinesAfter => {
                wrapped(tool, put)?;
                put(Piece::Text("\n"))
            }
            Self::Tagged => {
                put(Piece::Text("<tool>"))?;
                wrapped(tool, put)?;
                put(Piece::Text("</tool>\n"))
            }
            Self::Array | Self::ArrayLines => wrapped(tool, put),
            Self::Functions => spaced::json(tool.function(), put),
            Self::Indented => indented(tool, 1, put),
            Self::IndentedEach => {
                indented(tool, 0, put)?;
                put(Piece::Text("\n\n"))
            }
            Self::Gemma(marks) => marks.declaration(tool, put),
            Self::Namespace => namespace::function(tool, put),
            Self::Signatures => spaced::signature(tool, put),
            Self::Python => {
                python::tool(tool, put)?;
                put(Piece::Text("\n"))
            }
            Self::Tags => tags::function(tool, false, put),
            Self::TagsInOrder => tags::function(tool, true, put),
            Self::Headings => heading(tool, put),
            Self::Definitions => definitions::function(tool, put),
            Self::Typed => typed::function(tool, put),
            Self::Blocks => {
                put(Piece::Text("\n```json\n"))?;
                wrapped(tool, put)?;
                put(Piece::Text("\n```\n"))
            }
        }
    }
}

/// Writes a heading `### N`, the description and the parameters.
fn heading<E>(tool: &Tool<'_>, put: Put<'_, E>) -> Result<(), E> {
    put(Piece::Text("### "))?;
    put(Piece::Text(tool.name()))?;
    put(Piece::Text("\nDescription: "))?;
    spaced::plain(json::member(tool.function(), "description").and_then(json::string).unwrap_or_default(), put)?;
    put(Piece::Text("\n\nParameters: "))?;
    spaced::json(tool.parameters().unwrap_or("{}"), put)?;
    put(Piece::Text("\n\n"))
}

/// Writes a tool in an object with its type, as templates receive it.
fn wrapped<E>(tool: &Tool<'_>, put: Put<'_, E>) -> Result<(), E> {
    if tool.is_wrapped() {
        return spaced::json(tool.json(), put);
    }
    put(Piece::Text("{\"type\": \"function\", \"function\": "))?;
    spaced::json(tool.json(), put)?;
    put(Piece::Text("}"))
}

fn indented<E>(tool: &Tool<'_>, depth: usize, put: Put<'_, E>) -> Result<(), E> {
    if tool.is_wrapped() {
        return spaced::indented(tool.json(), depth, put);
    }
    let line = |depth, put: Put<'_, E>| spaced::line(depth, put);
    put(Piece::Text("{"))?;
    line(depth.saturating_add(1), put)?;
    put(Piece::Text("\"type\": \"function\","))?;
    line(depth.saturating_add(1), put)?;
    put(Piece::Text("\"function\": "))?;
    spaced::indented(tool.json(), depth.saturating_add(1), put)?;
    line(depth, put)?;
    put(Piece::Text("}"))
}

/// Passes the pieces of a frame to `put`.
pub(super) fn frame<E>(frame: Frame, put: Put<'_, E>) -> Result<(), E> {
    let mut at = 0;
    while let Some((piece, next)) = piece(frame, at) {
        put(piece)?;
        at = next;
    }
    Ok(())
}
