//! Conversations in files, in the format of `docs/conversation.md`.

use std::borrow::ToOwned;
use std::path::{Path, PathBuf};
use std::vec;
use std::vec::Vec;

use super::{Session, SessionError, entries};
use crate::conversation::{ConversationError, Entry, Saved};
use crate::host::OwnedConversation;

impl Session {
    /// Writes the conversation to a file: its messages, and the keys and values of what the model has read of them.
    ///
    /// # Errors
    /// [`SessionError`]. A file that existed before is unchanged then.
    pub fn save(&mut self, path: impl AsRef<Path>) -> Result<(), SessionError> {
        let (path, bytes) = (path.as_ref(), self.bytes()?);
        let mut beside = path.as_os_str().to_owned();
        beside.push(".tmp");
        let beside = PathBuf::from(beside);
        let written = std::fs::write(&beside, bytes).and_then(|()| std::fs::rename(&beside, path));
        written.map_err(|error| {
            let _ = std::fs::remove_file(&beside);
            SessionError::file(path, error)
        })
    }

    /// Goes on with a conversation that was saved with the same model. The session forgets what it wrote or heard
    /// before.
    ///
    /// # Errors
    /// [`SessionError`] if the file is damaged, of another model, or longer than this session's context. The session is
    /// as before then.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), SessionError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|error| SessionError::file(path, error))?;
        if Saved::read(&bytes)?.entries().any(|entry| !matches!(entry, Entry::Message(_))) {
            return Err(SessionError::ToolResults);
        }
        // The engine has room for one sequence. The present one gives way, and is restored if the other one cannot be
        // loaded.
        let before = self.bytes()?;
        self.engine.with(|engine| engine.close(self.seq))?;
        if let Err(error) = self.restore(&bytes) {
            self.restore(&before)?;
            return Err(error);
        }
        self.end = None;
        Ok(())
    }

    /// Returns the conversation as bytes.
    fn bytes(&mut self) -> Result<Vec<u8>, SessionError> {
        let entries = entries(&self.messages);
        let bytes = self.engine.with(|engine| {
            self.conversation.with(|conversation| {
                let mut bytes = vec![0; conversation.saved_len(engine, &entries)?];
                conversation.save(engine, &entries, &mut bytes)?;
                Ok::<_, ConversationError>(bytes)
            })
        });
        Ok(bytes?)
    }

    /// Loads the conversation that these bytes are. No sequence may be open.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        let sizes = self.sizes;
        let (conversation, saved) = self.engine.with(|engine| OwnedConversation::load(engine, bytes, &sizes))?;
        self.messages = saved
            .entries()
            .filter_map(|entry| match entry {
                Entry::Message(message) => Some((message.role, message.text.to_owned())),
                _ => None,
            })
            .collect();
        (self.seq, self.conversation) = (conversation.seq(), conversation);
        Ok(())
    }
}
