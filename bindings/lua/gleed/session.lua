-- A session: a text or a conversation.
local ffi = require "ffi"
local core = require "gleed.core"
local new, cast = ffi.new, ffi.cast
local lib, constants, E, out, check, refuse, struct = core.lib, core.constants, core.E, core.out, core.check, core.refuse, core.struct
local place, grow, array, allocate, release = core.place, core.grow, core.array, core.allocate, core.release
local conversation = require "gleed.conversation"

local SAVED = ffi.typeof "struct { uint64_t sampler; uint32_t after, last; }"
local Session = {}
Session.__index = Session

local function sampler(self)
    check(lib.gleed_sampler_size(out.size, out.align, E))
    local params = struct("gleed_sampler_params", self.options.sampler)
    self.sampler, self.sampler_memory = place("gleed_sampler", function(memory, size, object)
        check(lib.gleed_sampler_init(params, memory, size, object, E))
    end)
end

-- Makes a session for the open sequence `seq` of an engine. If that fails, the sequence is closed.
local function join(shared, seq, options)
    local self = setmetatable({ shared = shared, seq = seq, options = options, own = {}, todo = {}, ids = {}, messages = {}, out = "", reason = "end" }, Session)
    local is_made, why = pcall(sampler, self)
    if not is_made then
        check(lib.gleed_seq_close(shared.engine, seq, E))
        error(why, 0)
    end
    shared.sessions[seq] = self
    shared.model.users = shared.model.users + 1
    return self
end

local function live(self)
    return self.shared or refuse("GLEED_E_OBJECT", "this session has been closed")
end

-- Returns the number of tokens in the sequence.
local function length(self)
    local info = struct "gleed_seq_info"
    check(lib.gleed_seq_describe(live(self).engine, self.seq, info, E))
    return info.tokens
end

