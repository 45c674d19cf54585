//! Tests of texts and conversations, of what ends them, and of what keeps them.

use super::*;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/assets/gleed-tales-q8_0.gguf");

fn session(tokens: usize, context: usize) -> Session {
    let limits = Limits { context, ..SessionOptions::default().limits };
    Session::with(DEMO, SessionOptions { tokens, limits, ..SessionOptions::default() }).unwrap()
}

fn whole(pieces: Pieces<'_>) -> String {
    pieces.collect::<Result<String, _>>().unwrap()
}

#[test]
fn a_text_is_the_same_each_time_and_ends_for_a_reason() {
    let mut session = session(30, 128);
    let story = whole(session.tell("Once upon a time").unwrap());
    assert_eq!(session.end(), Some(End::Tokens));
    session.ask("Who?").unwrap().next();
    assert_eq!(whole(session.tell("Once upon a time").unwrap()), story);
    session.options.tokens = 1000;
    assert!(whole(session.tell("Once upon a time").unwrap()).starts_with(&story));
    assert!(matches!(session.end(), Some(End::Context | End::Model)));
}

#[test]
fn a_text_is_cancelled_by_another_thread() {
    let mut session = session(30, 512);
    let canceller = session.canceller();
    let mut pieces = session.tell("Once upon a time").unwrap();
    let piece = pieces.next().unwrap().unwrap();
    canceller.cancel();
    assert!(!piece.is_empty() && pieces.next().is_none());
    drop(pieces);
    assert_eq!(session.end(), Some(End::Cancelled));
    session.ask("Who?").unwrap().take(2).for_each(drop);
    let (heard, said) = (session.tokens(), session.messages().count());
    // Now while a long prompt is read.
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                canceller.cancel();
                std::thread::yield_now();
            }
        });
        let error = session.ask(&"the dog and the cat ".repeat(60)).unwrap_err();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(matches!(error, SessionError::Cancelled));
    });
    assert_eq!((session.tokens(), session.messages().count()), (heard, said));
    assert!(!whole(session.ask("And then?").unwrap()).is_empty());
}

#[test]
fn an_answer_is_not_read_again() {
    let mut session = session(12, 512);
    let answer = whole(session.ask("Tell me of a dog.").unwrap());
    let before = session.tokens();
    session.ask("And then?").unwrap().take(2).for_each(drop);
    let question = session.tokens() - before;
    assert!(question < 12, "{question} tokens for a short question and two of an answer");
    let said: Vec<_> = session.messages().map(|(role, text)| (role, text.to_owned())).collect();
    assert_eq!((said.len(), &said[1]), (4, &(Role::Assistant, answer)));
    // Two turns dropped early are in the messages as far as they were read.
    assert!(!said[3].1.is_empty());
}

#[test]
fn what_was_saved_goes_on_as_it_would_have() {
    let place = |name: &str| std::env::temp_dir().join(std::format!("gleed-{}-{name}", std::process::id()));
    let (saved, cut) = (place("saved"), place("cut"));
    let mut one = session(12, 512);
    whole(one.ask("Tell me of a dog.").unwrap());
    one.save(&saved).unwrap();
    let (tokens, next) = (one.tokens(), whole(one.ask("And then?").unwrap()));

    let mut other = session(12, 512);
    whole(other.ask("A cat?").unwrap());
    let before: Vec<_> = other.messages().map(|(_, text)| text.to_owned()).collect();
    let (heard, bytes) = (other.tokens(), std::fs::read(&saved).unwrap());
    // A file that is cut in its head, one with damaged keys and values, one that does not exist, one that exceeds the
    // context.
    std::fs::write(&cut, &bytes[..100]).unwrap();
    assert!(matches!(other.load(&cut), Err(SessionError::Conversation(_))));
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    std::fs::write(&cut, damaged).unwrap();
    assert!(other.load(&cut).is_err());
    assert!(matches!(other.load(place("nowhere")), Err(SessionError::File { .. })));
    assert!(session(4, 16).load(&saved).is_err());
    assert_eq!(before, other.messages().map(|(_, text)| text.to_owned()).collect::<Vec<_>>());
    assert_eq!(other.tokens(), heard);

    other.load(&saved).unwrap();
    assert_eq!((other.tokens(), other.messages().count()), (tokens, 2));
    assert_eq!(whole(other.ask("And then?").unwrap()), next);
    assert_eq!(other.messages().nth(3), Some((Role::Assistant, next.as_str())));
    assert!(!place("saved.tmp").exists());
    std::fs::remove_file(saved).and_then(|()| std::fs::remove_file(cut)).unwrap();
}

