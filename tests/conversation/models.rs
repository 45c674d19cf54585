//! Conversations with recurrent models, and with models that forget tokens.

use super::*;
use common::synthetic::Architecture;
use gleed::{KvType, Window};

/// Returns the number of rows that the next prefill computes: rows of new tokens, and rows behind a restored state.
fn rows(host: &Host<'_, '_>, talk: &Conversation<'_>, tokens: usize) -> usize {
    let seq = talk.seq();
    host.engine.seq_len(seq).unwrap() - host.engine.cache().computed(seq).unwrap() + tokens
}

/// Updates a conversation and reads its new tokens. Returns the number of computed rows.
fn computed(host: &mut Host<'_, '_>, talk: &mut Conversation<'_>, script: &Script<'_>, messages: &[Said]) -> usize {
    let new = talk.update(&mut host.engine, script, &Keep::ALL, &entries(messages), &mut host.desk).unwrap();
    let tokens = new.tokens.to_vec();
    let rows = rows(host, talk, tokens.len());
    let logits = host.engine.prefill(talk.seq(), &tokens).unwrap().to_vec();
    let seq = host.other.open().unwrap();
    assert!(host.other.prefill(seq, &host.ids(talk.seq())).unwrap() == logits);
    host.other.close(seq).unwrap();
    rows
}

/// Calls `run` with a model of each kind of recurrent layer.
fn with_states(checkpoints: usize, run: impl Fn(&mut Host<'_, '_>)) {
    for architecture in [Architecture::Lfm2, Architecture::Qwen35, Architecture::GraniteHybrid, Architecture::FalconH1]
    {
        let model =
            SyntheticModel { hidden: 32, ffn: 64, vocab: 1024, head_dim: 10, ..SyntheticModel::of(architecture) };
        let limits =
            Limits { context: LONGEST, sequences: 2, rows: 24, kv_type: KvType::F32, checkpoints, ..Limits::default() };
        with_model(&model.bytes(), limits, |host| run(host));
    }
}

#[test]
fn recurrent_models_compute_the_last_turn_again_and_nothing_before() {
    with_states(2, |host| {
        let script = Script::new(TurnFormat::named("llama2"), host.tokenizer);
        let mut memory = AlignedBytes::new(Conversation::plan(&host.limits).unwrap());
        let (mut talk, mut rng) = (host.talk(&mut memory), Rng::new(7));
        let mut messages: Vec<Said> = Vec::new();
        let mut end = 0;
        for turn in 0..20 {
            end = host.engine.seq_len(talk.seq()).unwrap();
            messages.push((Role::User, format!("{turn}?")));
            let read = computed(host, &mut talk, &script, &messages);
            assert_eq!(end + read, host.engine.seq_len(talk.seq()).unwrap());
            host.reply(&talk, &mut rng, 5);

            // The same question again: only its last token, which the reply follows, is computed.
            assert_eq!(computed(host, &mut talk, &script, &messages), 1);
            host.reply(&talk, &mut rng, 3);

            // The question in other words: the whole turn is computed.
            messages.last_mut().unwrap().1 = format!("{turn}!");
            let read = computed(host, &mut talk, &script, &messages);
            assert_eq!(end + read, host.engine.seq_len(talk.seq()).unwrap());
            let reply = host.reply(&talk, &mut rng, 4);
            messages.push((Role::Assistant, reply));
        }
        // A loaded conversation can repeat its last reply, and its last turn.
        let mut memory = [(); 2].map(|()| AlignedBytes::new(Conversation::plan(&host.limits).unwrap()));
        let [first, second] = &mut memory;
        let mut talk = host.reload(&talk, &messages, first);
        messages.pop();
        assert_eq!(computed(host, &mut talk, &script, &messages), 1);
        let reply = host.reply(&talk, &mut rng, 4);
        messages.push((Role::Assistant, reply));
        let mut talk = host.reload(&talk, &messages, second);
        messages.truncate(messages.len() - 2);
        messages.push((Role::User, "How?".to_owned()));
        let read = computed(host, &mut talk, &script, &messages);
        assert_eq!(end + read, host.engine.seq_len(talk.seq()).unwrap());
        let reply = host.reply(&talk, &mut rng, 4);
        messages.push((Role::Assistant, reply));
        // It can also continue at its end.
        let end = host.engine.seq_len(talk.seq()).unwrap();
        messages.push((Role::User, "Why?".to_owned()));
        let read = computed(host, &mut talk, &script, &messages);
        assert_eq!(end + read, host.engine.seq_len(talk.seq()).unwrap());
    });
}

