//! Conveniences that need an operating system (feature `std`): a thread pool, mapped files, an owned
//! engine.
//!
//! No other layer uses them, so a host may use its own.
//!
//! # Example
//!
//! A program opens a model, or says why it cannot:
//!
//! ```
//! use gleed::Limits;
//! use gleed::host::{OpenError, OwnedEngine};
//!
//! fn open(path: &str) -> Result<OwnedEngine, String> {
//!     let limits = Limits { context: 128, workers: 2, ..Limits::default() };
//!     OwnedEngine::open(path, &limits).map_err(|error| match error {
//!         OpenError::Io(error) => format!("{path} cannot be read: {error}"),
//!         OpenError::Model(error) => format!("{path} is no model that runs here: {error}"),
//!         other => other.to_string(),
//!     })
//! }
//!
//! # fn main() -> Result<(), String> {
//! let mut owned = open("examples/assets/gleed-tales-q8_0.gguf")?;
//! println!("{}", owned.plan());
//! assert_eq!(owned.with(|engine| engine.model().config().vocab), 1024);
//! for (path, problem) in [("nowhere.gguf", "cannot be read"), ("README.md", "is no model")] {
//!     assert!(open(path).is_err_and(|text| text.contains(problem)));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! With the feature `jinja`, a chat template writes a conversation for a model whose format the core does not know:
//!
//! ```
//! # #[cfg(feature = "jinja")] {
//! use gleed::host::{ChatTemplate, RenderOptions};
//! use gleed::turns::{Message, Role};
//!
//! let source = "{% for message in messages %}[{{ message.role }}] {{ message.content }}{{ eos_token }}\n{% endfor %}\
//!     {% if add_generation_prompt %}[assistant]{% endif %}";
//! let template = ChatTemplate::new(source, "<s>", "</s>").unwrap();
//! let messages = [Message { role: Role::User, text: "Who are you?" }];
//! let text = template.render(&messages, &RenderOptions { reply: true, ..RenderOptions::default() }).unwrap();
//! assert_eq!(text, "[user] Who are you?</s>\n[assistant]");
//!
//! // An error has the line of the template.
//! let error = ChatTemplate::new("{% for message in messages %}\n{% endif %}", "", "").unwrap_err();
//! assert_eq!(error.line(), Some(2), "{error}");
//! # }
//! ```

mod fork;
#[cfg(feature = "grammar")]
mod grammar;
mod mmap;
mod owned;
mod pool;
#[cfg(feature = "jinja")]
mod template;
mod turn;

#[cfg(feature = "grammar")]
pub use grammar::{OwnedGrammar, OwnedMatcher, OwnedTrie};
pub use mmap::MappedFile;
pub use owned::{AlignedBytes, OpenError, OwnedConversation, OwnedEngine, OwnedTokenizer};
pub use pool::{MAX_THREADS, ThreadPool};
#[cfg(feature = "jinja")]
pub use template::{ChatTemplate, RenderOptions, TemplateError, bounds as template_bounds};