#[test]
fn a_text_ends_before_a_string() {
    let mut session = session(60, 512);
    let story = whole(session.tell("Once upon a time").unwrap());
    let (at, stop) = (story.find("girl").unwrap(), ["zebra", "girl"]);
    assert_eq!(whole(session.tell("Once upon a time").unwrap().until(&stop).unwrap()), story[..at]);
    assert_eq!(session.end(), Some(End::Stop));
    // Text that could have begun a stop string is shown in the end.
    let almost = std::format!("{}zebra", &story[story.len() - 4..]);
    assert_eq!(whole(session.tell("Once upon a time").unwrap().until(&[&almost]).unwrap()), story);
    assert_eq!(session.end(), Some(End::Tokens));
    assert!(matches!(session.tell("Once").unwrap().until(&[""]), Err(SessionError::Stop(_))));

    session.clear().unwrap();
    let answer = whole(session.ask("Tell me of a dog.").unwrap());
    let stop = answer.split_whitespace().nth(2).unwrap().to_owned();
    session.clear().unwrap();
    let cut = whole(session.ask("Tell me of a dog.").unwrap().until(&[&stop]).unwrap());
    assert!(answer.starts_with(&cut) && cut.len() < answer.len() && !cut.contains(&stop), "{cut}");
    assert_eq!(session.messages().nth(1), Some((Role::Assistant, cut.as_str())));
    whole(session.ask("And then?").unwrap());
}

#[cfg(feature = "grammar")]
#[test]
fn a_text_follows_a_grammar() {
    use crate::grammar::Source;
    let mut session = session(40, 512);
    let schema = br#"{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},
        "required":["name","age"],"additionalProperties":false}"#;
    for tokens in [40, 24] {
        session.options.tokens = tokens;
        let json = whole(session.ask("Who are you?").unwrap().follow(Source::Schema(schema)).unwrap());
        assert!(json.starts_with('{') && json.ends_with('}') && json.contains("\"age\""), "{json}");
        assert_eq!(session.end(), Some(End::Complete));
    }
    let regex = Source::Regex(b" (the|a) (dog|cat) (ran|sat)[.]");
    let line = whole(session.tell("Once").unwrap().follow(regex).unwrap().until(&["."]).unwrap());
    assert!(line.starts_with(" the ") || line.starts_with(" a "), "{line}");
    assert_eq!((line.split(' ').count(), session.end()), (4, Some(End::Stop)));
    let error = session.tell("Once").unwrap().follow(Source::Schema(br#"{"not":{}}"#)).unwrap_err();
    assert_eq!(std::format!("{error}"), "not at byte 1 is not supported");
    let tools = crate::grammar::Calls::new(b"[]", crate::tools::CallFormat::Hermes);
    assert!(session.tell("Once").unwrap().follow(Source::Tools(tools)).is_err());
    // The context ends the text, too.
    let mut small = self::session(1000, 24);
    let json = whole(small.tell("Once upon a time").unwrap().follow(Source::Schema(schema)).unwrap());
    assert!(json.ends_with('}') && small.end() == Some(End::Complete), "{json}");
}

#[test]
fn the_oldest_turns_give_way_and_what_cannot_fit_is_refused() {
    let mut session = session(20, 96);
    for _ in 0..8 {
        whole(session.ask("Tell me of a dog and of a cat.").unwrap());
        assert!(session.tokens() <= 96);
    }
    let before: Vec<_> = session.messages().map(|(_, text)| text.to_owned()).collect();
    let error = session.ask(&"a dog ".repeat(200)).unwrap_err();
    assert!(matches!(error, SessionError::Conversation(_)), "{error}");
    assert_eq!(before, session.messages().map(|(_, text)| text.to_owned()).collect::<Vec<_>>());
    assert!(session.tell(&"a dog ".repeat(200)).is_err());
    assert_eq!((before.len(), session.tokens()), (16, 0));
}
