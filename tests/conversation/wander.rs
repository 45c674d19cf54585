//! A user who appends, edits, removes, regenerates, cuts, continues, branches, switches, saves and loads, at random.
//! After each change the logits are those of an engine that reads everything.

use super::*;
use common::synthetic::Architecture;
use gleed::{KvType, Window};

/// Settings of a random walk through changes.
#[derive(Clone, Copy)]
struct Way<'s> {
    turns: usize,
    keep: Keep<'s>,
    /// Whether the sequence can go back to any token.
    exact: bool,
}

/// One of several conversations that began as the same one.
struct Branch<'t> {
    talk: Conversation<'t>,
    messages: Vec<Said>,
    /// All tokens, including those that the sequence has forgotten.
    all: Vec<u32>,
}

/// Counts of changes by their number: 0 to 3 append, then edit, remove, regenerate, cut, close, branch and reload.
#[derive(Debug, Default)]
struct Done {
    changes: [usize; 11],
    left_out: usize,
    /// Number of rows that were computed.
    rows: usize,
    /// Number of rows that reading everything from the beginning takes.
    all_rows: usize,
}

fn words(rng: &mut Rng) -> String {
    const WORDS: [&str; 9] = ["Once", "a", "dog", "was", "happy.", "Why?", "said", "the\n\n", "bird's"];
    (0..1 + rng.below(9)).map(|_| WORDS[rng.below(9)]).collect::<Vec<_>>().join(" ")
}

/// Makes a change by a number from 0 to 10, and returns the number of the change that was made. 0 to 3 append. The
/// caller closes a branch for 8, makes one for 9, and saves and loads it for 10; these append, too.
fn change(messages: &mut Vec<Said>, choice: usize, rng: &mut Rng) -> usize {
    let at = rng.below(messages.len().max(1));
    let has_reply = messages.last().is_some_and(|(role, _)| *role == Role::Assistant);
    match choice {
        4 if !messages.is_empty() => messages[at].1 = words(rng),
        5 if messages.len() > 1 => drop(messages.remove(at)),
        // The last reply is generated again.
        6 if has_reply && messages.len() > 1 => drop(messages.pop()),
        // The last reply is cut, and continued from there.
        7 if has_reply => {
            let text = &mut messages.last_mut().unwrap().1;
            text.truncate((0..=text.len() / 2).rev().find(|&at| text.is_char_boundary(at)).unwrap());
        }
        _ => {
            messages.push((Role::User, words(rng)));
            return if choice < 8 { 0 } else { choice };
        }
    }
    choice
}

/// Updates a branch and compares its logits. Returns the entries that are left out.
fn read(
    host: &mut Host<'_, '_>,
    branch: &mut Branch<'_>,
    script: &Script<'_>,
    way: &Way<'_>,
    done: &mut Done,
) -> Range<usize> {
    let seq = branch.talk.seq();
    let (before, saved) = (branch.all.clone(), host.engine.metrics().saved.conversation);
    let entries = entries(&branch.messages);
    let new = branch.talk.update(&mut host.engine, script, &way.keep, &entries, &mut host.desk).unwrap();
    assert_eq!(new.position, host.engine.seq_len(seq).unwrap());
    let kept = host.engine.cache().computed(seq).unwrap();
    assert_eq!(host.engine.metrics().saved.conversation - saved, kept as u64);
    branch.all.truncate(new.position);
    branch.all.extend(new.tokens);
    let same = branch.all.iter().zip(&before).take_while(|(new, old)| new == old).count();
    if way.exact {
        assert_eq!(new.tokens.len(), branch.all.len() - same.min(branch.all.len() - 1));
    }
    done.rows += branch.all.len() - kept;
    done.all_rows += branch.all.len();
    let logits = host.engine.prefill(seq, new.tokens).unwrap().to_vec();
    let mut known = (0..branch.all.len()).filter_map(|at| Some((at, host.engine.cache().token(seq, at)?)));
    assert!(known.all(|(at, token)| branch.all[at] == token));
    let fresh = host.other.open().unwrap();
    assert!(host.other.prefill(fresh, &branch.all).unwrap() == logits);
    host.other.close(fresh).unwrap();
    new.left_out
}

/// Checks that the tokens are the text that the format writes, apart from white space. Nothing may be left out.
fn check_text(host: &Host<'_, '_>, branch: &Branch<'_>, script: &Script<'_>) {
    let without_space = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let text = rendered(script, &branch.messages);
    assert_eq!(without_space(&host.decode(&branch.all, true)), without_space(&text));
}