#[test]
fn branches_of_recurrent_models_go_back_as_far() {
    with_states(4, |host| {
        let script = Script::new(TurnFormat::named("llama2"), host.tokenizer);
        let mut memory = [(); 2].map(|()| AlignedBytes::new(Conversation::plan(&host.limits).unwrap()));
        let [first, second] = &mut memory;
        let (mut talk, mut rng) = (host.talk(first), Rng::new(7));
        let mut messages: Vec<Said> = Vec::new();
        let mut end = 0;
        for turn in 0..4 {
            end = host.engine.seq_len(talk.seq()).unwrap();
            messages.push((Role::User, format!("{turn}?")));
            computed(host, &mut talk, &script, &messages);
            let reply = host.reply(&talk, &mut rng, 5);
            messages.push((Role::Assistant, reply));
        }
        let fork = talk.fork(&mut host.engine, second.bytes()).unwrap();
        let mut both = [(fork, messages.clone(), "Why?"), (talk, messages, "Who?")];
        // The last reply again, and its turn in other words.
        for (talk, messages, words) in &mut both {
            messages.truncate(7);
            assert_eq!(computed(host, talk, &script, messages), 1);
            host.reply(talk, &mut rng, 3);
            messages.last_mut().unwrap().1 = words.to_string();
            let read = computed(host, talk, &script, messages);
            assert_eq!(end + read, host.engine.seq_len(talk.seq()).unwrap());
            let reply = host.reply(talk, &mut rng, 4);
            messages.push((Role::Assistant, reply));
        }
        // Each branch continues with another turn.
        for (talk, messages, words) in &mut both {
            let before = host.engine.seq_len(talk.seq()).unwrap();
            messages.push((Role::User, words.to_string()));
            let read = computed(host, talk, &script, messages);
            assert_eq!(before + read, host.engine.seq_len(talk.seq()).unwrap());
        }
        // Closing a branch frees its checkpoints.
        both.iter().for_each(|(talk, ..)| host.engine.close(talk.seq()).unwrap());
        assert_eq!(host.engine.metrics().slots_used, 0);
        host.engine.cache().check().unwrap();
    });
}

/// Tests a conversation in a window that has passed most of it. `keeps` says whether the conversation keeps the tokens.
fn through_a_window(keeps: bool) {
    let window = Window { sinks: 4, last: 40 };
    with_model(FILE, Limits { context: 64, sequences: 2, rows: 16, window, ..Limits::default() }, |host| {
        assert_eq!(host.limits.tokens, LONGEST);
        host.limits.tokens = if keeps { LONGEST } else { 0 };
        let script = Script::new(TurnFormat::named("llama2"), host.tokenizer);
        let mut memory = [(); 2].map(|()| AlignedBytes::new(Conversation::plan(&host.limits).unwrap()));
        let [first, second] = &mut memory;
        let (mut talk, mut rng) = (host.talk(first), Rng::new(7));
        // All tokens, including those that the sequence has forgotten.
        let (mut messages, mut all): (Vec<Said>, Vec<u32>) = (Vec::new(), Vec::new());
        let read = |host: &mut Host<'_, '_>, talk: &mut Conversation<'_>, messages: &[Said], all: &mut Vec<u32>| {
            let before = host.engine.seq_len(talk.seq()).unwrap();
            all.extend((all.len()..before).map(|at| host.engine.cache().token(talk.seq(), at).unwrap()));
            let new = talk.update(&mut host.engine, &script, &Keep::ALL, &entries(messages), &mut host.desk).unwrap();
            all.truncate(new.position);
            all.extend(new.tokens);
            let logits = host.engine.prefill(talk.seq(), new.tokens).unwrap().to_vec();
            let seq = host.other.open().unwrap();
            assert!(host.other.prefill(seq, all).unwrap() == logits);
            host.other.close(seq).unwrap();
            (before, new.position)
        };
        let mut again = 0;
        for turn in 0..9 {
            messages.push((Role::User, format!("Why, {turn}?")));
            let (before, position) = read(host, &mut talk, &messages, &mut all);
            // Either nothing is read again, or everything behind the first tokens, which stay visible.
            assert!(position == before || position <= 16);
            again += usize::from(position != before);
            let reply = host.reply(&talk, &mut rng, 7);
            messages.push((Role::Assistant, reply));
        }
        assert!(all.len() > 150 && if keeps { again == 0 } else { again > 3 }, "{again}");

        // An early message changes, so everything is read again, with the replies in their own tokens.
        let before = all.clone();
        messages[2].1.push('!');
        messages.push((Role::User, "So?".to_owned()));
        assert!(read(host, &mut talk, &messages, &mut all).1 <= 16);
        let middle = &before[100..150];
        assert!(all.windows(50).any(|ids| ids == middle) || !keeps);

        // The saved conversation has no keys and values.
        let reply = host.reply(&talk, &mut rng, 7);
        messages.push((Role::Assistant, reply));
        let mut talk = host.reload(&talk, &messages, second);
        assert_eq!(host.engine.seq_len(talk.seq()), Ok(0));
        let before = all.clone();
        all.clear();
        messages.push((Role::User, "And?".to_owned()));
        assert_eq!(read(host, &mut talk, &messages, &mut all), (0, 0));
        assert!(all.starts_with(&before) || !keeps);
    });
}

#[test]
fn what_a_window_has_forgotten_is_known() {
    through_a_window(true);
}

#[test]
fn what_nobody_knows_is_read_again() {
    through_a_window(false);
}