local function queue(self)
    self.before = length(self)
    check(lib.gleed_queue(self.shared.engine, self.seq, array(self.todo), #self.todo, lib.GLEED_LOGITS_LAST, E))
    self.queued = true
end

-- Takes queued tokens that are not computed back from the engine into `todo`.
local function settle(self)
    if not self.queued then return end
    check(lib.gleed_cancel(self.shared.engine, self.seq, E))
    local rest, done = {}, length(self) - self.before
    for i = done + 1, #self.todo do rest[#rest + 1] = self.todo[i] end
    self.todo, self.queued = rest, false
end

-- Calls a function while the session has no queued tokens, and returns its result. An unfinished text goes on afterwards. If there is
-- no room for its tokens any more, `undo` takes back what the function has made.
local function paused(self, run, undo)
    settle(self)
    local is_run, result = pcall(run)
    if not self.reason then
        local goes_on, why = pcall(queue, self)
        if not goes_on then
            if is_run and undo then
                undo(result)
                queue(self)
            end
            error(why, 0)
        end
    end
    if not is_run then error(result, 0) end
    return result
end

-- Adds a piece to the text and to the result of the next step. Returns whether a stop string has ended the text.
local function emit(self, piece)
    local shown
    if self.stops and piece ~= "" then
        shown = struct "gleed_shown"
        check(lib.gleed_stops_push(self.stops, piece, #piece, shown, E))
        piece = ffi.string(shown.held, shown.held_len) .. piece:sub(1, tonumber(shown.text_len))
    end
    self.out, self.text = self.out .. piece, self.text .. piece
    return shown ~= nil and shown.stop ~= constants.GLEED_NO_STOP
end

local function finish(self, reason)
    local shared = self.shared
    if reason ~= "stop" then
        check(lib.gleed_detokenizer_finish(self.detokenizer, shared.text, ffi.sizeof(shared.text), out.count, E))
        if not emit(self, ffi.string(shared.text, out.count[0])) and self.stops then
            check(lib.gleed_stops_finish(self.stops, out.text, out.count, E))
            local held = ffi.string(out.text[0], out.count[0])
            self.out, self.text = self.out .. held, self.text .. held
        end
    end
    self.reason = reason
    if self.replies and #self.ids > 0 then self.messages[#self.messages + 1] = { role = "assistant", text = self.text } end
    if self.replies == "asked" and #self.ids == 0 and reason == "cancelled" then table.remove(self.messages) end
end

local function choose(self, logits, count)
    local shared, matcher = self.shared, self.matcher
    if not matcher then
        check(lib.gleed_sample(self.sampler, logits, count, shared.scratch, count, out.flag, nil, E))
        return out.flag[0]
    end
    local tokens, words = shared.model:trie(), math.ceil(tonumber(count) / 32)
    shared.mask = shared.mask or new("uint32_t[?]", words)
    if self.limit then
        check(lib.gleed_matcher_mask_within(matcher, tokens, self.limit - #self.ids, 0, constants.GLEED_MASK_ENDS, shared.mask, words, E))
    else
        check(lib.gleed_matcher_mask(matcher, tokens, 0, constants.GLEED_MASK_ENDS, shared.mask, words, E))
    end
    check(lib.gleed_sample_masked(self.sampler, logits, count, shared.mask, words, shared.scratch, count, out.flag, nil, E))
    return out.flag[0]
end

-- Takes the next token, which adds to the text or ends it.
local function take(self, token)
    local shared, tables = self.shared, self.shared.model.tokenizer
    if self.replies then check(lib.gleed_turns_is_stop(tables, self.format, token, out.flag, E))
    else check(lib.gleed_token_kind(tables, token, out.number, out.flag, E)) end
    if out.flag[0] ~= 0 then return finish(self, "end") end
    local status = lib.gleed_can_extend(shared.engine, self.seq, 1, E)
    if status == lib.GLEED_FULL or status == lib.GLEED_E_CONTEXT then return finish(self, "context") end
    check(status)
    check(lib.gleed_sampler_accept(self.sampler, token, E))
    if self.matcher then check(lib.gleed_matcher_accept(self.matcher, tables, token, out.flag, E)) end
    self.ids[#self.ids + 1], self.todo = token, { token }
    check(lib.gleed_detokenize(self.detokenizer, tables, token, shared.text, ffi.sizeof(shared.text), out.count, E))
    if emit(self, ffi.string(shared.text, out.count[0])) then return finish(self, "stop") end
    if #self.ids == self.limit then return finish(self, "length") end
    queue(self)
end

-- Computes for all sessions of an engine. Each session whose row is ready gets its next token.
local function advance(shared, units)
    local budget, chosen, failed = struct("gleed_budget", { units = units }), {}, nil
    local status = lib.gleed_step(shared.engine, budget, E)
    if status < 0 then
        for _, session in pairs(shared.sessions) do session.queued, session.reason = false, session.reason or "error" end
    end
    if check(status) ~= lib.GLEED_READY then return end
    local row = 0
    while lib.gleed_result(shared.engine, row, out.number, out.flag, out.logits, out.count, E) == lib.GLEED_OK do
        local session = shared.sessions[out.number[0]]
        session.todo, session.queued = {}, false
        chosen[session], row = { pcall(choose, session, out.logits[0], out.count[0]) }, row + 1
    end
    for session, result in pairs(chosen) do
        local is_chosen, why = unpack(result)
        if is_chosen then is_chosen, why = pcall(take, session, why) end
        if not is_chosen then session.reason, failed = "error", why end
    end
    if failed then error(failed, 0) end
end

-- Returns the options of a text, or raises an error that names the wrong one.
local KNOWN = { tokens = true, stop = true, grammar = true, special = true }
local function checked(options)
    options = options or {}
    if type(options) ~= "table" then error("the options of a text are a table, not " .. tostring(options), 0) end
    for name in pairs(options) do
        if not KNOWN[name] then error("a text has no option " .. tostring(name), 0) end
    end
    local most = options.tokens
    if most ~= nil and (type(most) ~= "number" or not (most >= 1) or most % 1 ~= 0) then
        error("tokens is " .. tostring(most) .. ", it must be a whole number from 1 on", 0)
    end
    return options
end

-- Begins a text after `ids`. Options: tokens (largest number), stop (strings), grammar, special (whether names of control tokens are
-- written).
local function begin(self, ids, options)
    local tables, strings = self.shared.model.tokenizer, type(options.stop) == "string" and { options.stop } or options.stop
    for _, memory in ipairs(self.own) do release(memory) end
    self.own, self.out, self.text, self.ids, self.limit, self.stops, self.matcher = {}, "", "", {}, options.tokens, nil, nil
    check(lib.gleed_detokenizer_size(out.size, out.align, E))
    local flags = lib.GLEED_DECODE_CONTINUES + (options.special and lib.GLEED_DECODE_RENDER_SPECIAL or 0)
    self.detokenizer, self.own[1] = place("gleed_detokenizer", function(memory, size, object)
        check(lib.gleed_detokenizer_init(tables, flags, memory, size, object, E))
    end)
    if strings then
        local texts = new("gleed_string[?]", #strings)
        for i, text in ipairs(strings) do texts[i - 1].text, texts[i - 1].text_len = text, #text end
        check(lib.gleed_stops_size(out.size, out.align, E))
        self.strings, self.stops, self.own[2] = strings, place("gleed_stops", function(memory, size, object)
            check(lib.gleed_stops_init(texts, #strings, memory, size, object, E))
        end)
    end
    if options.grammar then
        check(lib.gleed_matcher_plan(out.size, out.align, nil, E))
        self.grammar, self.matcher, self.own[#self.own + 1] = options.grammar, place("gleed_matcher", function(memory, size, object)
            check(lib.gleed_matcher_init(options.grammar.pointer, nil, memory, size, object, E))
        end)
    end
    self.todo = ids
    if #ids > 0 then queue(self) self.reason = nil end
    return self
end

-- Ends the unfinished text, if there is one. resume goes on with it.
function Session:cancel()
    live(self)
    if self.reason then return end
    settle(self)
    finish(self, "cancelled")
end

-- Forgets all text and the conversation.
function Session:reset()
    self:cancel()
    check(lib.gleed_reset(self.shared.engine, self.seq, E))
    release(self.conversation_memory)
    self.todo, self.messages, self.conversation, self.conversation_memory, self.replies = {}, {}, nil, nil, nil
end

-- Begins a new text: `for piece in session:tell(text) do`. Returns the session.
function Session:tell(text, options)
    options = checked(options)
    local ids = live(self).model:encode(text)
    self:reset()
    return begin(self, ids, options)
end

-- Goes on with a text that the model has not ended itself.
function Session:resume(options)
    options = checked(options)
    self:cancel()
    return begin(self, self.todo, options)
end

-- Lets the model answer `session.messages`, a list of { role =, text = } that the program may change in any way.
function Session:reply(options)
    options = checked(options)
    self:cancel()
    conversation.open(self)
    -- The last chosen token is part of the reply, but not yet in the sequence.
    if #self.todo == 1 and #self.ids > 0 then
        check(lib.gleed_prefill(self.shared.engine, self.seq, array(self.todo), 1, out.logits, out.count, E))
    end
    self.todo = {}
    local ids = conversation.unread(self)
    self.replies = "replies"
    return begin(self, ids, options)
end

-- Says something to the model: `for piece in session:ask(text) do`. The conversation goes on with the next call.
function Session:ask(text, options)
    self:cancel()
    local messages, system = self.messages, self.options.system
    if #messages == 0 and system then messages[1] = { role = "system", text = system } end
    messages[#messages + 1] = { role = "user", text = text }
    local is_begun, why = pcall(self.reply, self, options)
    if not is_begun then
        table.remove(messages)
        error(why, 0)
    end
    self.replies = "asked"
    return self
end

-- Computes for all sessions of the engine, for at most this number of units, or without a number until there is text. Returns the new text,
-- "" if there is none yet, or nil and the reason after the end.
function Session:step(units)
    local shared = live(self)
    if self.out == "" and not self.reason then advance(shared, units or 0) end
    local piece = self.out
    self.out = ""
    if piece == "" and self.reason then return nil, self.reason end
    return piece
end

function Session:__call()
    repeat local piece = self:step() if piece ~= "" then return piece end until false
end

-- Returns the rest of the text.
function Session:read()
    local pieces = {}
    for piece in self do pieces[#pieces + 1] = piece end
    return table.concat(pieces)
end

-- Opens a session with the same text. The two share their memory until it changes. resume goes on. The option `sequences` makes room for
-- forks.
function Session:fork()
    local shared, todo = live(self), nil
    local seq = paused(self, function()
        todo = self.todo
        check(lib.gleed_fork(shared.engine, self.seq, length(self), out.number, E))
        return out.number[0]
    end, function(made) check(lib.gleed_seq_close(shared.engine, made, E)) end)
    local other = join(shared, seq, self.options)
    for i, token in ipairs(todo) do other.todo[i] = token end
    for i, message in ipairs(self.messages) do other.messages[i] = message end
    local goes_on, why = pcall(function()
        for _, token in ipairs(self.ids) do check(lib.gleed_sampler_accept(other.sampler, token, E)) end
        check(lib.gleed_sampler_state(self.sampler, out.long, E))
        check(lib.gleed_sampler_set_state(other.sampler, out.long[0], E))
    end)
    if not goes_on then
        other:close()
        error(why, 0)
    end
    return other
end

-- Keeps the first tokens only. resume goes on after them.
function Session:rewind(keep)
    if type(keep) ~= "number" or not (keep >= 0) or keep % 1 ~= 0 then
        error("keep is " .. tostring(keep) .. ", it must be a whole number from 0 on", 0)
    end
    self:cancel()
    local engine = self.shared.engine
    local is_there = keep <= length(self)
    if keep > 0 and is_there then check(lib.gleed_seq_tokens(engine, self.seq, keep - 1, out.number, 1, E)) end
    -- The last kept token is computed again, because its logits are not kept. A `keep` that is too large is refused here.
    check(lib.gleed_rewind(engine, self.seq, is_there and math.max(keep - 1, 0) or keep, E))
    self.todo, self.ids, self.conversation = keep > 0 and { out.number[0] } or {}, {}, nil
end

-- Returns the ids of all tokens of the text.
function Session:tokens()
    local ids, count = {}, length(self)
    local tokens = new("uint32_t[?]", math.max(count, 1))
    check(lib.gleed_seq_tokens(self.shared.engine, self.seq, 0, tokens, count, E))
    for i = 1, count do ids[i] = tokens[i - 1] end
    return ids
end

local function saved(self)
    local shared, count = self.shared, #self.todo
    if count > 1 then
        -- A prompt that has not been read. The last token is saved apart: resume computes its logits.
        local last = self.todo[count]
        check(lib.gleed_prefill(shared.engine, self.seq, array(self.todo), count - 1, out.logits, out.count, E))
        self.todo = { last }
    end
    check(lib.gleed_sampler_state(self.sampler, out.long, E))
    local after, last = self.replies and lib.GLEED_AFTER_REPLY or 0, self.todo[1] or constants.GLEED_NO_TOKEN
    local state, options = new(SAVED, out.long[0], after, last), struct "gleed_snapshot_options"
    options.state, options.state_len = cast("const uint8_t *", state), 16
    check(lib.gleed_snapshot_size(shared.engine, self.seq, options, out.size, E))
    local bytes = allocate(tonumber(out.size[0]))
    check(lib.gleed_snapshot(shared.engine, self.seq, options, bytes, out.size[0], out.count, E))
    local text = ffi.string(bytes, out.count[0])
    release(bytes)
    return text
end

-- Returns the text so far and the state of the sampler as a string for load. (`messages` is a table of the program, and is not saved.)
function Session:save()
    live(self)
    return paused(self, function() return saved(self) end)
end

-- Loads a text from save. resume goes on with it. Bytes that are refused change nothing.
function Session:load(bytes)
    self:cancel()
    local shared, info = self.shared, struct "gleed_snapshot_info"
    check(lib.gleed_snapshot_describe(bytes, #bytes, info, E))
    if info.state_len ~= 16 then refuse("GLEED_E_SNAPSHOT_HOST", "these bytes are not from save") end
    local state = new(SAVED)
    ffi.copy(state, info.state, 16)
    if state.after == lib.GLEED_AFTER_REPLY then conversation.format(self) end
    local function replace(with)
        check(lib.gleed_restore(shared.engine, nil, with, #with, out.number, E))
        shared.sessions[self.seq], shared.sessions[out.number[0]], self.seq = nil, self, out.number[0]
        self.conversation = nil
    end
    if shared.plan.sequences == 1 then
        -- The engine has no room for two sequences. The present one is restored if the new one is refused.
        local before = self:save()
        check(lib.gleed_seq_close(shared.engine, self.seq, E))
        local is_there, why = pcall(replace, bytes)
        if not is_there then
            replace(before)
            error(why, 0)
        end
    else
        local old = self.seq
        replace(bytes)
        check(lib.gleed_seq_close(shared.engine, old, E))
    end
    check(lib.gleed_sampler_set_state(self.sampler, state.sampler, E))
    self.todo, self.ids, self.conversation = state.last ~= constants.GLEED_NO_TOKEN and { state.last } or {}, {}, nil
    self.replies = state.after == lib.GLEED_AFTER_REPLY and "replies" or nil
end

-- Gives the memory back. The memory of the engine is given back with its last session. A second call does nothing.
function Session:close()
    local shared = self.shared
    if not shared then return end
    settle(self)
    check(lib.gleed_seq_close(shared.engine, self.seq, E))
    shared.sessions[self.seq], self.shared, self.reason, self.out = nil, nil, "closed", ""
    for _, memory in ipairs(self.own) do release(memory) end
    release(self.sampler_memory) release(self.conversation_memory)
    if not next(shared.sessions) then release(shared.memory) release(shared.desk_memory) end
    shared.model.users = shared.model.users - 1
    if shared.model.is_closing then shared.model:close() end
end

-- Begins a session. `sampler` are fields of gleed_sampler_params, `system` and `turns` are for ask, `conversation` and `keep` are fields of
-- gleed_desk_limits and gleed_keep. All other options are fields of gleed_config.
local function session(self, options)
    local own, limits = { sampler = true, system = true, turns = true, conversation = true, keep = true }, {}
    for name, value in pairs(options) do limits[name] = not own[name] and value or nil end
    local config, plan = struct("gleed_config", limits), struct "gleed_plan_info"
    if config.logit_rows == 0 then config.logit_rows = math.max(config.sequences, 1) end
    check(lib.gleed_plan_describe(self.pointer, config, plan, E))
    check(lib.gleed_plan(self.pointer, config, out.size, out.align, E))
    local shared = { model = self, sessions = {}, plan = plan }
    shared.engine, shared.memory = place("gleed_engine", function(memory, size, object)
        check(lib.gleed_engine_init(self.pointer, config, memory, size, object, E))
    end)
    shared.scratch, shared.text = new("uint64_t[?]", self.info.vocab), new("char[?]", math.max(self.vocabulary.max_text, 3))
    check(lib.gleed_seq_open(shared.engine, out.number, E))
    return join(shared, out.number[0], options)
end

return session