fn wander(host: &mut Host<'_, '_>, script: &Script<'_>, way: &Way<'_>, seed: u64) -> Done {
    let (mut rng, mut done, limits) = (Rng::new(seed), Done::default(), host.limits);
    let mut memory: Vec<_> = (0..=way.turns).map(|_| AlignedBytes::new(Conversation::plan(&limits).unwrap())).collect();
    let mut memory = memory.iter_mut();
    let first = host.talk(memory.next().unwrap());
    let mut branches = vec![Branch { talk: first, messages: Vec::new(), all: Vec::new() }];
    let mut current = 0;
    for _ in 0..way.turns {
        let choice = rng.below(11);
        if choice == 9 && branches.len() < 4 {
            let Branch { talk, messages, all } = &branches[current];
            let talk = talk.fork(&mut host.engine, memory.next().unwrap().bytes()).unwrap();
            branches.push(Branch { talk, messages: messages.clone(), all: all.clone() });
            current = branches.len() - 1;
        } else if choice == 8 && branches.len() > 1 {
            host.engine.close(branches.remove(current).talk.seq()).unwrap();
            current = rng.below(branches.len());
        } else if choice == 10 {
            let Branch { talk, messages, all } = &mut branches[current];
            *talk = host.reload(talk, messages, memory.next().unwrap());
            // Without a snapshot of the sequence, everything is read again.
            let len = host.engine.seq_len(talk.seq()).unwrap();
            assert!(len == all.len() || (len == 0 && !way.exact));
            all.truncate(len);
        } else if rng.below(4) == 0 {
            // Another conversation goes on.
            current = rng.below(branches.len());
        }
        let branch = &mut branches[current];
        done.changes[change(&mut branch.messages, choice, &mut rng)] += 1;
        let left_out = read(host, branch, script, way, &mut done);
        done.left_out += left_out.len();
        assert!(host.limits.tokens > 0 || branch.all.len() + way.keep.room <= CONTEXT);
        let continues = branch.messages.last().is_some_and(|(role, _)| *role == Role::Assistant);
        if left_out.is_empty() && !continues {
            check_text(host, branch, script);
        }
        let (reply, ids) = host.reply_ids(&branch.talk, &mut rng, 1 + choice * 2);
        branch.all.extend(ids);
        match branch.messages.last_mut() {
            Some((Role::Assistant, text)) => text.push_str(&reply),
            _ => branch.messages.push((Role::Assistant, reply)),
        }
    }
    branches.iter().for_each(|branch| host.engine.close(branch.talk.seq()).unwrap());
    host.engine.cache().check().unwrap();
    done
}

const SUMMARY: &Summary<'static> = &|left_out| {
    assert!(!left_out.is_empty());
    Ok(Some(Message { role: Role::User, text: "Some time passed." }))
};

/// Plays forty turns in each of several formats.
#[test]
fn turns_in_all_formats_at_random() {
    with_host(|host| {
        let wanders = |host: &mut Host<'_, '_>, script: &Script<'_>, seed: u64| {
            let summary = (seed == 2).then_some(SUMMARY);
            let keep = Keep { room: 40, first: seed as usize % 2, last: 1, target: 140, summary };
            wander(host, script, &Way { turns: 40, keep, exact: true }, seed);
        };
        for (seed, name) in
            [None, Some("vicuna"), Some("chatml"), Some("llama2"), Some("gemma")].into_iter().enumerate()
        {
            let format = name.map(|name| TurnFormat::named(name).unwrap());
            let script = Script { keeps_thoughts: true, ..Script::new(format, host.tokenizer) };
            wanders(host, &script, seed as u64);
        }
        let script = Script { template: Some(&Lines), bos: false, ..Script::new(None, host.tokenizer) };
        wanders(host, &script, 2);
    });
}

/// Plays two hundred turns with a model. They include each kind of change, and turns that are left out because the
/// context is full.
fn two_hundred_turns(name: &str, model: &[u8], limits: Limits, exact: bool) {
    with_model(model, limits, |host| {
        let format = TurnFormat::named("llama2");
        let script = Script { keeps_thoughts: true, ..Script::new(format, host.tokenizer) };
        let target = if host.limits.tokens > 0 { 500 } else { 140 };
        let keep = Keep { room: 40, first: 1, last: 1, target, summary: Some(SUMMARY) };
        let done = wander(host, &script, &Way { turns: 200, keep, exact }, 19);
        println!("{name}: {done:?}");
        assert!([0, 4, 5, 6, 7, 8, 9, 10].iter().all(|&kind| done.changes[kind] > 4), "{done:?}");
        assert!(done.left_out > 0 && done.rows < done.all_rows, "{done:?}");
    });
}

#[test]
fn two_hundred_turns_of_a_dense_model() {
    let limits = Limits { context: CONTEXT, sequences: 4, rows: 64, ..Limits::default() };
    two_hundred_turns("dense", FILE, limits, true);
}

/// Some layers have a window. Blocks that have left it are computed again if needed.
#[test]
fn two_hundred_turns_of_a_model_with_windows() {
    let model = SyntheticModel { hidden: 32, ffn: 64, vocab: 1024, ..SyntheticModel::of(Architecture::Gemma3) };
    let limits = Limits { context: CONTEXT, sequences: 4, rows: 24, ..Limits::default() };
    two_hundred_turns("windows in some layers", &model.bytes(), limits, false);
}

/// All layers have a window, so the sequence forgets tokens.
#[test]
fn two_hundred_turns_of_a_model_that_forgets() {
    let window = Window { sinks: 4, last: 40 };
    let limits = Limits { context: 64, sequences: 4, rows: 16, window, ..Limits::default() };
    two_hundred_turns("a window in all layers", FILE, limits, false);
}

/// Recurrent layers beside attention. Their states can go back only to checkpoints.
#[test]
fn two_hundred_turns_of_hybrid_models() {
    for architecture in [Architecture::Qwen35, Architecture::Lfm2] {
        let model =
            SyntheticModel { hidden: 32, ffn: 64, vocab: 1024, head_dim: 10, ..SyntheticModel::of(architecture) };
        let limits = Limits {
            context: CONTEXT,
            sequences: 4,
            rows: 24,
            kv_type: KvType::F32,
            checkpoints: 8,
            ..Limits::default()
        };
        two_hundred_turns(architecture.name(), &model.bytes(), limits, true);
    }
}
